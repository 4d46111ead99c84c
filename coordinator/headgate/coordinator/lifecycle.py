"""Which ledgers there are: limits of the configuration that buckets here use."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import start_level
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
        if event.agents is not None:
            self._core.agents_told = event.agents
        self._core.tree = Tree(self._core.limits)
        for key in self._core.table:
            if key in self._core.limits.by_key:
                block, slot = self._core.table.at(key)
                block.direct[slot] = nan  # there may be no children any more
                if before.ancestors.get(key) != self._core.limits.ancestors[key]:
                    block.part[slot] = inf
                ruled = self._core.limits.by_key[key]
                if before.by_key.get(key) != ruled:
                    self._calculation.settle(block, np.array([slot]), now)
                    apply(ruled, block, slot, before.by_key.get(key))
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
        block, slot = self._core.table.at(key)
        return int(block.number[slot])

    def _open(self, key: Key, now: float, *, born: bool) -> None:
        block, slot = self._core.table.add(key, own=0)
        block.at[slot] = now
        apply(self._core.limits.by_key[key], block, slot)
        block.admitted[0, slot] = 0.0
        level = block.burst.item(slot)
        if self._core.own is not None and key in self._core.own.at:
            at = self._core.own.at[key]
            block.admitted[0, slot] = self._core.own.admitted[at]
            if not np.isnan(self._core.own.overflowed[at]):
                block.overflowed[slot] = self._core.own.overflowed[at]
        counted = block.admitted.item(0, slot)
        block.known_admitted[slot] = block.told_admitted[slot] = counted
        if not born:
            stored = self._core.joining.recall(key, rate=block.rate.item(slot), now=now)
            if stored is not None:
                level = min(self._of_this_period(key, *stored), level)
            else:
                on = self._calculation.conditions(now)
                level = start_level(block, slot, on, self._core.settings)
            # Others may know it: ask, and spend only the floor until they answer.
            block.joining_until[slot] = np.inf
            self._core.joining.begin(int(block.number[slot]))
        block.level[slot] = block.belief[slot] = level

    def _of_this_period(self, key: Key, level: float, age_s: float) -> float:
        """Return a stored level; of an earlier calendar period, what it begins with."""
        limit = self._core.limits.calendar.get(key)
        if limit is None or self._core.wall_s - age_s >= limit.begins_at_s:
            return level
        return limit.renewed(level)

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
                told[self._number(key)] = self._of_this_period(key, level, event.age_s)
            else:
                self._core.joining.stored(key, level, at=now - event.age_s)
        numbers = np.array(list(told), dtype=np.int64)
        for block, slots in self._core.table.where(numbers):
            unsure = block.joining_until[slots] > now  # nobody has told its level yet
            slots = slots[unsure & np.isfinite(block.rate[slots])]
            self._calculation.settle(block, slots, now)
            level = np.array([told[n] for n in block.number[slots].tolist()])
            level += block.rate[slots] * event.age_s
            change = np.minimum(level, block.burst[slots]) - block.belief[slots]
            block.level[slots] += change
            block.belief[slots] += change
            block.bucket_knows[slots] = False
            block.dirty[slots] = True
