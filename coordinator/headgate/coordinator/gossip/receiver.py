"""What a report that is heard does: to the table, to its sender, to this agent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.gossip.batch import (
    ROWS_MAX,
    ROWS_TOGETHER,
    Waiting,
    enter_together,
)
from headgate.coordinator.ledger.replay import close_account, hear
from headgate.coordinator.membership.failure_detector import Attendance
from headgate.coordinator.membership.members import Member, Members
from headgate.coordinator.messages.events import Noticed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.membership.bootstrap import Joining
    from headgate.coordinator.messages.report import Report, Rows
    from headgate.coordinator.table.index import Place, Table

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

NOTICES_MAX = 1024
"""(kind, agent) pairs whose first occurrence is remembered."""

SEQUENCES_PER_S = 40.0
"""A sequence grows by at most twice the most urgent rate of reports."""

SEQUENCE_GRACE = 1000
"""And this: a burst of reports after a pause."""

NEWBORN_SEQUENCE = 20
"""A life whose first report that is heard has a number up to this began a moment ago:
its counters are charged from 0.  Of any other they are a base line."""

OBSERVER_PULL = 0.3
"""Part of the difference to another's level that an observer takes over."""

NOTHING = np.zeros(0, dtype=np.int64)


def _same(before: Ints, now: Ints) -> bool:
    if before is now:
        return True
    if len(before) != len(now):
        return False
    return before.tobytes() == now.tobytes()


def _finite(rows: Rows) -> bool:
    """Tell whether all of a report's columns are numbers."""
    columns = [rows.admitted, rows.refused, rows.demand, rows.held, rows.cost]
    if rows.largest is not None:
        columns.append(rows.largest)
    return isfinite(sum(float(np.add.reduce(column)) for column in columns))


@dataclass(slots=True)
class Outcome:
    """What hearing one report asks of this agent.

    Attributes:
        asked: Someone wants all rows, or should have them.
        unknown: The sender is new and did not say all: it must be asked.
        fresh: ``int64[K]`` ledgers in which the sender had no line before.
        echo: Sequence of an own report that came back.
        doubled: Another process goes by this agent's id, and started later.
        behind: Reports are missing that were sent while this agent stood still.
        believed: It was another's, newer than what was heard before.
        noticed: For people.
    """

    asked: bool = False
    unknown: bool = False
    fresh: NDArray[np.int64] = field(default_factory=lambda: NOTHING)
    echo: int | None = None
    doubled: bool = False
    behind: bool = False
    believed: bool = False
    noticed: list[Noticed] = field(default_factory=list[Noticed])


class Listening:
    """The receiver's side of one agent.

    Attributes:
        members: All others.
        attendance: Who of them is silent or gone.
    """

    def __init__(
        self,
        settings: Settings,
        table: Table,
        joining: Joining,
        now: float,
        *,
        observing: bool,
    ) -> None:
        self._settings = settings
        self._table = table
        self._joining = joining
        self._observing = observing
        self.members = Members(settings, now)
        self._told: set[tuple[str, str]] = set()
        self._waiting: dict[str, Waiting] = {}
        self._rows_waiting = 0
        self.attendance = Attendance(
            settings, table, self.members, now, observing=observing
        )

    def hear(
        self,
        report: Report,
        now: float,
        *,
        agent: str,
        incarnation: int,
        revision: int,
        wait: bool = False,
    ) -> Outcome:
        """Take one report.

        Args:
            report: Anyone's.
            now: Monotonic seconds.
            agent: Own id.
            incarnation: Own life.
            revision: Of the own configuration.
            wait: Its rows may be put off until `enter` is called, or until a report
                comes that must find them entered.
        """
        if report.revision != revision and not (self._observing or self._joining):
            # A level under other limits says nothing of these.
            rows = tuple(replace(each, level=None) for each in report.rows)
            report = replace(report, rows=rows)
        wait = wait and self._may_wait(report)
        outcome = Outcome() if wait else self.enter()
        if report.cluster != self._settings.cluster:
            self._notice(outcome, "foreign_cluster", report, "is of another cluster")
        elif report.agent == agent:
            self._hear_own(report, now, incarnation, outcome)
        else:
            self._hear_other(report, now, outcome, wait=wait)
        if self._rows_waiting >= ROWS_TOGETHER or outcome.behind:
            late = self.enter()
            outcome.fresh = np.concatenate([outcome.fresh, late.fresh])
            outcome.noticed += late.noticed
        return outcome

    def enter(self) -> Outcome:
        """Enter the rows that wait; what comes of it is not of the last report."""
        outcome = Outcome()
        if not self._waiting:
            return outcome
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._rows_waiting = 0
        wrong = enter_together(self._table, waiting)
        for at, one in enumerate(waiting):
            if wrong is None:
                for rows in one.report.rows:
                    self._hear_rows(one.member, rows, one.told_at, outcome, one.report)
                continue
            for _ in range(wrong[at]):
                self._disbelieve(one.member, one.told_at, outcome, one.report)
        return outcome

    def _may_wait(self, report: Report) -> bool:
        """Say whether nothing but its rows can come of a report: the rule."""
        member = self.members.by_agent.get(report.agent)
        return (
            member is not None
            and not (self._observing or self._joining)
            and not (member.silent or report.hello or report.leave)
            and member.incarnation == report.incarnation
            and member.weight == report.weight
            and report.agent not in self._waiting
            and all(len(rows.group_ids) <= ROWS_MAX for rows in report.rows)
        )

    def _hear_own(
        self, report: Report, now: float, incarnation: int, outcome: Outcome
    ) -> None:
        if report.incarnation == incarnation and self.members.is_own(report.sequence):
            # Others may have thought that this agent was gone.
            outcome.asked = self.attendance.mute(now)
            self.members.echo(report.sequence, now)
            self.attendance.hears(now)
            outcome.echo = report.sequence
        elif report.incarnation > incarnation or (
            report.incarnation == incarnation
            and report.sequence > self.members.last_sequence
        ):
            outcome.doubled = True
            self._notice(outcome, "doubled_id", report, "runs twice")

    def _hear_other(
        self, report: Report, now: float, outcome: Outcome, *, wait: bool
    ) -> None:
        member = self.members.by_agent.get(report.agent)
        if member is None:
            # It may have been dropped: it would go on sending only what changes.
            outcome.unknown = not report.keyframe
            ghost = self.attendance.ghosts.pop(report.agent, None)
            member = self.members.join(report, now)
            if member is None:
                self._notice(outcome, "too_many_members", report, "finds no room")
                return
            # Of one that was dropped unheard, what it did apart is not known.
            member.newborn = ghost is None and report.sequence <= NEWBORN_SEQUENCE
            self.attendance.begin(member)
        if not self._believable(member, report, now, outcome):
            return
        outcome.believed = True
        told_at = member.arrival_of(report, now, self.members.least_lag_s)
        outcome.behind = self.members.note_sequence(member, report.sequence)
        if member.silent:
            self.attendance.return_of(member)
            # To the other side this agent returns as well.
            outcome.asked = True
        member.heard_at = now
        member.told_at = told_at
        if member.weight != report.weight:
            member.weight = report.weight if 0 < report.weight < 1e9 else 1.0
            self.attendance.reseat(member)
        if isfinite(report.interval_s) and 0 < report.interval_s <= 3600:
            member.interval_s = report.interval_s
        member.revision = report.revision
        outcome.asked |= report.hello
        member.whole |= report.keyframe
        self.attendance.heard(member, now)
        if wait and report.rows:
            self._waiting[report.agent] = Waiting(member, report, told_at)
            self._rows_waiting += sum(len(rows.group_ids) for rows in report.rows)
            return
        for rows in report.rows:
            self._hear_rows(member, rows, told_at, outcome, report)
        if report.leave:
            self.attendance.drop(member, charge=False)

    def _believable(
        self, member: Member, report: Report, now: float, outcome: Outcome
    ) -> bool:
        if report.incarnation < member.incarnation:
            # A life that is silent may be one that never was: a number that was
            # changed on the way must not mute its owner until that is presumed dead.
            quiet_s = now - member.heard_at
            begins = report.hello and quiet_s > 1.5 * member.interval_s
            if not (begins or member.silent):
                self._notice(
                    outcome, "older_incarnation", report, "comes from an earlier life"
                )
                return False
            self._rebirth(member, report, now)
            outcome.unknown = not report.keyframe
        elif report.incarnation > member.incarnation:
            self._rebirth(member, report, now)
        elif report.sequence <= member.sequence:
            return False
        elif member.sequence > 0 and (
            report.sequence - member.sequence
            > SEQUENCE_GRACE + SEQUENCES_PER_S * (now - member.heard_at)
        ):
            self._notice(outcome, "sequence_jump", report, "has an impossible number")
            return False
        return True

    def _rebirth(self, member: Member, report: Report, now: float) -> None:
        """Begin a new life: its counters start anew, the old ones are closed."""
        for place in self._table.all_places(member.number):
            close_account(place, charge=True)
        member.newborn = report.sequence <= NEWBORN_SEQUENCE
        # Its rows have to be fresh again, or nobody would answer them: a hello may
        # leave before the process has a bucket, and its answers come to nothing.
        self._table.drop_member(member.number)
        member.cache.clear()
        member.incarnation = report.incarnation
        member.sequence = 0
        member.whole = False
        member.disbelieved_at = -np.inf
        self.attendance.begin(member)

    def _hear_rows(
        self,
        member: Member,
        rows: Rows,
        told_at: float,
        outcome: Outcome,
        report: Report,
    ) -> None:
        if not _finite(rows):
            self._notice(outcome, "not_a_number", report, "reports what is no number")
            return
        places = self._places(member, rows)
        wrong = 0
        levels = rows.level is not None and (self._observing or self._joining)
        for place in places:
            if place.fresh is not None and place.fresh.any():
                fresh = place.block.number[place.slots][place.fresh]
                if member.newborn:
                    # All that it counts was spent since this ledger was opened.
                    counters = place.block.admitted.reshape(-1)
                    cells = np.arange(len(counters))[place.cells][place.fresh]
                    counters[cells] = 0.0
                outcome.fresh = np.concatenate([outcome.fresh, fresh])
            wrong += int(np.count_nonzero(hear(place, rows, told_at)))
            if levels and rows.level is not None:
                self._hear_levels(place, rows.level[place.rows], told_at)
        if wrong:
            self._disbelieve(member, told_at, outcome, report)

    def _disbelieve(
        self, member: Member, told_at: float, outcome: Outcome, report: Report
    ) -> None:
        member.disbelieved_at = told_at
        self._notice(outcome, "disbelieved", report, "counts more than it may, or less")

    def _hear_levels(self, place: Place, levels: Floats, told_at: float) -> None:
        told = np.isfinite(levels)  # those of another calendar period are left out
        block, slots, levels = (
            place.block,
            place.block.slots[place.slots][told],
            levels[told],
        )
        if self._joining:
            self._joining.answer(block.number[slots], levels, told_at=told_at)
        if self._observing:
            # One that does not take part has no feedback of its own to rely on.
            known = np.isfinite(block.joining_until[slots])
            apart = levels - block.belief[slots]
            pulled = np.where(known, OBSERVER_PULL * apart, 0.0)
            block.level[slots] += pulled
            block.belief[slots] += pulled

    def _places(self, member: Member, rows: Rows) -> list[Place]:
        cached = member.cache.get(rows.dimension)
        if (
            cached is not None
            and cached[0] == self._table.version
            and _same(cached[1], rows.group_ids)
        ):
            return cached[2]
        numbers = self._table.numbers(rows.dimension, rows.group_ids)
        places = self._table.places(member.number, numbers)
        settled = [place.settled() for place in places]
        member.cache[rows.dimension] = (self._table.version, rows.group_ids, settled)
        return places

    def _notice(self, outcome: Outcome, kind: str, report: Report, what: str) -> None:
        self._say(outcome, kind, report.agent, what)

    def _say(self, outcome: Outcome, kind: str, agent: str, what: str) -> None:
        first = (kind, agent) not in self._told
        detail = f"agent {agent!r} {what}" if first else ""
        if first and len(self._told) < NOTICES_MAX:
            self._told.add((kind, agent))
        outcome.noticed.append(Noticed(kind, detail, agent))
