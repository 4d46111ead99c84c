"""What a report changes: the table, what is known of its sender, this agent's state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.gossip.batch import (
    ROWS_MAX,
    ROWS_TOGETHER,
    enter_together,
    finite,
)
from headgate.coordinator.ledger.replay import close_account, common_level, hear
from headgate.coordinator.membership.failure_detector import FailureDetector
from headgate.coordinator.membership.members import Member, Members
from headgate.coordinator.messages.events import Noticed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.membership.bootstrap import Bootstrap
    from headgate.coordinator.messages.report import Report, Rows
    from headgate.coordinator.table.index import Place, Table

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

NOTICES_MAX = 1024
"""Number of (kind, agent) pairs whose first occurrence is remembered."""

SEQUENCES_PER_S = 40.0
"""A sequence grows by at most twice the most urgent rate of reports."""

SEQUENCE_GRACE = 1000
"""Allowed in addition, for a burst of reports after a pause."""

NEWBORN_SEQUENCE = 20
"""If the first report heard of a life has a number up to this, the life has just begun
and its counters are charged from 0 (`ReportReceiver._count_from_0`).  Otherwise they
are only a baseline."""

OBSERVER_PULL = 0.3
"""Fraction of the difference to another agent's level that an observer adopts."""


@dataclass(slots=True)
class Outcome:
    """What this agent has to do because of one report.

    Attributes:
        asked: The sender wants all rows, or should have them.
        unknown: The sender is new and did not send all its rows: ask for them.
        missed: The same after an outage that may have hidden a change.
        fresh: Numbers of ledgers in which the sender had no row before.
        echo: Sequence number of this agent's own report that came back.
        doubled: Another process, which started later, uses this agent's id.
        behind: Some reports sent while this agent stood still are missing.
        believed: The report was another agent's, and newer than the last one.
        noticed: What people should be able to see.
    """

    asked: bool = False
    unknown: bool = False
    missed: bool = False
    fresh: list[int] = field(default_factory=list[int])
    echo: int | None = None
    doubled: bool = False
    behind: bool = False
    believed: bool = False
    noticed: list[Noticed] = field(default_factory=list[Noticed])


class ReportReceiver:
    """The receiver's side of one agent.

    Attributes:
        members: All others.
        detector: Which of them are silent or gone.
    """

    def __init__(
        self,
        settings: Settings,
        table: Table,
        bootstrap: Bootstrap,
        now: float,
        *,
        observing: bool,
    ) -> None:
        self._settings = settings
        self._table = table
        self._bootstrap = bootstrap
        self._observing = observing
        self.members = Members(settings, now)
        self._told: set[tuple[str, str]] = set()
        self._waiting: dict[str, tuple[Member, Report]] = {}
        self._rows_waiting = 0
        self.detector = FailureDetector(
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
            report: From any agent, this one included.
            now: Monotonic seconds.
            agent: This agent's id.
            incarnation: This agent's life.
            revision: Revision of this agent's configuration.
            wait: Its rows may wait until `enter` is called, or until a report arrives
                that needs them entered.
        """
        levels = any(rows.level is not None for rows in report.rows)
        other_limits = levels and report.revision != revision
        if other_limits and not (self._observing or self._bootstrap):
            # A level that was computed under other limits says nothing about these.
            rows = tuple(replace(each, level=None) for each in report.rows)
            report = replace(report, rows=rows)
        wait = wait and self._may_wait(report)
        outcome = Outcome() if wait else self.enter()
        if report.cluster != self._settings.cluster:
            what = "belongs to another cluster"
            self._notice(outcome, "foreign_cluster", report.agent, what)
        elif report.agent == agent:
            self._hear_own(report, now, incarnation, outcome)
        else:
            self._hear_other(report, now, outcome, wait=wait)
        if self._rows_waiting >= ROWS_TOGETHER or outcome.behind:
            self.enter(outcome)
        return outcome

    def enter(self, outcome: Outcome | None = None) -> Outcome:
        """Enter the waiting rows; add what has to be done because of them."""
        outcome = outcome or Outcome()
        if not self._waiting:
            return outcome
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._rows_waiting = 0
        wrong = enter_together(
            self._table, waiting, self.members.lag_s, self.members.loss
        )
        if wrong is None:
            for member, report in waiting:
                for rows in report.rows:
                    self._hear_rows(member, rows, outcome, leaves=report.leave)
        for at in wrong or ():
            self._disbelieve(waiting[at][0], outcome)
        return outcome

    def _may_wait(self, report: Report) -> bool:
        """Return whether a report does no more than bring rows, as most of them do."""
        member = self.members.by_agent.get(report.agent)
        return (
            member is not None
            and not (self._observing or self._bootstrap)
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
            # The others may have presumed this agent dead.
            outcome.asked = self.detector.cut_off(now)
            self.members.echo(report.sequence, now)
            self.detector.hears(now)
            outcome.echo = report.sequence
        elif report.incarnation > incarnation or (
            report.incarnation == incarnation
            and report.sequence > self.members.last_sequence
        ):
            outcome.doubled = True
            self._notice(outcome, "doubled_id", report.agent, "is running twice")

    def _hear_other(
        self, report: Report, now: float, outcome: Outcome, *, wait: bool
    ) -> None:
        member = self.members.by_agent.get(report.agent)
        if member is None:
            departed = self.detector.departed.pop(report.agent, None)
            member = self.members.join(report, now)
            if member is None:
                what = "is ignored: there are too many members"
                self._notice(outcome, "too_many_members", report.agent, what)
                return
            # Nobody here knows what a member did after it was dropped unheard.
            member.newborn = departed is None and report.sequence <= NEWBORN_SEQUENCE
            self.detector.begin(member)
        if not self._believable(member, report, now, outcome):
            return
        outcome.believed = True
        member.reported_at = member.arrival_of(report, now, self.members.least_lag_s)
        hole = self.members.note_sequence(member, report.sequence)
        outcome.behind = hole.behind
        if member.silent:
            self.detector.return_of(member)
            # From the sender's point of view this agent returns, too.
            outcome.asked = True
        member.heard_at = now
        if member.weight != report.weight:
            member.weight = report.weight if 0 < report.weight < 1e9 else 1.0
            self.detector.reseat(member)
        if isfinite(report.interval_s) and 0 < report.interval_s <= 3600:
            member.interval_s = report.interval_s
        member.revision = report.revision
        outcome.asked |= report.hello
        member.whole |= report.keyframe
        # A sender that dropped this agent, or was cut off, sends only what changes.
        outcome.unknown = hole.new and not report.keyframe
        outcome.missed = hole.hidden and not report.keyframe
        self.detector.heard(member, now)
        if wait and report.rows:
            self._waiting[report.agent] = member, report
            self._rows_waiting += sum(len(rows.group_ids) for rows in report.rows)
            return
        for rows in report.rows:
            self._hear_rows(member, rows, outcome, leaves=report.leave)
        if report.leave:
            self.detector.drop(member, charge=False)

    def _believable(
        self, member: Member, report: Report, now: float, outcome: Outcome
    ) -> bool:
        quiet_s = now - member.heard_at
        begins = report.hello and quiet_s > 1.5 * member.interval_s
        if report.incarnation < member.incarnation and not (begins or member.silent):
            # A silent life may never have existed: an incarnation that was corrupted on
            # the way must not mute the real one until that life is presumed dead.
            what = "sent a report from an earlier life"
            self._notice(outcome, "older_incarnation", report.agent, what)
            return False
        if report.incarnation != member.incarnation:
            self._rebirth(member, report)
            return True
        if report.sequence <= member.sequence:
            return False
        grown = report.sequence - member.sequence
        if member.sequence > 0 and grown > SEQUENCE_GRACE + SEQUENCES_PER_S * quiet_s:
            what = "sent an impossible sequence number"
            self._notice(outcome, "sequence_jump", report.agent, what)
            return False
        return True

    def _rebirth(self, member: Member, report: Report) -> None:
        """Begin a new life of a member: its counters restart, the old ones end."""
        for place in self._table.all_places(member.number):
            close_account(place, charge=True)
        member.newborn = report.sequence <= NEWBORN_SEQUENCE
        # Its rows count as fresh again, or nobody would answer them: a process may
        # say hello before it has a bucket, and then the answers are of no use to it.
        self._table.drop_member(member.number)
        member.cache.clear()
        member.incarnation = report.incarnation
        member.sequence = 0
        member.whole = False
        member.disbelieved_at = -np.inf
        self.detector.begin(member)

    def _hear_rows(
        self, member: Member, rows: Rows, outcome: Outcome, *, leaves: bool
    ) -> None:
        if not finite(rows):
            what = "reports values that are not finite numbers"
            self._notice(outcome, "not_a_number", member.agent, what)
            return
        reported_at, wrong = member.reported_at, 0
        for place in self._places(member, rows):
            if place.fresh is not None and place.fresh.any():
                if member.newborn:
                    # A goodbye tells no level, but is not from one that asks for it.
                    told = rows.level is not None or leaves
                    self._count_from_0(place, place.fresh, told=told)
                fresh = place.block.number[place.slots][place.fresh]
                outcome.fresh += fresh.tolist()
            bus = self.members
            false = hear(place, rows, reported_at, lag_s=bus.lag_s, loss=bus.loss)
            wrong += int(np.count_nonzero(false))
            if rows.level is not None and (self._observing or self._bootstrap):
                self._hear_levels(member, place, rows.level[place.rows])
        if wrong:
            self._disbelieve(member, outcome)

    @staticmethod
    def _count_from_0(place: Place, fresh: Flags, *, told: bool) -> None:
        """Charge everything that a newborn member has counted in its `fresh` rows.

        It was spent after this ledger was opened.  While this agent is itself asking
        for the level, a member that has `told` its level spent earlier, and its level
        includes that; one that has not told it is asking, too.
        """
        block = place.block
        if told:
            fresh = fresh & np.isfinite(block.joining_until[place.slots])
        counters = block.admitted.reshape(-1)
        counters[np.arange(len(counters))[place.cells][fresh]] = 0.0

    def _disbelieve(self, member: Member, outcome: Outcome) -> None:
        member.disbelieved_at = member.reported_at
        what = "reports a counter that fell or grew by too much"
        self._notice(outcome, "disbelieved", member.agent, what)

    def _hear_levels(self, member: Member, place: Place, levels: Floats) -> None:
        told = np.isfinite(levels)  # leaves out levels of another calendar period
        block, levels = place.block, levels[told]
        slots = block.slots[place.slots][told]
        if self._bootstrap:
            self._bootstrap.answer(
                block.number[slots],
                levels,
                levels - common_level(block, slots, member.reported_at),
                member=member.number,
                reported_at=member.reported_at,
            )
        if self._observing:
            # An observer has no share, and so no feedback of its own to rely on.
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
            and (
                cached[1] is rows.group_ids
                or cached[1].tobytes() == rows.group_ids.tobytes()
            )
        ):
            return cached[2]
        numbers = self._table.numbers(rows.dimension, rows.group_ids)
        places = self._table.places(member.number, numbers)
        settled = [place.settled() for place in places]
        member.cache[rows.dimension] = (self._table.version, rows.group_ids, settled)
        return places

    def _notice(self, outcome: Outcome, kind: str, agent: str, what: str) -> None:
        first = (kind, agent) not in self._told
        detail = f"agent {agent!r} {what}" if first else ""
        if first and len(self._told) < NOTICES_MAX:
            self._told.add((kind, agent))
        outcome.noticed.append(Noticed(kind, detail, agent))
