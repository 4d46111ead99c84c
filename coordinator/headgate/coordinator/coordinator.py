"""The coordinator of one agent: events in, effects out, no clock and no I/O."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, assert_never

import numpy as np

from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.escrow.holder import GONE_PART
from headgate.coordinator.escrow.targets import ask_for_room
from headgate.coordinator.explain.explain import (
    Stand,
    explained,
    ledger_view,
    member_views,
)
from headgate.coordinator.gossip.schedule import CONFIRM_S
from headgate.coordinator.ledger.replay import charge_own
from headgate.coordinator.lifecycle import Tracking
from headgate.coordinator.messages.events import (
    Configured,
    Counted,
    Effect,
    Event,
    Heard,
    HeardTogether,
    Noticed,
    Renamed,
    Restored,
    SetSlots,
    Stopping,
    Vouched,
    WakeAt,
)
from headgate.coordinator.messages.report import AgentLife
from headgate.coordinator.recompute import Calculation
from headgate.coordinator.sender import Speaking
from headgate.coordinator.state import Core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.escrow.slots import SlotView
    from headgate.coordinator.explain.views import Explanation, LedgerView, MemberView
    from headgate.coordinator.gossip.receiver import Outcome
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.index import Key

    Floats = NDArray[np.float64]

RENAMED_MARK = "~"
"""Between the id that was given and what makes it unique."""


class Coordinator:
    """Keeps every ledger, hears the others, and sets this agent's ceilings.

    The shell steps `Configured` first, then `Counted` at least whenever the last
    `WakeAt` says, and `Heard` for each report that comes, its own included.  It
    performs the effects in their order before it steps the next event.

    Args:
        settings: Parameters.
        agent: Id of this agent, unique in the cluster.
        incarnation: This life; larger than that of any earlier one.
        seed: Of the phase of heartbeats and of a new id, should one be needed.
        now: Monotonic time, seconds.
        wall_s: Wall clock, seconds since the epoch.
        observing: Only listens: publishes nothing and has no part in any group.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        agent: str,
        incarnation: int,
        seed: int,
        now: float,
        wall_s: float,
        observing: bool = False,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._now = self._counted_at = now
        self._goes_on = self._asked_again = False
        self._may_hold: dict[int, int] = {}
        self._slots_until = -inf
        self._core = Core(
            settings,
            agent=agent,
            incarnation=incarnation,
            phase=float(self._random.random()),
            now=now,
            observing=observing,
        )
        self._calculation = Calculation(self._core)
        self._tracking = Tracking(self._core, self._calculation)
        self._speaking = Speaking(self._core)

    @property
    def agent(self) -> str:
        """Id that this agent goes by; changes with `Renamed`."""
        return self._core.agent

    @property
    def incarnation(self) -> int:
        """This life."""
        return self._core.incarnation

    @property
    def revision(self) -> int:
        """Of the configuration that is followed."""
        return self._core.limits.revision

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        """Take one event and say what is to be done.

        Args:
            now: Monotonic time, seconds; an earlier one than before counts as
                the same time.
            event: What happened.
            wall_s: Wall clock; stamps reports, and says in which calendar period a
                level was stored.  Nothing else depends on it.
        """
        now = self._now = max(now, self._now)
        self._core.wall_s = wall_s
        effects: list[Effect] = []
        match event:
            case Counted():
                self._count(now, event, wall_s, effects)
            case Heard():
                self._hear(now, event.report, effects)
            case HeardTogether():
                try:
                    for report in event.reports:
                        # What is told of strict groups may ask for an answer at once.
                        wait = not self._core.strict
                        self._hear(now, report, effects, wait=wait)
                finally:  # nothing may wait past this step: members come and go
                    self._take_in(self._core.listening.enter(), effects)
            case Configured():
                self._tracking.configure(now, event)
            case Vouched():
                self._core.attendance.vouch(event, now)
                self._core.strict.vouch(event)
            case Restored():
                self._tracking.restore(now, event)
            case Stopping():
                if not self._core.observing:
                    self._speaking.stop(now, wall_s, effects)
            case _:
                assert_never(event)
        return effects

    # What is heard.

    def _hear(
        self, now: float, report: Report, effects: list[Effect], *, wait: bool = False
    ) -> None:
        self._notice_pause(now, effects)  # what waited meanwhile may come first
        heard = self._core.listening.hear(
            self._core.limits.of_this_period(report),
            now,
            agent=self._core.agent,
            incarnation=self._core.incarnation,
            revision=self.revision,
            wait=wait,
        )
        self._take_in(heard, effects)
        if report.cluster == self._core.settings.cluster:
            self._core.strict.note(AgentLife(report.agent, report.incarnation), now)
        if heard.believed and self._core.strict:
            self._hear_permits(report, now, effects)
        if heard.doubled or self._core.strict.superseded:
            self._rename(effects)
        self._note_questions(heard, now)
        if heard.behind and not self._asked_again and not self._goes_on:
            # The hello after a pause may have been answered before the bus was back.
            self._asked_again = True
            self._ask_anew()
        if heard.echo is not None:
            self._core.joining.echoed(heard.echo, now + self._core.members.answer_s())
        elif self._core.observing and self._core.joining.answered():
            # It never asks, so it never hears itself: the first answers will do.
            self._core.joining.take_what_came(now + self._core.settings.interval_s)

    def _take_in(self, heard: Outcome, effects: list[Effect]) -> None:
        """Say what was noticed, and answer rows that someone had no line for."""
        effects.extend(heard.noticed)
        if self._core.own is not None and len(heard.fresh):
            gap_s = self._core.members.answer_gap_s()
            self._core.reporting.owe_rows(self._now, gap_s)
            for number in heard.fresh.tolist():
                at = self._core.own.index_of.get(number)
                if at is not None:
                    self._core.own.wanted[at] = True

    def _note_questions(self, heard: Outcome, now: float) -> None:
        """Note what is to be answered, and what to ask if it does not come anyway."""
        members, reporting = self._core.members, self._core.reporting
        if heard.asked:
            reporting.owe(now, members.answer_gap_s())
        if heard.unknown:
            wait_s = 2.0 * members.answer_gap_s() + members.answer_s()
            reporting.wonder(now, wait_s)

    def _hear_permits(self, report: Report, now: float, effects: list[Effect]) -> None:
        if self._core.strict.hear(report, now):
            self._core.reporting.owe(now, self._core.members.answer_gap_s())
        if (report.permits or report.rows) and not self._core.observing:
            # Others wait for what is given on: look at once.
            effects.append(WakeAt(now))

    def _rename(self, effects: list[Effect]) -> None:
        """Leave the id to the process that started later, and begin under a new one."""
        base = self._core.agent.partition(RENAMED_MARK)[0]
        self._core.agent = (
            f"{base}{RENAMED_MARK}{int(self._random.integers(1 << 32)):08x}"
        )
        self._core.members.forget_published()
        self._core.reporting.hello = True
        self._core.strict.begin(self._core.agent, self._core.incarnation, self._now)
        if self._core.strict.stocks:
            self._may_hold = {}
            effects.append(SetSlots({}, -inf, lost=True))
        effects.append(Renamed(self._core.agent))

    # The tick.

    def _count(
        self, now: float, event: Counted, wall_s: float, effects: list[Effect]
    ) -> None:
        if self._core.own is None or event.keys is not self._core.own.keys:
            self._tracking.take_keys(event.keys, now)
        own = self._core.own
        assert own is not None
        if self._core.placed != self._core.table.version:
            own.place_in(self._core.table)
            self._core.placed = self._core.table.version
        self._notice_pause(now, effects)
        since, self._counted_at = self._counted_at, now
        if self._goes_on:
            # Not before: what was sent before the question is no answer to it.
            self._goes_on = self._asked_again = False
            self._ask_anew()
        self._count_slots(event, now)
        busy = self._enter_own(own, event, now, since)
        effects.extend(self._core.attendance.advance(now, self._core.agent))
        self._calculation.finish_joining(now)
        # What is told enters the calculation, as it does at those who hear it; but
        # ceilings are lowered before anyone can take what they leave.
        if self._core.strict and not self._core.observing:
            heard_own = self._core.members.echoed
            if self._core.strict.step(now, own, heard_own=heard_own):
                self._core.reporting.urgent = True
            self._core.reporting.hello |= self._core.strict.asks()
            for life in self._core.strict.waited_for(now):
                detail = f"strict groups wait for agent {life.agent!r} to agree"
                effects.append(Noticed("strict_waits", detail, life.agent))
        if self._core.reporting.wonders(now) and not self._core.members.all_whole():
            self._core.reporting.hello = True
        told = [] if self._core.observing else self._speaking.report(own, now, wall_s)
        computed = self._calculation.calculate(now)
        if computed:
            self._calculation.set_ceilings(own, now, computed, effects)
        self._set_slots(now, effects, told=bool(told))
        effects.extend(told)
        effects.append(WakeAt(self._next_at(now, busy=busy)))

    def _count_slots(self, event: Counted, now: float) -> None:
        strict, counts = self._core.strict, event.slots
        if counts or strict.stocks:
            self._tracking.follow_slots([count.group_id for count in counts], now)
        for count in counts:
            if (IN_FLIGHT, count.group_id) in strict.stocks:
                strict.stocks[IN_FLIGHT, count.group_id].count(count, now)

    def _set_slots(self, now: float, effects: list[Effect], *, told: bool) -> None:
        """Say how many slots may be held, where that moved or its time is extended.

        As long as others have heard nothing from this agent, they may take it for dead
        once half a lease has passed, so it hands out slots for no longer than that.
        """
        may_hold = self._core.strict.may_hold()
        if told:
            settings = self._core.settings
            lease_s = settings.lease_min_intervals * settings.interval_s
            self._slots_until = now + GONE_PART * lease_s
        elif may_hold == self._may_hold:
            return
        if may_hold or self._may_hold:
            effects.append(SetSlots(may_hold, self._slots_until))
        self._may_hold = may_hold

    def _notice_pause(self, now: float, effects: list[Effect]) -> None:
        """Begin anew after a pause longer than a lease: the others went on without."""
        pause = now - self._counted_at
        if pause <= self._core.members.lease_of(None):
            return
        effects.append(Noticed("paused", f"this agent stood still for {pause:.1f} s"))
        self._core.members.excuse(since=self._counted_at, pause_s=pause)
        self._counted_at, self._goes_on = now, True

    def _ask_anew(self) -> None:
        """Ask the others for their rows and levels, as a newcomer does."""
        self._core.reporting.hello = True
        for key in self._core.table:
            block, slot = self._core.table.at(key)
            block.joining_until[slot] = np.inf
            block.dirty[slot] = True
            self._core.joining.begin(int(block.number[slot]), doubted=True)

    def _enter_own(self, own: Own, event: Counted, now: float, since: float) -> bool:
        """Enter what the own buckets counted; return whether callers are busy."""
        moved = own.count(event)
        if not moved and not own.demand.due(now):
            own.rest(now)
            for place in own.places:
                place.block.tokens[place.slots] = own.held[place.rows]
            return False
        reset = own.look(now)
        if self._core.strict:
            ask_for_room(own)
        own.add_up()
        own.confirm_at[reset] = now + CONFIRM_S
        refresh = self._calculation.refresh_s()
        for place in own.places:
            block, slots, rows = place.block, place.slots, place.rows
            charge_own(block, slots, own.admitted[rows], own.overflowed[rows], since)
            block.tokens[slots] = block.held[0, slots] = own.held[rows]
            block.demand[0, slots] = own.usable[rows]
            block.cost[0, slots] = block.own_cost[slots] = own.cost[rows]
            block.refused[0, slots] = own.refused[rows]
            block.subjects[0, slots] = own.subjects[rows]
            if moved:
                soon = np.minimum(block.due[slots], block.at[slots] + refresh)
                block.due[slots] = np.where(own.used[rows], soon, block.due[slots])
            block.dirty[slots] |= reset[rows]
        return own.demand.busy(now)

    def _next_at(self, now: float, *, busy: bool) -> float:
        if self._core.strict.waits:
            return now
        settings = self._core.settings
        pace = settings.tick_s if busy or self._core.joining else settings.rest_tick_s
        return min(
            now + pace,
            max(self._core.reporting.next_at(), now + settings.tick_s),
            max(self._calculation.arrives_at, now),
        )

    # What people see.

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        """Return every input of this agent's share of one limit.

        Raises:
            KeyError: No such limit is tracked here.
        """
        block, slot = self._calculation.fresh(
            (dimension, group_id), max(now, self._now)
        )
        return explained(
            block, slot, (dimension, group_id), self._stand(now), self._core.settings
        )

    def table(self, group_id: int, dimension: str, now: float) -> LedgerView:
        """Return one ledger with a row for each agent.

        Raises:
            KeyError: No such limit is tracked here.
        """
        block, slot = self._calculation.fresh(
            (dimension, group_id), max(now, self._now)
        )
        return ledger_view(
            block, slot, (dimension, group_id), self._stand(now), self._core.settings
        )

    def slots(self, group_id: int) -> list[SlotView]:
        """Return who holds how many slots of a group, by id; empty if unknown."""
        return self._core.strict.slot_views(group_id)

    def used(self) -> list[Key]:
        """Return the limits of which other agents have told rows, by key."""
        numbers: set[int] = set()
        for member in self._core.members.by_number:
            numbers.update(self._core.table.lines_of(member).tolist())
        return sorted(self._core.table.key_of(number) for number in numbers)

    def members(self, now: float) -> list[MemberView]:
        """Return all agents that are known, this one included, by id."""
        return member_views(
            self._stand(max(now, self._now)),
            self._core.settings,
            observing=self._core.observing,
        )

    def _stand(self, now: float) -> Stand:
        return Stand(
            agent=self._core.agent,
            incarnation=self._core.incarnation,
            revision=self.revision,
            on=self._calculation.conditions(max(now, self._now)),
            members=self._core.members,
            apart=self._core.attendance.apart(now),
        )
