"""Which ledgers there are: limits of the configuration that buckets here use."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import margin_of
from headgate.coordinator.allocation.hierarchy import Tree
from headgate.coordinator.demand.local_buckets import Own
from headgate.coordinator.ledger.limits import Limits, apply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.coordinator.messages.events import Configured, Keys, Restored
    from headgate.coordinator.recompute import Calculation
    from headgate.coordinator.state import Core
    from headgate.coordinator.table.index import Key


class Tracking:
    """Opens and closes ledgers as configuration and buckets come and go."""

    def __init__(self, core: Core, calculation: Calculation) -> None:
        self._core = core
        self._calculation = calculation

    def configure(self, now: float, event: Configured) -> None:
        """Follow a new revision."""
        before, self._core.limits = self._core.limits, Limits(event.configuration)
        self._core.tree = Tree(self._core.limits)
        for key in self._core.table:
            if key in self._core.limits.by_key:
                shelf, slot = self._core.table.at(key)
                shelf.direct[slot] = nan  # there may be no children any more
                if before.ancestors.get(key) != self._core.limits.ancestors[key]:
                    shelf.part[slot] = inf
                ruled = self._core.limits.by_key[key]
                if before.by_key.get(key) != ruled:
                    self._calculation.settle(shelf, np.array([slot]), now)
                    apply(ruled, shelf, slot)
        if self._core.own is not None:
            self._replace_own(self._core.own.keys, now)
        born: set[Key] = set()
        if before.by_key:
            born = set(self._core.limits.by_key) - set(before.by_key)
        self._track(now, born=born)
        self.follow_slots([key[1] for key in self._core.strict.stocks], now)

    def take_keys(self, keys: Keys, now: float) -> None:
        """Follow a new set of buckets."""
        self._replace_own(keys, now)
        self._track(now, born=set())

    def follow_slots(self, used: Iterable[int], now: float) -> None:
        """Follow whose slots are used here: of these groups, or all where observing."""
        core = self._core
        sizes = core.limits.slots
        if not core.observing:
            sizes = {group: sizes[group] for group in sorted(used) if group in sizes}
        core.reporting.urgent |= core.strict.follow_slots(sizes, now)

    def _replace_own(self, keys: Keys, now: float) -> None:
        old = self._core.own
        self._core.own = Own(
            keys, self._core.limits.ancestors, self._core.limits.node, now
        )
        if old is not None:
            self._core.own.inherit(old)
        self._core.placed = -1

    def _track(self, now: float, born: set[Key]) -> None:
        """Have a ledger for each limit in use, and no other."""
        wanted: set[Key] = set(self._core.limits.by_key)
        if not self._core.observing:
            wanted &= set(self._core.own.names) if self._core.own is not None else set()
        for key in self._core.table:
            if key not in wanted:
                self._core.joining.forget(int(self._number(key)))
                if key in self._core.limits.by_key and self._core.strict.retire(
                    key, now
                ):
                    self._core.reporting.urgent = True
                self._core.strict.close(key)
                self._core.table.remove(key)
        for key in sorted(wanted):
            if key not in self._core.table:
                self._open(key, now, born=key in born)
            if self._core.limits.by_key[key].group.mode == "strict":
                self._core.strict.open(key, now)
            else:
                self._core.strict.close(key)
        self._core.placed = -1

    def _number(self, key: Key) -> int:
        shelf, slot = self._core.table.at(key)
        return int(shelf.number[slot])

    def _open(self, key: Key, now: float, *, born: bool) -> None:
        shelf, slot = self._core.table.add(key, own=0)
        shelf.at[slot] = now
        apply(self._core.limits.by_key[key], shelf, slot)
        shelf.admitted[0, slot] = 0.0
        shelf.level[slot] = shelf.burst[slot]
        if self._core.own is not None and key in self._core.own.at:
            shelf.admitted[0, slot] = self._core.own.admitted[self._core.own.at[key]]
        if not born:
            at = slice(slot, slot + 1)
            on = self._calculation.conditions(now)
            shelf.level[at] = margin_of(
                shelf.rate[at], shelf.burst[at], shelf.cost[at], on
            )
            stored = self._core.joining.recall(key, rate=shelf.rate.item(slot), now=now)
            if stored is not None:
                shelf.level[slot] = min(stored, shelf.burst.item(slot))
            # Others may know it: ask, and spend only the floor until they answer.
            shelf.joining_until[slot] = np.inf
            self._core.joining.begin(int(shelf.number[slot]))

    def restore(self, now: float, event: Restored) -> None:
        """Take levels that were stored, for ledgers that nobody answers for.

        A ledger begins at its level, so that what is spent until the others have
        answered, or have not, is charged to it.
        """
        told: dict[int, float] = {}
        for group_id, level in zip(
            event.group_ids.tolist(), event.level.tolist(), strict=True
        ):
            key = (event.dimension, group_id)
            if key in self._core.table:
                told[self._number(key)] = level
            else:
                self._core.joining.stored(key, level, at=now - event.age_s)
        numbers = np.array(list(told), dtype=np.int64)
        for shelf, slots in self._core.table.where(numbers):
            unsure = shelf.joining_until[slots] > now  # nobody has told its level yet
            slots = slots[unsure & np.isfinite(shelf.rate[slots])]
            self._calculation.settle(shelf, slots, now)
            level = np.array([told[n] for n in shelf.number[slots].tolist()])
            level += shelf.rate[slots] * event.age_s
            shelf.level[slots] += np.minimum(level, shelf.burst[slots])
            shelf.level[slots] -= shelf.belief[slots]
            shelf.dirty[slots] = True
