"""Who is there: lives, silence, lag and loss of every agent that was heard.

Crash and partition look the same from inside, so both sides follow one schedule
that depends only on how long they have not heard each other (see
`headgate.coordinator.allocation.reserves`).  This module keeps the clock of that
schedule.

**When was a report true?**  Its arrival on the own monotonic clock less the lag of
the bus.  The lag is measured: every agent hears its own reports come back.  For
another's report only the *difference* of its wall clock to the own monotonic clock
is used: the smallest one lately stands for the least lag, what a report has more
than that was spent on the way.  Two reports in a row that seem late by the same
amount, although half a heartbeat apart, are a wall clock that was set back, and
the base moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.index import Place

ECHOES_MAX = 128
"""Own reports whose return is awaited: six seconds of the most urgent traffic."""

BASE_S = 20.0
"""How long the smallest difference of clocks is remembered, twice at most: drift
of 100 ppm moves it by 4 ms."""

LAG_GAIN = 0.2
"""Weight of the newest echo: a change of the bus is followed in five reports."""

LOSS_GAIN = 0.05
"""Weight of the newest report in the measured loss: steady after twenty."""

LOSS_FLOOR = 1e-4
"""A lease is so long that silence by chance is rarer than this."""

MISSED_MAX = 20
"""Missed reports counted at once: a longer absence is on its way to silence."""

LOSS_MAX = 0.9
"""Beyond this a member is as good as cut off; keeps 1 − loss away from zero."""


@dataclass(slots=True)
class Member:
    """One other agent.

    Attributes:
        number: In the table's lines.
        agent: Its id.
        incarnation: Its life.
        sequence: Of its newest report.
        heard_at: Monotonic seconds.
        told_at: When its newest report was true.
        weight: Among all agents.
        interval_s: Its heartbeat.
        revision: Of the configuration that it goes by.
        loss: Part of its reports that don't arrive.
        silent: Past the lease.
        disbelieved_at: When its counters last could not be true.
        vouched: The API says that its process lives (True) or is gone (False), or
            nothing (None).
        vouched_at: When it said so.
        lived_at: When the API last said that it lives, and then no more.
        excused: It was not heard since this agent stood still.
        whole: It has told all its rows.
        newborn: Its life began a moment before it was first heard.
        cache: Where the rows of its last report stand, by dimension.
    """

    number: int
    agent: str
    incarnation: int
    sequence: int
    heard_at: float
    told_at: float
    weight: float = 1.0
    interval_s: float = 1.0
    revision: int = 0
    loss: float = 0.0
    silent: bool = False
    disbelieved_at: float = -inf
    vouched: bool | None = None
    vouched_at: float = -inf
    lived_at: float = -inf
    excused: bool = False
    whole: bool = False
    newborn: bool = False
    late_s: float = 0.0
    cache: dict[str, tuple[int, NDArray[np.int64], list[Place]]] = field(
        default_factory=dict[str, "tuple[int, NDArray[np.int64], list[Place]]"]
    )
    _base: float = inf
    _older_base: float = inf
    _base_since: float = -inf
    _late_at: float = -inf

    def arrival_of(self, report: Report, now: float, least_lag_s: float) -> float:
        """Return when a report was true, on the own monotonic clock."""
        apart = now - report.sent_at_s
        if now - self._base_since > BASE_S:
            self._older_base, self._base, self._base_since = self._base, apart, now
        self._base = min(self._base, apart)
        late = apart - min(self._base, self._older_base)
        half = 0.5 * self.interval_s
        steady = abs(late - self.late_s) < 0.1 * half
        if late > 1.0 and steady and now - self._late_at > half:
            self._base = self._older_base = apart
            late = 0.0
        elif late <= 1.0 or not steady:
            self._late_at = now
        self.late_s = late
        return max(now - least_lag_s - late, min(self.told_at, now - least_lag_s))


class Members:
    """All other agents, by id, and what is known of the bus.

    Attributes:
        by_agent: The members.
        by_number: The same by their number in the table.
        lag_s: One way, of the own reports coming back.
        least_lag_s: The smallest lately.
        echo_at: When the newest own report came back.
        echoed: Whether one ever did.
        met_at: When an agent was last met that was not known.
        last_sequence: Of the own reports.
        loss: Part of all reports that don't arrive.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self.by_agent: dict[str, Member] = {}
        self.by_number: dict[int, Member] = {}
        self.lag_s = 0.02
        self.least_lag_s = 0.02
        self.echo_at = now
        self.echoed = False
        self.met_at = now
        self.last_sequence = 0
        self.loss = 0.0
        self._published: dict[int, float] = {}
        self._next_number = 1
        self._unused: list[int] = []

    def published(self, sequence: int, now: float) -> None:
        """Remember when an own report left."""
        self.last_sequence = sequence
        if len(self._published) >= ECHOES_MAX:
            del self._published[next(iter(self._published))]
        self._published[sequence] = now

    def is_own(self, sequence: int) -> bool:
        """Say whether this agent sent a report of this number lately."""
        return sequence in self._published

    def forget_published(self) -> None:
        """Await no more own reports: they went out under another id."""
        self._published.clear()

    def excuse(self, *, since: float, pause_s: float) -> None:
        """Blame nobody for not being heard while this agent stood still."""
        for member in self.by_agent.values():
            if member.heard_at <= since:
                member.heard_at += pause_s
                member.excused = True
        self.echo_at += pause_s

    def echo(self, sequence: int, now: float) -> None:
        """Take the return of an own report: the lag of the bus."""
        sent_at = self._published.pop(sequence)
        lag = max(0.0, now - sent_at)
        if self.echoed:
            self.lag_s += LAG_GAIN * (lag - self.lag_s)
            self.least_lag_s = min(
                lag, self.least_lag_s + 0.01 * (lag - self.least_lag_s)
            )
        else:
            self.lag_s = self.least_lag_s = lag
        self.echoed = True
        self.echo_at = now

    def join(self, report: Report, now: float) -> Member | None:
        """Make a member of the sender; None when the table is full."""
        if len(self.by_agent) >= self._settings.members_max:
            return None
        number = self._unused.pop() if self._unused else self._next_number
        self._next_number = max(self._next_number, number + 1)
        member = Member(
            number, report.agent, report.incarnation, 0, now, now - self.lag_s
        )
        self.by_agent[report.agent] = self.by_number[number] = member
        self.met_at = now
        return member

    def remove(self, member: Member) -> None:
        """Forget a member."""
        del self.by_agent[member.agent]
        del self.by_number[member.number]
        self._unused.append(member.number)

    def note_sequence(self, member: Member, sequence: int) -> bool:
        """Count what was lost between the last report and this one.

        Not of a member that was silent, or while this agent stood still: what was
        sent while either was away says nothing of the chances of the next.

        Returns:
            Whether reports are missing because this agent stood still.
        """
        missed = sequence - member.sequence - 1
        excused, member.excused = member.excused, False
        away = excused or member.silent
        if member.sequence > 0 and missed >= 0 and not away:
            for _ in range(min(missed, MISSED_MAX)):
                member.loss += LOSS_GAIN * (1.0 - member.loss)
                self.loss += LOSS_GAIN / self._crowd() * (1.0 - self.loss)
            member.loss -= LOSS_GAIN * member.loss
            self.loss -= LOSS_GAIN / self._crowd() * self.loss
        member.sequence = sequence
        return excused and missed > 0

    def _crowd(self) -> float:
        return max(1.0, 0.2 * len(self.by_agent))

    def all_whole(self) -> bool:
        """Say whether each has told all its rows."""
        return all(member.whole for member in self.by_agent.values())

    def answer_gap_s(self) -> float:
        """Return the least time between two answers to hellos."""
        settings = self._settings
        each_s = settings.answer_gap_each_s * len(self.by_agent)
        return max(settings.answer_gap_s, each_s)

    def answer_s(self) -> float:
        """Return how long a question and its answer take, if it comes at once."""
        return 2.0 * (self.lag_s + self._settings.tick_s) + self._settings.answer_gap_s

    def lease_of(self, member: Member | None) -> float:
        """Return the silence after which a member, or this agent, counts as silent.

        T·ln 10⁻⁴ / ln loss, between 3 and 9 heartbeats: with every fifth report
        lost three in a row are missing once in 125.
        """
        settings = self._settings
        interval = settings.interval_s if member is None else member.interval_s
        loss = self.loss if member is None else max(self.loss, member.loss)
        wanted = 1.0
        if loss > LOSS_FLOOR:
            wanted = log(LOSS_FLOOR) / log(min(loss, LOSS_MAX))
        least, most = settings.lease_min_intervals, settings.lease_max_intervals
        return interval * min(max(wanted, least), most)
