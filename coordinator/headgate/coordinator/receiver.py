"""What a report changes: the table, what is known of its sender, what to answer."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.gossip.batch import (
    ROWS_MAX,
    ROWS_TOGETHER,
    enter_together,
    finite,
)
from headgate.coordinator.ledger.replay import (
    close_accounts,
    common_level,
    hear,
    keeps_own,
    seen_by,
)
from headgate.coordinator.membership.bootstrap import TOLD_S, Moves
from headgate.coordinator.messages.events import Effect, Noticed, WakeAt
from headgate.coordinator.messages.report import AgentLife

if TYPE_CHECKING:
    from headgate.coordinator.membership.members import Hole, Member
    from headgate.coordinator.messages.report import Report, Rows
    from headgate.coordinator.state import CoordinatorState
    from headgate.coordinator.table.arrays import Flags, Floats
    from headgate.coordinator.table.index import Place

SEQUENCES_PER_S = 40.0
"""A sequence grows by at most 1.5 times the most urgent rate of reports."""

SEQUENCE_GRACE = 1000
"""Allowed in addition, for a burst of reports after a pause."""

OBSERVER_PULL = 0.3
"""Fraction of the difference to another agent's level that an observer adopts."""

SMALL_MOVE = 1e-3
"""Part of a burst by which a level may differ from what others know unnoticed."""

OFF_S, OFF_LAGS = 1e-3, 0.25
"""Error of a measured time, in seconds and at most in lags: agents answer a new row at
once, and must not seem to have done so before they heard of it."""

ROUNDED = 1.0 / 512.0
"""Part by which a time may be rounded on the wire."""

PERMITS_GAP_S = 0.01
"""Least time between two looks because of permits that were heard of, seconds: one look
costs as much after five reports as after one."""


class ReportReceiver:
    """The receiver's side of one agent."""

    def __init__(self, state: CoordinatorState, now: float) -> None:
        self._state = state
        self._waiting: dict[str, tuple[Member, Report]] = {}
        self._rows_waiting = 0
        self._counted_at = now
        self._stood_still = self._asked_again = False
        self._silent_since = -inf

    def hear(
        self, report: Report, now: float, effects: list[Effect], *, wait: bool = False
    ) -> bool:
        """Take one report.

        Args:
            report: From any agent, this one included.
            now: Monotonic seconds.
            effects: Appended to.
            wait: Its rows may wait until `enter` is called, or until a report arrives
                that needs them entered.

        Returns:
            Whether this agent must leave its id to another process.
        """
        state = self._state
        self._notice_pause(now, effects)
        heard_nobody = state.detector.hears_nobody(now)
        wait = wait and self._may_wait(report)
        if not wait:  # it may need the rows of earlier ones
            self.enter(now, effects)
        doubled, member = False, None
        if report.cluster != state.settings.cluster:
            what = "belongs to another cluster"
            self._notice(effects, "foreign_cluster", report.agent, what)
        else:
            state.strict.note(report, now)
            if report.agent == state.agent:
                doubled = self._hear_own(report, now, effects)
            else:
                # Who asks for levels, or only listens, does better with some than none.
                any_revision = state.observing or bool(state.bootstrap)
                report = state.limits.comparable(report, any_revision=any_revision)
                member = self._sender_of(report, now, effects)
        if member is not None:
            hole = state.detector.heard(member, report, now)
            if report.rows:
                self._waiting[report.agent] = member, report
                self._rows_waiting += sum(len(rows.group_ids) for rows in report.rows)
            if not wait or hole.behind or self._rows_waiting >= ROWS_TOGETHER:
                self.enter(now, effects)
            self._hear_rest(report, hole, now, effects)
        if heard_nobody and not state.detector.hears_nobody(now):
            # The others know better than this agent what they spent meanwhile.
            self._silent_since = state.detector.silent_since
            self._ask_anew(now)
        if state.observing:
            # An observer never asks, so nothing echoes; the first answers must do.
            state.bootstrap.take_what_came(now + state.settings.interval_s)
        return doubled or state.strict.superseded

    def look(self, now: float, effects: list[Effect]) -> float:
        """Note that this agent reads its counters; return when it last did."""
        self._notice_pause(now, effects)
        since, self._counted_at = self._counted_at, now
        if self._stood_still:
            # Not earlier: a report sent before the question does not answer it.
            self._stood_still = self._asked_again = False
            self._ask_anew(now)
        return since

    def enter(self, now: float, effects: list[Effect]) -> None:
        """Enter the waiting rows."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._rows_waiting = 0
        members, wrong = self._state.members, None
        if len(waiting) > 1:
            table = self._state.table
            wrong = enter_together(table, waiting, members.lag_s, members.loss)
        if wrong is None:
            for member, report in waiting:
                self._hear_rows(member, report, now, effects)
        for at in wrong or ():
            self._disbelieve(waiting[at][0], effects)

    def _notice_pause(self, now: float, effects: list[Effect]) -> None:
        """Start over after a pause longer than a lease: the others did not wait."""
        pause = now - self._counted_at
        if pause <= self._state.members.lease_of(None):
            return
        effects.append(Noticed("paused", f"this agent was paused for {pause:.1f} s"))
        self._silent_since = self._counted_at
        self._state.members.excuse(since=self._counted_at, pause_s=pause)
        self._counted_at, self._stood_still = now, True

    def _ask_anew(self, now: float) -> None:
        """Ask the others for their rows and levels, as an agent that joins does."""
        if self._stood_still:
            return  # at the next look
        state, bootstrap = self._state, self._state.bootstrap
        state.schedule.hello = True
        places = {key: state.table.at(key) for key in state.table}
        numbers = [int(block.number[slot]) for block, slot in places.values()]
        unknown = bootstrap.start_over(numbers, now)
        for number, (key, (block, slot)) in zip(numbers, places.items(), strict=True):
            block.joining_until[slot] = np.inf
            block.dirty[slot] = True
            opened = unknown.get(number)
            if opened is None:
                since = min(block.doubtful_since.item(slot), self._silent_since)
                block.doubtful_since[slot] = since
            elif block.guessed[slot] and key not in state.limits.strict:
                bootstrap.ask_api(key, opened, now)
            bootstrap.begin(number, opened)

    def _may_wait(self, report: Report) -> bool:
        """Return whether a report does no more than bring rows, as most of them do."""
        state = self._state
        member = state.members.by_agent.get(report.agent)
        return (
            member is not None
            and not (state.observing or state.bootstrap)
            and not (member.silent or report.hello or report.leave)
            and member.incarnation == report.incarnation
            and member.weight == report.weight
            and report.agent not in self._waiting
            and all(len(rows.group_ids) <= ROWS_MAX for rows in report.rows)
        )

    def _hear_own(self, report: Report, now: float, effects: list[Effect]) -> bool:
        """Measure the bus; return whether another process uses this agent's id."""
        state, members = self._state, self._state.members
        same_life = report.incarnation == state.incarnation
        if same_life and members.is_own(report.sequence):
            if state.detector.cut_off(now):  # the others may have presumed it dead
                state.schedule.owe(now, members.answer_gap_s())
            members.echo(report.sequence, now)
            state.detector.hears(now)
            state.bootstrap.echoed(report.sequence, now + members.answer_s())
            effects.extend(state.strict.echo(report, now))
            return False
        doubled = report.incarnation > state.incarnation or (
            same_life and report.sequence > state.schedule.sequence
        )
        if doubled:
            self._notice(effects, "doubled_id", report.agent, "is running twice")
        return doubled

    def _hear_rest(
        self, report: Report, hole: Hole, now: float, effects: list[Effect]
    ) -> None:
        """Hear what is not about rows; answer, and ask for what won't come unasked."""
        state, members = self._state, self._state.members
        asked = report.hello or hole.returned
        if report.left_out is not None:
            state.elsewhere.heard(report.left_out, now)
        if report.leave:
            state.detector.drop(members.by_agent[report.agent], charge=False)
        if state.strict:
            if (report.permits or report.rows) and not state.observing:
                # Others wait for the permits that are passed on: look soon.
                effects.append(WakeAt(max(now, self._counted_at + PERMITS_GAP_S)))
            asked |= state.strict.hear(report, now)
        if asked:
            state.schedule.owe(now, members.answer_gap_s())
        if report.hello:
            state.schedule.round_at = now
        if (hole.new or hole.hidden) and not report.keyframe:
            # A sender that dropped this agent, or was cut off, sends only what changes.
            wait_s = 2.0 * members.answer_gap_s() + members.answer_s()
            state.schedule.wonder(now, wait_s, patient=not hole.new)
        if hole.behind and not self._asked_again:
            # The hello after a pause may have been answered before the bus was back.
            self._asked_again = not self._stood_still
            self._ask_anew(now)

    def _sender_of(
        self, report: Report, now: float, effects: list[Effect]
    ) -> Member | None:
        """Return the sender of a report as a member; None if it isn't believed."""
        members, detector = self._state.members, self._state.detector
        member = members.by_agent.get(report.agent)
        if member is None:
            departed = detector.departed.pop(report.agent, None)
            member = members.join(report, now)
            if member is None:
                what = "is ignored: there are too many members"
                self._notice(effects, "too_many_members", report.agent, what)
                return None
            if departed is not None:
                member.unheard_since = departed.heard_at
            detector.begin(member)
        quiet_s = now - member.heard_at
        begins = report.hello and quiet_s > 1.5 * member.interval_s
        if report.incarnation < member.incarnation and not (begins or member.silent):
            # A silent life may never have existed: an incarnation that was corrupted on
            # the way must not mute the real one until that life is presumed dead.
            what = "sent a report from an earlier life"
            self._notice(effects, "older_incarnation", report.agent, what)
            return None
        if report.incarnation != member.incarnation:
            self._rebirth(member, report)
            return member
        if report.sequence <= member.sequence:
            return None
        grown = report.sequence - member.sequence
        if member.sequence > 0 and grown > SEQUENCE_GRACE + SEQUENCES_PER_S * quiet_s:
            what = "sent an impossible sequence number"
            self._notice(effects, "sequence_jump", report.agent, what)
            return None
        return member

    def _rebirth(self, member: Member, report: Report) -> None:
        """Begin a new life of a member: its counters restart, the old ones end."""
        # Its rows count as fresh again, or nobody would answer them: a process may
        # say hello before it has a bucket, and then the answers are of no use to it.
        close_accounts(self._state.table, member.number, charge=True)
        member.cache.clear()
        member.incarnation = report.incarnation
        member.sequence = 0
        member.whole = False
        member.disbelieved_at = -np.inf
        self._state.detector.begin(member)

    def _hear_rows(
        self, member: Member, report: Report, now: float, effects: list[Effect]
    ) -> None:
        state, lag_s = self._state, self._state.members.lag_s
        reported_at, loss = member.reported_at, self._state.members.loss
        for rows in report.rows:
            if not finite(rows):
                what = "reports values that are not finite numbers"
                self._notice(effects, "not_a_number", member.agent, what)
                continue
            wrong = 0
            for place in self._places(member, rows):
                if place.fresh is not None and place.fresh.any():
                    self._begin_counting(member, place, report, rows, now)
                    numbers = place.block.number[place.slots][place.fresh]
                    state.owe_rows(numbers, now)
                before = place.block.belief[place.slots].copy()
                false = hear(place, rows, reported_at, lag_s=lag_s, loss=loss)
                if state.bootstrap:
                    self._note_moves(member, place, rows, before)
                wrong += int(np.count_nonzero(false))
                if rows.level is not None and (state.observing or state.bootstrap):
                    told = rows.level[place.rows]
                    self._hear_levels(member, place, told, report)
            if wrong:
                self._disbelieve(member, effects)

    def _begin_counting(
        self, member: Member, place: Place, report: Report, rows: Rows, now: float
    ) -> None:
        """Decide from where to count what a member reports in its fresh rows.

        From what it had admitted when it began to use the limit, unless the level here
        includes that already; then the counter is a baseline, or the API has told what
        of it is included.  While this agent is itself asking, the levels of members
        that tell them will include it (an observer asks nobody); one that tells none is
        asking, too, or left before it knew.  A ledger that will keep its own level
        (`keeps_own`) includes nothing of what it has not heard.
        """
        block, state, fresh = place.block, self._state, place.fresh
        assert fresh is not None
        if rows.level is not None and not state.observing:
            tells = np.isfinite(rows.level[place.rows])
            keeps = keeps_own(block, place.slots)
            joined = np.isfinite(block.joining_until[place.slots])
            fresh = fresh & (joined | ~tells | keeps)
        slots = block.slots[place.slots][fresh]
        numbers = block.number[slots].tolist()
        if state.observing:
            state.appeared.update(map(state.table.key_of, numbers))
        base = begun = np.full(len(numbers), np.nan)
        if rows.age_s is not None:
            age_s = rows.age_s[place.rows][fresh]
            begun_at = member.reported_at - age_s
            new = (age_s > 0.0) & (begun_at >= member.unheard_since)
            if state.limits.calendar:
                keys = map(state.table.key_of, numbers)
                new &= state.limits.in_force(keys, report.sent_at_s - age_s)
            before = 0.0 if rows.before is None else rows.before[place.rows][fresh]
            begun = np.where(new, before, np.nan)
            told_at = self._first_told_at(member, place, rows)[fresh]
            # Who told the level heard of a request a lag later.
            includes_at = block.includes_at[slots] - state.members.lag_s
            base = np.where(told_at >= includes_at, begun, np.nan)
        # Of a life that it doesn't tell of, the API heard nothing, unless it is over.
        unheard = base if report.leave else begun
        life = AgentLife(member.agent, member.incarnation)
        since = state.detector.unheard_from(now, TOLD_S)
        for row, number in enumerate(numbers):
            if (told := state.bootstrap.told(number, since)) is not None:
                base[row] = told.get(life, unheard[row])
        counters = block.admitted.reshape(-1)
        cells = np.arange(len(counters))[place.cells][fresh]
        # Nobody is charged less than nothing.
        counters[cells] = np.minimum(base, rows.admitted[place.rows][fresh])
        if state.bootstrap and not state.observing:
            included = fresh.copy()
            included[fresh] = np.isnan(base)
            self._ask_what_is_included(place, rows, included, now)

    def _ask_what_is_included(
        self, place: Place, rows: Rows, included: Flags, now: float
    ) -> None:
        """Ask the API what of a member's counters the levels of new ledgers include.

        They began when the member had its row already.  If that tells no level, which
        would include all, it may have been cut off, as well as whoever told this agent
        the level.  `included`, ``bool[K]``, says which are taken to include all.
        """
        state, unsure = self._state, included
        if rows.level is not None:
            unsure = unsure & np.isnan(rows.level[place.rows])
        if rows.age_s is not None:  # others begin just now, as this agent does
            age_s = rows.age_s[place.rows]
            unsure = unsure & ((age_s == 0.0) | (age_s > state.members.lease_of(None)))
        for number in place.block.number[place.slots][unsure].tolist():
            key, opened = state.table.key_of(number), state.bootstrap.how_opened(number)
            if opened is None or opened.until > now or key in state.limits.strict:
                continue  # it has been asked, or need not be
            if state.bootstrap.told(number, -inf) is None:
                state.bootstrap.ask_api(key, opened, now)

    def _note_moves(
        self, member: Member, place: Place, rows: Rows, before: Floats
    ) -> None:
        """Note by how much rows corrected levels while this agent asks for some.

        What is small against the burst doesn't count: with thousands of ledgers, each
        report corrects nearly all of them by a little.
        """
        state, block, slots = self._state, place.block, place.slots
        by = block.belief[slots] - before
        large = np.abs(by) > SMALL_MOVE * block.burst[slots]
        if not large.any():
            return
        told_at = np.full(len(before), member.reported_at)
        if place.fresh is not None and rows.age_s is not None:
            first = self._first_told_at(member, place, rows)
            told_at = np.where(place.fresh, first, told_at)
        known_at = told_at + state.members.lag_s
        numbers, known_at = block.number[slots][large], known_at[large]
        moves = Moves(numbers, by[large], known_at, member.number, member.reported_at)
        state.bootstrap.moved(moves)

    def _first_told_at(self, member: Member, place: Place, rows: Rows) -> Floats:
        """Return when a member first reported its rows, at the earliest.

        A member of an earlier version doesn't say; then half a tick after they began.

        Returns:
            ``float64[K]``, monotonic seconds; for rows without an age, when this report
            left.
        """
        assert rows.age_s is not None
        state = self._state
        ago_s = np.maximum(rows.age_s[place.rows] - 0.5 * state.settings.tick_s, 0.0)
        if rows.told_s is not None:
            told_s = rows.told_s[place.rows]
            ago_s = np.where(told_s > 0.0, told_s, ago_s)
        off_s = min(OFF_S, OFF_LAGS * state.members.lag_s)
        told_at: Floats = member.reported_at - ago_s * (1.0 + ROUNDED) - off_s
        return told_at

    def _disbelieve(self, member: Member, effects: list[Effect]) -> None:
        member.disbelieved_at = member.reported_at
        what = "reports a counter that fell or grew by too much"
        self._notice(effects, "disbelieved", member.agent, what)

    def _hear_levels(
        self, member: Member, place: Place, levels: Floats, report: Report
    ) -> None:
        state = self._state
        told = np.isfinite(levels)  # leaves out levels of another calendar period
        block, levels = place.block, levels[told]
        slots = block.slots[place.slots][told]
        if state.bootstrap:
            # Who answers a question has heard the first report of the row, but it may
            # not have heard the newest one, and a goodbye is no answer.
            heard_until = member.reported_at - state.members.lag_s
            heard = block.row_reported_at[slots] <= heard_until
            first = block.known_admitted[slots] <= block.begun_admitted[slots]
            asked_by = heard_until if report.leave else member.reported_at
            knew = first & (block.pending_at[slots] <= asked_by)
            told_once = block.pending_admitted[slots] + block.pending_predicted[slots]
            least = np.where(knew, told_once, -inf)
            seen = np.maximum(seen_by(block, slots, heard), least)
            # Who asks anew is answered by a report of all rows.
            answered_at = asked_by if report.keyframe else heard_until
            numbers = block.number[slots]
            seen = state.bootstrap.known_own(numbers, seen, answered_at, heard_until)
            own = common_level(block, slots, member.reported_at, seen)
            state.bootstrap.answer(
                numbers,
                levels + seen,
                levels - own,
                member=member.number,
                reported_at=member.reported_at,
            )
        if state.observing:
            # An observer has no share, and so no feedback of its own to rely on.
            known = np.isfinite(block.joining_until[slots])
            apart = levels - block.belief[slots]
            pulled = np.where(known, OBSERVER_PULL * apart, 0.0)
            block.level[slots] += pulled
            block.belief[slots] += pulled

    def _places(self, member: Member, rows: Rows) -> list[Place]:
        table, ids = self._state.table, rows.group_ids
        version, before, places = member.cache.get(rows.dimension, (-1, ids, []))
        known = version == table.version and (
            before is ids or before.tobytes() == ids.tobytes()
        )
        if not known:
            places = table.places(member.number, table.numbers(rows.dimension, ids))
            if all(place.fresh is None for place in places):
                member.cache[rows.dimension] = table.version, ids, places
        return places

    @staticmethod
    def _notice(effects: list[Effect], kind: str, agent: str, what: str) -> None:
        """Say what people should be able to see."""
        effects.append(Noticed(kind, f"agent {agent!r} {what}", agent))
