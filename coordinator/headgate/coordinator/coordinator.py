"""The coordinator of one agent: events in, effects out, no clock and no I/O."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, assert_never

import numpy as np

from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.escrow.targets import ask_for_room
from headgate.coordinator.explain.explain import explained, member_views
from headgate.coordinator.gossip.schedule import CONFIRM_S
from headgate.coordinator.ledger.replay import charge_own
from headgate.coordinator.lifecycle import Lifecycle
from headgate.coordinator.membership.failure_detector import GONE_PART
from headgate.coordinator.messages.events import (
    ApiAnswers,
    Claim,
    Configured,
    Counted,
    Effect,
    Event,
    Granted,
    Heard,
    Renamed,
    Restored,
    SetSlots,
    Stopping,
    Vouched,
    WakeAt,
)
from headgate.coordinator.receiver import ReportReceiver
from headgate.coordinator.recompute import Recomputation
from headgate.coordinator.sender import last_report, report_due
from headgate.coordinator.state import CoordinatorState
from headgate.coordinator.table.one_or_many import chosen, lesser, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.escrow.slots import SlotView
    from headgate.coordinator.explain.views import Explanation, MemberView
    from headgate.coordinator.table.index import Key

RENAMED_MARK = "~"
"""Separates the given id from the suffix that makes it unique."""


class Coordinator:
    """Keeps every ledger, hears the others, and sets this agent's ceilings.

    The shell steps `Configured` first, then `Counted` at least whenever the last
    `WakeAt` says, and `Heard` for each report that arrives, its own included.  It
    performs the effects in their order before it steps the next event.

    Args:
        settings: Parameters.
        agent: Id of this agent, unique in the cluster.
        incarnation: This life; larger than that of any earlier one.
        seed: Determines the phase of heartbeats, and a new id should one be needed.
        draw: Returns numbers from 0 to 1, to be used instead of the seed: a process
            that draws only two of them need not load numpy's generators (7 MB).
        now: Monotonic time, seconds.
        observing: This agent only listens: it publishes nothing and has no share.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        agent: str,
        incarnation: int,
        seed: int,
        now: float,
        observing: bool = False,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self._draw = draw or np.random.default_rng(seed).random
        self._now = now
        self._told_until = -inf
        self._slots: tuple[dict[int, int], float] = {}, -inf
        self._state = CoordinatorState(
            settings,
            agent=agent,
            incarnation=incarnation,
            phase=float(self._draw()),
            now=now,
            observing=observing,
        )
        self._recomputation = Recomputation(self._state)
        self._lifecycle = Lifecycle(self._state, self._recomputation)
        self._receiver = ReportReceiver(self._state, now)

    def met(self, now: float) -> bool:
        """Return whether the other agents have had time to answer this one."""
        return self._state.members.knows_at <= now

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        """Process one event and return the effects that the shell must perform.

        Args:
            now: Monotonic time, seconds; an earlier one than before counts as
                the same time.
            event: What happened.
            wall_s: Wall clock.  It stamps reports and decides which calendar period a
                stored level belongs to; nothing else depends on it.
        """
        now = self._now = max(now, self._now)
        self._state.wall_s = wall_s
        effects: list[Effect] = []
        match event:
            case Counted():
                self._count(now, event, effects)
            case Heard():
                # Strict groups may need an answer at once.
                wait = len(event.reports) > 1 and not self._state.strict
                try:
                    for report in event.reports:
                        if self._receiver.hear(report, now, effects, wait=wait):
                            self._rename(effects)
                finally:  # rows must not wait past this step: members come and go
                    self._receiver.enter(now, effects)
            case Configured():
                self._lifecycle.configure(now, event)
            case Vouched() | ApiAnswers():
                self._hear_api(now, event)
            case Restored():
                self._lifecycle.restore(now, event)
            case Granted():
                effects.extend(self._state.strict.grant(event, now))
            case Stopping():
                effects.extend(last_report(self._state, now))
            case _:
                assert_never(event)
        return effects

    def _hear_api(self, now: float, event: Vouched | ApiAnswers) -> None:
        if isinstance(event, ApiAnswers):
            self._state.strict.api_answers = event.answers
        else:
            self._state.detector.vouch(event, now)

    def _rename(self, effects: list[Effect]) -> None:
        """Leave the id to the process that started later; go on under a new one."""
        state, schedule = self._state, self._state.schedule
        base = state.agent.partition(RENAMED_MARK)[0]
        state.agent = f"{base}{RENAMED_MARK}{int(self._draw() * (1 << 32)):08x}"
        state.members.forget_published()
        schedule.hello = True
        if state.members.echoed:
            # The others have charged what was reported under the id that it leaves.
            for block in state.table.blocks:
                block.begun_at[block.told_at < inf] = -inf
        state.strict.begin(state.agent, state.incarnation, self._now)
        if state.strict.stocks:
            self._slots = {}, self._slots[1]
            effects.append(SetSlots({}, -inf, lost=True))
        effects.append(Renamed(state.agent))

    # The tick.

    def _count(self, now: float, event: Counted, effects: list[Effect]) -> None:
        state, schedule = self._state, self._state.schedule
        if state.local is None or event.keys is not state.local.keys:
            self._lifecycle.take_keys(event.keys, now)
        local = state.local
        assert local is not None
        local.place_in(state.table)
        since = self._receiver.look(now, effects)
        self._count_slots(event, now)
        busy = self._enter_counters(local, event, now, since)
        effects.extend(state.detector.advance(now, state.agent))
        self._recomputation.finish_joining(now)
        # Report first, so that this agent computes with what its receivers compute
        # with; effects still lower ceilings before anyone can take what that frees.
        if state.strict and not state.observing:
            schedule.urgent |= state.strict.step(now, local)
            schedule.hello |= state.strict.asks
            effects.extend(state.strict.claims(now))
            effects.extend(state.strict.notices(now))
        if questions := state.bootstrap.questions:
            effects.append(Claim(state.agent, frozenset(questions), now))
            questions.clear()
        if schedule.wonders(now) and not state.members.all_whole():
            schedule.hello = True
        told = [] if state.observing else report_due(state, local, now)
        effects.extend(self._recomputation.calculate(local, now))
        self._set_slots(now, effects, told=bool(told))
        effects.extend(told)
        effects.append(WakeAt(self._next_at(now, busy=busy)))

    def _count_slots(self, event: Counted, now: float) -> None:
        strict, counts = self._state.strict, event.slots
        if counts or strict.stocks:
            self._lifecycle.follow_slots([count.group_id for count in counts], now)
        for count in counts:
            if (IN_FLIGHT, count.group_id) in strict.stocks:
                strict.stocks[IN_FLIGHT, count.group_id].count(count, now)

    def _set_slots(self, now: float, effects: list[Effect], *, told: bool) -> None:
        """Tell the shell how many slots may be held, if that changed or would expire.

        While the others hear nothing from this agent they may presume it dead after
        half a lease, so it hands out slots for no longer than that.
        """
        strict, settings = self._state.strict, self._state.settings
        if told and not strict.stopped:
            lease_s = settings.lease_min_intervals * settings.interval_s
            self._told_until = now + GONE_PART * lease_s
        before = self._slots
        self._slots = strict.may_hold(), min(self._told_until, strict.stops_at())
        if before != self._slots and (before[0] or self._slots[0]):
            effects.append(SetSlots(*self._slots))

    def _enter_counters(
        self, local: LocalBuckets, event: Counted, now: float, since: float
    ) -> bool:
        """Enter this agent's own counters; return whether callers are busy."""
        moved = local.count(event)
        if not moved and not local.demand.due(now):
            local.rest(now)
            return False
        reset = local.look(now)
        if self._state.strict:
            ask_for_room(local)
        local.add_up()
        local.confirm_at[reset] = now + CONFIRM_S
        refresh = self._recomputation.refresh_s()
        for place in local.places:
            block, slots, rows = place.block, single(place.slots), single(place.rows)
            admitted, overflowed = local.admitted[rows], local.overflowed[rows]
            used = local.used[rows] & moved
            charge_own(block, slots, admitted, overflowed, since, now, used)
            block.held[0, slots] = local.held[rows]
            block.demand[0, slots] = local.usable[rows]
            block.beyond[0, slots] = local.beyond[rows]
            local.passes[rows] = block.passes[slots]
            block.cost[0, slots] = local.cost[rows]
            block.refused[0, slots] = local.refused[rows]
            block.subjects[0, slots] = local.subjects[rows]
            if moved:
                soon = lesser(block.due[slots], block.at[slots] + refresh)
                block.due[slots] = chosen(used, soon, block.due[slots])
            block.dirty[slots] |= reset[rows]
        return local.demand.busy(now)

    def _next_at(self, now: float, *, busy: bool) -> float:
        state, settings = self._state, self._state.settings
        if state.strict.waits:
            return now
        stops_at = state.strict.stops_at()
        pace = settings.tick_s if busy or state.bootstrap else settings.rest_tick_s
        return min(
            now + pace,
            max(state.schedule.next_beat, now + settings.tick_s),
            max(self._recomputation.arrives_at, now),
            stops_at if stops_at > now else inf,
        )

    def first_terms(
        self, group_id: int, dimension: str, now: float, template: int | None = None
    ) -> tuple[float, float] | None:
        """Return level and window, units, that a new bucket may assume until a look.

        None if they can't be known before that.  `template` is the id of the template
        whose limits the group has for one value.
        """
        key = (dimension, group_id)
        return self._lifecycle.first_terms(key, max(now, self._now), template)

    # Views for people and metrics.

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        """Return every input of this agent's share of one limit.

        Raises:
            KeyError: No such limit is tracked here.
        """
        key, now = (dimension, group_id), max(now, self._now)
        return explained(self._state, self._recomputation, key, now)

    def slots(self, group_id: int) -> list[SlotView]:
        """Return who holds how many slots of a group, by id; empty if unknown."""
        return self._state.strict.slot_views(group_id)

    def grantable(self, group_id: int, dimension: str, agent: str) -> bool:
        """Return whether nobody can own a part of a strict limit that `agent` claims.

        Only an agent that has listened since before the limit was made can know.
        """
        return self._state.strict.grantable((dimension, group_id), agent)

    def used(self) -> list[Key]:
        """Return the limits for which other agents have reported rows, by key."""
        table, members = self._state.table, self._state.members.by_number
        lines = [np.zeros(0, np.int64), *map(table.lines_of, members)]
        numbers: list[int] = np.unique(np.concatenate(lines)).tolist()
        return sorted(map(table.key_of, numbers))

    def appeared(self) -> list[Key]:
        """Return the limits that agents have begun to use since the last call.

        They may have left since.  Only an observer keeps them.
        """
        keys, self._state.appeared = self._state.appeared, set()
        return sorted(keys)

    def members(self, now: float) -> list[MemberView]:
        """Return all agents that are known, this one included, by id."""
        return member_views(self._state, max(now, self._now))
