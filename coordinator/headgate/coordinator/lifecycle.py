"""Which ledgers exist: one for each configured limit that a bucket here uses."""

from __future__ import annotations

from math import inf, isinf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.shares import start_level
from headgate.coordinator.config.template_values import VALUES_FROM
from headgate.coordinator.demand.local_buckets import LocalBuckets
from headgate.coordinator.ledger.limits import Limits, apply
from headgate.coordinator.membership.bootstrap import (
    API_ANSWERS_S,
    TOLD_S,
    Moves,
    Opened,
)
from headgate.coordinator.messages.report import AgentLife
from headgate.coordinator.table.arrays import NOBODY

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Set

    from headgate.coordinator.messages.events import Configured, Keys, Restored
    from headgate.coordinator.recompute import Recomputation
    from headgate.coordinator.state import CoordinatorState
    from headgate.coordinator.table.arrays import LedgerBlock
    from headgate.coordinator.table.index import Key

CHANCE_COSTS = 3.0
"""Requests that are expected in a time in which none comes once in twenty times."""


class Lifecycle:
    """Opens and closes ledgers as configuration and buckets come and go."""

    def __init__(self, state: CoordinatorState, recomputation: Recomputation) -> None:
        self._state = state
        self._recomputation = recomputation

    def configure(self, now: float, event: Configured) -> None:
        """Adopt a new revision of the configuration."""
        state = self._state
        before, state.limits = state.limits, Limits(event.configuration)
        limits, local = state.limits, state.local
        gone = {key[1] for key in before.by_key} - {key[1] for key in limits.by_key}
        state.elsewhere.forget(gone)
        if local is not None:
            limits.follow_values(local.keys.templates)
        if event.agents is not None:
            state.agents_told = event.agents
        state.api_tells_by = now + API_ANSWERS_S if event.levels_due else -inf
        for key in state.table:
            if key in limits.by_key:
                block, slot = state.table.at(key)
                # Those inside it may be gone.
                block.own_callers[slot] = nan
                if key not in limits.children:
                    block.inside[0, slot] = 0.0
                if before.ancestors.get(key) != limits.ancestors[key]:
                    block.parent_cap[slot] = block.part_above[slot] = inf
                    block.left_above[slot] = block.left_told[slot] = inf
                    block.wait_above_s[slot], block.shared_above[slot] = 0.0, False
                    block.depth[slot] = len(limits.ancestors[key])
                ruled, ruled_before = limits.by_key[key], before.by_key.get(key)
                if ruled_before != ruled:
                    self._recomputation.settle(block, np.array([slot]), now)
                    if block.unlimited[slot]:
                        self._count_unreported(block, slot, now)
                    apply(ruled, block, slot, ruled_before)
                    self._reopen(block, slot)
        if local is not None:
            self._replace_own(local.keys, now)
        born = limits.by_key.keys() - before.by_key.keys()
        self._track(now, born if before.known else frozenset())
        made = limits.slots.keys() - before.slots.keys() if before.known else ()
        self.follow_slots([key[1] for key in state.strict.stocks], now, made)

    def _reopen(self, block: LedgerBlock, slot: int) -> None:
        """Let a new ledger whose limit has changed begin now, under that limit."""
        bootstrap, number = self._state.bootstrap, int(block.number[slot])
        opened = bootstrap.how_opened(number)
        if opened is not None:
            spent = block.admitted.item(0, slot) - block.begun_admitted.item(slot)
            level = min(block.belief.item(slot) + spent, block.burst.item(slot))
            level -= bootstrap.moved_by(number)  # the others have spent that
            opened.level, opened.at = level, block.at.item(slot)

    def _count_unreported(self, block: LedgerBlock, slot: int, now: float) -> None:
        """Count what others admitted of an unlimited group and have not reported.

        Each admission of such a group is reported at once, so that is what they wanted
        while a report travels.  A member that is silent for longer than chance explains
        isn't heard, and is taken to have gone on.
        """
        state = self._state
        roster = state.detector.roster(now)
        heard_at = roster.heard_at[block.member[1:, slot]] - state.members.lag_s
        unheard_s = now - np.maximum(block.reported_at[1:, slot], heard_at)
        demand, cost = block.demand[1:, slot], block.cost[1:, slot]
        chance = demand * unheard_s < CHANCE_COSTS * cost
        unreported_s = np.minimum(unheard_s, np.where(chance, state.age_s, inf))
        block.admitted[1:, slot] += demand * unreported_s

    def take_keys(self, keys: Keys, now: float) -> None:
        """Adopt a new set of buckets."""
        self._state.limits.follow_values(keys.templates)
        self._replace_own(keys, now)
        self._track(now, frozenset())

    def follow_slots(
        self, used: Iterable[int], now: float, made: Container[int] = ()
    ) -> None:
        """Adopt the groups whose slots are used here; an observer follows all.

        Args:
            used: Ids of the groups.
            now: Monotonic seconds.
            made: Ids of the groups that have slots only now.
        """
        state = self._state
        sizes = state.limits.slots
        if not state.observing:
            sizes = {group: sizes[group] for group in sorted(used) if group in sizes}
        state.schedule.urgent |= state.strict.follow_slots(sizes, now, made)

    def _replace_own(self, keys: Keys, now: float) -> None:
        state, old = self._state, self._state.local
        state.local = LocalBuckets(keys, state.limits.ancestors, state.limits.node, now)
        if old is not None:
            state.local.inherit(old)

    def _track(self, now: float, born: Set[Key]) -> None:
        """Keep exactly one ledger for each limit in use."""
        state, limits, strict = self._state, self._state.limits, self._state.strict
        wanted = set(limits.by_key)
        if not state.observing:
            wanted.intersection_update(() if state.local is None else state.local.names)
        for key in state.table:
            if key not in wanted:
                block, slot = state.table.at(key)
                state.bootstrap.forget(int(block.number[slot]))
                others_use = key in limits.strict
                moved = strict.stop_using(key, now, others_use=others_use)
                state.schedule.urgent |= moved
                state.table.remove(key)
        heard = not state.detector.cut_off(now)
        for key in sorted(wanted.difference(state.table)):
            self._open(key, now, born=heard and key in born)
        for key in wanted - limits.strict:
            strict.stop_using(key, now, others_use=False)
        for key in sorted(wanted & limits.strict):
            strict.open(key, now, since_made=key in born)

    def _open(self, key: Key, now: float, *, born: bool) -> None:
        state, local = self._state, self._state.local
        block, slot = state.table.add(key)
        block.at[slot] = now
        apply(state.limits.by_key[key], block, slot)
        block.depth[slot] = len(state.limits.ancestors[key])
        block.admitted[0, slot] = 0.0
        level = block.burst.item(slot)
        if local is not None and key in local.at:
            at = local.at[key]
            block.admitted[0, slot] = local.admitted[at]
            if not np.isnan(local.overflowed[at]):
                block.overflowed[slot] = local.overflowed[at]
        counted = block.admitted.item(0, slot)
        block.known_admitted[slot] = block.reported_admitted[slot] = counted
        block.begun_admitted[slot] = counted
        block.begun_at[slot] = now
        if not born:
            level = self._unborn_level(key, block, slot, now)
        block.level[slot] = block.belief[slot] = level

    def _unborn_level(
        self, key: Key, block: LedgerBlock, slot: int, now: float
    ) -> float:
        """Return the level that a ledger begins with which others may have used."""
        state, level = self._state, block.burst.item(slot)
        rate, number = block.rate.item(slot), int(block.number[slot])
        stored = state.bootstrap.recall(key, rate=rate, now=now)
        state.bootstrap.opened(key)
        block.includes_at[slot] = -inf if stored is None else now - stored[1]
        if stored is None and key[1] >= VALUES_FROM:
            stored = level, 0.0  # no agent knows this value: unused, so full
        strict = key in state.limits.strict  # it claims permits, and has no level
        unused_s = inf if strict else state.elsewhere.unused_s(key[1], now)
        if unused_s < inf:
            # Whatever was stored, others have used it since, or are about to tell.
            since = self._of_this_period(key, rate * unused_s, unused_s)
            level = min(level, since)
        if stored is not None:
            level = min(self._of_this_period(key, *stored), level)
        else:
            on = self._recomputation.conditions(now)
            start = start_level(block, slot, on)
            level = max(start, level) if unused_s < inf else start
        opened = Opened(level, now, until=now)
        if unused_s < inf:
            state.bootstrap.ask_api(key, opened, now)
        elif stored is None and not strict:
            opened.until = max(now, state.api_tells_by)
        block.guessed[slot] = stored is None or unused_s < inf
        # Other agents may know its level: ask, and spend an even part until then.
        block.joining_until[slot] = np.inf
        block.unanswered[slot] = True
        state.bootstrap.begin(number, opened)
        return level

    def first_terms(
        self, key: Key, now: float, template: int | None = None
    ) -> tuple[float, float] | None:
        """Return level and window of a limit that has no ledger here yet.

        The group of a template's new value counts as unused, as in `_open`.

        They are what the first look will find if the API reported the level and only
        the number of agents matters.  A limit that is strict, closed or has others
        inside needs more than that, and so does one that has a parent, unless it is in
        debt.  Another thread may call this while the agent's thread computes; each
        value read here is replaced as a whole.
        """
        state, limits = self._state, self._state.limits
        known = key if template is None else (key[0], template)
        ruled = limits.by_key.get(known)
        if ruled is None or ruled.group.mode == "strict" or state.observing:
            return None
        if ruled.group.isolation == "closed" or state.detector.cut_off(now):
            return None
        if known in limits.children:
            return None
        limit = ruled.limit
        stored = state.bootstrap.recall(key, rate=limit.rate_per_s, now=now)
        if stored is None and template is not None:
            stored = limit.burst, 0.0
        if stored is None or isinf(limit.burst):
            return None
        level = min(self._of_this_period(key, *stored), limit.burst)
        # A debt holds whatever is left above, and whoever has used the limit since.
        unused_s = state.elsewhere.unused_s(key[1], now)
        others = limit.rate_per_s * unused_s < limit.burst
        if level >= 0.0 and (others or limits.ancestors[known]):
            return None  # the API will tell, or the others, or the look
        present = self._recomputation.present(now)
        return level, inf if present <= 1.0 else max(level, 0.0) / present

    def _of_this_period(self, key: Key, level: float, age_s: float) -> float:
        """Return a stored level, or what a new calendar period makes of it."""
        limit = self._state.limits.calendar.get(key)
        if limit is None or self._state.wall_s - age_s >= limit.begins_at_s:
            return level
        return limit.renewed(level)[0]

    def restore(self, now: float, event: Restored) -> None:
        """Adopt stored levels for ledgers whose level no agent reports.

        A ledger starts at its stored level, so that whatever is spent until the others
        answer, or fail to, is charged to it.
        """
        state, moved = self._state, list[tuple[int, float]]()
        counted = event.counted
        if counted is None:
            counted = np.full(len(event.level), nan)
        columns = (c.tolist() for c in (event.group_ids, event.level, counted))
        others = event.others or [None] * len(event.level)
        for group_id, level, own, told in zip(*columns, others, strict=True):
            key = (event.dimension, group_id)
            if key not in state.table:
                state.bootstrap.stored(key, level, at=now - event.age_s)
            elif event.age_s <= state.elsewhere.since(group_id, now):
                moved += self._correct(key, level, event.age_s, own, told, now)
        if moved:  # else others have used them since then, or have told their level
            numbers, by = zip(*moved, strict=True)
            state.bootstrap.moved(Moves(np.array(numbers), np.array(by)))

    def _correct(
        self,
        key: Key,
        level: float,
        age_s: float,
        counted: float,
        others: Mapping[AgentLife, float] | None,
        now: float,
    ) -> Iterator[tuple[int, float]]:
        """Correct a level that no agent has reported; yield the ledger, and by what.

        What was spent since the ledger began stays charged, except what of it the
        level includes.
        """
        state, held_at = self._state, now - age_s
        block, slot = state.table.at(key)
        if block.joining_until[slot] <= now or held_at < block.includes_at[slot]:
            return
        number = int(block.number[slot])
        self._recomputation.settle(block, np.array([slot]), now)
        level = self._of_this_period(key, level, age_s)
        rate, burst = block.rate.item(slot), block.burst.item(slot)
        belief = block.belief.item(slot)
        change = min(level + rate * age_s, burst) - belief
        opened = state.bootstrap.how_opened(number)
        if opened is not None:
            own, begun = block.admitted.item(0, slot), block.begun_admitted.item(slot)
            # If it is more than this life has used, it is of an earlier one.
            included = counted - begun if begun < counted <= own else 0.0
            later, told = self._beyond(block, slot, others or {})
            later += state.bootstrap.moved_by(number, but=told)
            later -= state.bootstrap.moved_by(number, held_at, but=told)
            moved = state.bootstrap.moved_by(number) - later
            # Too little if that level has reached B since.
            change += included + begun - own + later
            # Too little if this ledger has.
            then_left = min(level + rate * (opened.at - held_at), burst)
            change = max(change, then_left - opened.level + included - moved)
            change = min(change, burst - belief)
            opened.level += change
            opened.until = opened.at
            since = state.detector.unheard_from(now, TOLD_S)
            since -= state.members.lease_of(None)  # a silence may have begun
            state.bootstrap.told_of(number, others, now, since=since)
        block.level[slot] += change
        block.belief[slot] += change
        block.includes_at[slot] = held_at
        block.guessed[slot] = block.bucket_knows[slot] = False
        block.dirty[slot] = True
        yield number, change

    def _beyond(
        self, block: LedgerBlock, slot: int, others: Mapping[AgentLife, float]
    ) -> tuple[float, list[int]]:
        """Return by how much members moved a ledger beyond counters that the API told.

        Units, and the numbers of those members.  What the API has heard, but this agent
        has not, is expected.
        """
        beyond, told = 0.0, list[int]()
        for line in range(1, block.used.item(slot)):
            if (number := block.member.item(line, slot)) == NOBODY:
                continue
            member = self._state.members.by_number[number]
            counted = others.get(AgentLife(member.agent, member.incarnation))
            if counted is not None:
                known = block.admitted.item(line, slot)
                known += block.predicted.item(line, slot)
                unheard = max(counted - known, 0.0)
                beyond += min(counted - known, 0.0)
                block.predicted[line, slot] += unheard
                block.level[slot] += unheard
                told.append(number)
        return beyond, told
