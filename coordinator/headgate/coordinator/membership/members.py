"""The members of the cluster: life, silence, lag and loss of every agent heard.

`headgate.coordinator.allocation.reserves` says what silence means for shares; this
module keeps the clock.

**When did the numbers of a report hold?**  At its arrival, on this agent's monotonic
clock, less the lag of the bus.  The lag is measured: every agent hears its own reports
come back.  From another agent's report only the *difference* of its wall clock to this
agent's monotonic clock is used.  The smallest recent difference stands for the least
lag, and whatever exceeds it was spent on the way.  If two reports in a row, half a
heartbeat apart, seem late by the same amount, the sender's wall clock was set back, and
the base moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.messages.events import Vouched
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.arrays import Ints
    from headgate.coordinator.table.index import Place

ECHOES_MAX = 128
"""Most own reports whose return is awaited: five seconds of the most urgent traffic."""

BASE_S = 20.0
"""How long the smallest difference of clocks is remembered, at most twice as long: in
that time a drift of 100 ppm moves it by 4 ms."""

LAG_GAIN = 0.2
"""Weight of the newest echo: the average follows a change of the bus in five
reports."""

LOSS_GAIN = 0.05
"""Weight of the newest report in the measured loss: it is steady after twenty."""

LOSS_FLOOR = 1e-4
"""A lease is long enough that silence by chance is rarer than this."""

CHANCE = 1e-5
"""A hole in a member's reports that is less likely than this was no chance loss but an
outage: whatever changed may have been lost with all its repeats."""

CHANCE_FLOOR = 1e-3
"""A measured loss below this counts as this one."""

MISSING_CHANCE = 0.05
"""Own reports that don't come back are no chance loss if that is less likely than this:
one on a bus that loses none, two if it loses a fifth."""

BACK_LAGS = 3.0
"""Lags after which a report should have come back, whatever the bus's jitter."""

ROUNDING_S = 1e-6
"""More than the rounding error of a sum of times on any clock, seconds."""

MISSED_MAX = 20
"""Most missed reports counted at once: a longer gap is on its way to silence."""

SAID_MAX = 20_000
"""Most ids of which it is kept what the API said: the agents that it sees, at most
10,000, and as many that ended.  The oldest word is forgotten first, and that agent is
judged by the bus alone."""

LOSS_MAX = 0.9
"""Largest loss that is assumed: beyond it a member is as good as cut off.  It keeps
1 − loss away from zero."""


@dataclass(slots=True)
class Member:
    """One other agent.

    Attributes:
        number: Its number in the table.
        agent: Its id.
        incarnation: Its life.
        sequence: Sequence number of its newest report.
        heard_at: When it was last heard, monotonic seconds.
        reported_at: When the numbers of its newest report held.
        weight: Its weight among all agents.
        interval_s: Its heartbeat.
        revision: Revision of its configuration.
        loss: Fraction of its reports that don't arrive.
        usual_loss: The loss measured when its last report came, which later holes are
            judged by.
        silent: It has not been heard for longer than its lease.
        disbelieved_at: When it last reported an impossible counter.
        vouched: Whether its process is alive according to the API; None if the API
            says nothing.
        vouched_at: When the API said so.
        lived_at: When the API last called it alive, if it has stopped doing so.
        excused: It has not been heard since this agent stood still.
        whole: It has reported all its rows, and no outage has hidden a change since.
        unheard_since: When it was last heard before it was dropped and returned.
        cache: Where the rows of its last report stand, by dimension.
    """

    number: int
    agent: str
    incarnation: int
    sequence: int
    heard_at: float
    reported_at: float
    weight: float = 1.0
    interval_s: float = 1.0
    revision: int = 0
    loss: float = 0.0
    usual_loss: float = CHANCE_FLOOR
    silent: bool = False
    disbelieved_at: float = -inf
    vouched: bool | None = None
    vouched_at: float = -inf
    lived_at: float = -inf
    excused: bool = False
    whole: bool = False
    unheard_since: float = -inf
    late_s: float = 0.0
    cache: dict[str, tuple[int, Ints, list[Place]]] = field(
        default_factory=dict[str, "tuple[int, Ints, list[Place]]"]
    )
    _base: float = inf
    _older_base: float = inf
    _base_since: float = -inf
    _late_at: float = -inf

    def arrival_of(self, report: Report, now: float, least_lag_s: float) -> float:
        """Return when a report's numbers held, on this agent's monotonic clock."""
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
        return max(now - least_lag_s - late, min(self.reported_at, now - least_lag_s))


class Hole(NamedTuple):
    """What it means that reports are missing before a member's last one.

    Attributes:
        behind: They are missing because this agent stood still.
        new: It is the first report of this life; all before it may be missing.
        hidden: More are missing than chance loses: an outage may have hidden a change.
        returned: The member was silent; in its eyes this agent returns, too.
    """

    behind: bool
    new: bool
    hidden: bool
    returned: bool


class Members:
    """All other agents, by id, and what is known about the bus.

    Attributes:
        by_agent: The members, by id.
        by_number: The members, by their number in the table.
        said: What the API said last about other agents, members or not, by id.
        lag_s: One-way lag of the bus, measured on this agent's own reports.
        least_lag_s: The smallest recent lag; 0 for who only listens.
        echo_at: When this agent's newest report came back, or should have.
        echoed: Whether any report of its own ever came back.
        knows_at: When all agents have had time to answer this one's first report;
            infinite until that came back.
        met_at: When this agent last heard from one it did not know.
        loss: Fraction of all reports that don't arrive.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self.by_agent: dict[str, Member] = {}
        self.by_number: dict[int, Member] = {}
        self.said: dict[str, Vouched] = {}
        self.lag_s = 0.02
        self.least_lag_s = 0.02
        self.echo_at = now
        self.echoed = False
        self.knows_at = inf
        self.met_at = now
        self.loss = 0.0
        self._published: dict[int, float] = {}
        self._came_back_until = self._late_at = -inf
        self._unused: list[int] = []

    def vouch(self, word: Vouched) -> None:
        """Keep what the API says about an agent, or forget it if that is withdrawn."""
        self.said.pop(word.agent, None)
        if word.alive is not None:
            self.said[word.agent] = word
            if len(self.said) > SAID_MAX:
                del self.said[next(iter(self.said))]

    def published(self, sequence: int, now: float) -> None:
        """Remember when a report of this agent left."""
        if len(self._published) >= ECHOES_MAX:
            del self._published[next(iter(self._published))]
        self._published[sequence] = now

    def is_own(self, sequence: int) -> bool:
        """Return whether this agent recently sent a report with this number."""
        return sequence in self._published

    def forget_published(self) -> None:
        """Stop waiting for echoes: earlier reports went out under another id."""
        self._published.clear()

    def excuse(self, *, since: float, pause_s: float) -> None:
        """Excuse everyone for not being heard while this agent stood still."""
        for member in self.by_agent.values():
            if member.heard_at <= since:
                member.heard_at += pause_s
                member.excused = True
        self.echo_at += pause_s

    def echo(self, sequence: int, now: float) -> None:
        """Measure the lag of the bus on a report of this agent that came back."""
        sent_at = self._published.pop(sequence)
        lag = max(0.0, now - sent_at)
        if lag > BACK_LAGS * self.lag_s:
            self._late_at = now
        if self.echoed:
            self.lag_s += LAG_GAIN * (lag - self.lag_s)
            self.least_lag_s = min(
                lag, self.least_lag_s + 0.01 * (lag - self.least_lag_s)
            )
        else:
            self.lag_s = self.least_lag_s = lag
            self.knows_at = now + self.answer_s()
        self.echoed = True
        self._came_back_until = max(self._came_back_until, sent_at)
        # One that was held up on the bus says nothing about the time since.
        self.echo_at = max(self.echo_at, sent_at + self.least_lag_s)

    def unheard_s(self, now: float, arrived: float) -> float:
        """Return for how long no report of this agent's has arrived; infinite if never.

        That some don't come back is taken for chance while that is likely; a bus that
        is gone loses all of them.

        Args:
            now: Monotonic seconds.
            arrived: When reports left that should just have arrived everywhere.
        """
        missing, due = 0, now - BACK_LAGS * self.lag_s
        for sent_at in reversed(self._published.values()):
            if sent_at <= self._came_back_until:
                break
            missing += sent_at <= due
        by_chance = max(self.loss, CHANCE_FLOOR) ** missing >= MISSING_CHANCE
        if self.echoed and by_chance:
            return 0.0
        return arrived - self._came_back_until - ROUNDING_S

    def hears_late(self, now: float) -> bool:
        """Return whether own reports come back late: so may those of others come."""
        lately = now - self._late_at <= BACK_LAGS * self.lag_s
        return lately or (self.echoed and self.unheard_s(now, now) > 0.0)

    def join(self, report: Report, now: float) -> Member | None:
        """Make the sender a member; None if the table is full."""
        if len(self.by_agent) >= self._settings.members_max:
            return None
        number = self._unused.pop() if self._unused else len(self.by_number) + 1
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

    def note_sequence(self, member: Member, sequence: int) -> Hole:
        """Count what was lost between the last report and this one.

        Nothing is counted if the member was silent or this agent stood still: reports
        sent while either was away say nothing about the chances of the next one.
        """
        missed = sequence - member.sequence - 1
        new = member.sequence == 0
        hidden = not new and member.usual_loss**missed < CHANCE
        member.whole &= not (new or hidden)
        excused, member.excused = member.excused, False
        away = excused or member.silent
        if not (new or away):
            for _ in range(min(missed, MISSED_MAX)):
                member.loss += LOSS_GAIN * (1.0 - member.loss)
                self.loss += LOSS_GAIN / self._crowd() * (1.0 - self.loss)
            member.loss -= LOSS_GAIN * member.loss
            self.loss -= LOSS_GAIN / self._crowd() * self.loss
        member.sequence = sequence
        # Later holes are judged by the loss measured before them.
        member.usual_loss = min(max(self.loss, member.loss, CHANCE_FLOOR), LOSS_MAX)
        behind = excused and missed > 0
        return Hole(behind=behind, new=new, hidden=hidden, returned=member.silent)

    def _crowd(self) -> float:
        return max(1.0, 0.2 * len(self.by_agent))

    def all_whole(self) -> bool:
        """Return whether every member has reported all its rows."""
        return all(member.whole for member in self.by_agent.values())

    def answer_gap_s(self) -> float:
        """Return the least time between two answers to hellos."""
        each_s = self._settings.answer_gap_each_s * len(self.by_agent)
        return max(self._settings.answer_gap_s, each_s)

    def answer_s(self) -> float:
        """Return how long a question and an immediate answer take."""
        return 2.0 * (self.lag_s + self._settings.tick_s) + self._settings.answer_gap_s

    def lease_of(self, member: Member | None) -> float:
        """Return how long a member, or this agent, must be unheard to count as silent.

        T·ln 10⁻⁴ / ln loss, between 3 and 9 heartbeats: if every fifth report is lost,
        three in a row are missing once in 125 times.
        """
        settings = self._settings
        interval = settings.interval_s if member is None else member.interval_s
        loss = self.loss if member is None else max(self.loss, member.loss)
        wanted = 1.0
        if loss > LOSS_FLOOR:
            wanted = log(LOSS_FLOOR) / log(min(loss, LOSS_MAX))
        least, most = settings.lease_min_intervals, settings.lease_max_intervals
        return interval * min(max(wanted, least), most)
