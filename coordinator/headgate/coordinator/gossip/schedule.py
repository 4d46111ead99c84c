"""When to report, and which rows: dead reckoning, urgency, keyframes.

Receivers extrapolate each row at ρ, the share that they compute; the sender computes
the same and so knows what they assume.  A heartbeat every T says "I am alive, and any
row that I omit is as you extrapolate it".  It carries a row only if the truth is off by
more than max(½ cost, √(ρ·cost·T')) units, so steady load costs no rows.  A keyframe
of all rows every 10 T bounds the damage that one lost row can do, and an agent that
misses more reports of another in a row than chance explains asks for all its rows.

**Urgent rows.**  A row is sent at once if its usable demand min(λ, 1.2·w·θ) has moved
by more than 10 % of what was sent, by 10 % of Q/n, and by three sigma of the average
(one sigma just after a reset, which has already passed a five-sigma test).  Demand
above θ changes nobody's share, so its noise is not reported.  No other rule helps as
much: a full flip settles in 0.35 s rather than 0.9 s at T = 1 s, and T = 5 s with this
rule equals T = 0.25 s without it.  The first estimate after a reset is told again
(`CONFIRM_S`).

A row that is off as above is sent at once, too, if T' is below T; otherwise if three
sigma, and 10 % of what Q/n earns in T, were spent beyond what the others expect.

**Repeats.**  A demand that moved or began is told again with the next heartbeats, as
many as the loss measured by then asks for, whichever report told it first.

All of an agent's urgent rows go into one report.  A row that a receiver did not know
before is an implicit question: the receiver answers with its own row of that group.
"""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headgate.coordinator.ledger.replay import LOSS_FLOOR
from headgate.coordinator.table.one_or_many import chosen, greater, lesser, root, some

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.table.arrays import Flags, Floats

DRIFT_SIGMAS = 1.0
"""Standard deviations of a Poisson count over T by which a row may be off."""

USABLE = 1.2
"""Demand above this multiple of w·θ is not urgent: it changes no share."""

URGENT_PART = 0.1
"""Part of what was sent, and of Q/n, by which demand must have moved to be urgent."""

URGENT_SIGMAS = 3.0
"""Noise of the demand average, or of what was admitted, that is not worth a report."""

FRESH_SIGMAS = 1.0
"""The same, but just after a reset."""

FRESH_S = 0.15
"""How long "just after a reset" lasts, seconds."""

AGAIN, AGAIN_S = 2.0, 0.1
"""How often, and after how many seconds, a row that reports each admission is repeated
while reports are being lost."""

MISSED_BY = 0.01
"""Accepted probability of missing a change and all its repeats."""

REPEATS_MAX = 5
"""Most heartbeats that repeat a change; a keyframe comes every ten anyway."""

CONFIRM_S = 0.075
"""After a reset the estimate rests on 25 ms of samples.  It is reported once more after
this time, with half the noise, and then each time it has become twice as old.
Otherwise the first guess would stand until the next heartbeat."""

ROUND_INTERVALS = 5.0
"""Heartbeats between two questions that outages lead to, over all agents: a bus that
keeps losing reports in bursts must not cost a keyframe of everyone each second."""

ROUNDING_S = 1e-9
"""Rounding error of a sum of two times, seconds."""

CONFIRMED_S = 0.6
"""Age at which an estimate need not be confirmed again: its noise is near its
minimum."""


class Extrapolation(NamedTuple):
    """How the others extrapolate this agent's rows, and what that depends on.

    Numbers instead of columns if this agent has one bucket.

    Attributes:
        off: ``float64[N]`` units by which the others' extrapolation is off.
        unsure: ``float64[N]`` units by which it may also be off, because ρ changed
            before all agents knew why.
        theta: ``float64[N]`` w·θ.
        quota: ``float64[N]`` Q/n, units/s; infinite where unlimited.
        extrapolated_rate: ``float64[N]`` ρ of this agent.
        quiet_s: ``float64[N]`` T', for how long a row in steady load is not reported.
        at_once: ``bool[N]`` each admission is reported at once.
        starved: ``bool[N]`` this agent got less than its part, and said nothing lately.
    """

    off: Floats
    unsure: Floats
    theta: Floats
    quota: Floats
    extrapolated_rate: Floats
    quiet_s: Floats
    at_once: Flags
    starved: Flags

    def drifted(self, cost: Floats, interval_s: float) -> tuple[Flags, Flags]:
        """Return which rows are off by more than the noise of steady load.

        Args:
            cost: ``float64[N]`` units of a request.
            interval_s: Time between heartbeats.

        Returns:
            ``bool[N]`` which are, and ``bool[N]`` which of them can't wait.
        """
        off = greater(np.abs(self.off), self.unsure)
        sigma = root(self.extrapolated_rate * cost * self.quiet_s)
        drifted = ~self.at_once & (off > greater(0.5 * cost, DRIFT_SIGMAS * sigma))
        far = self.off > greater(
            URGENT_SIGMAS * sigma, URGENT_PART * self.quota * interval_s
        )
        # If the bucket is large enough, the next heartbeat will do.
        return drifted, drifted & (far | (self.quiet_s < interval_s))


class ReportSchedule:
    """The sender's side of one agent: timers and the choice of rows.

    Attributes:
        sequence: Sequence number of the last report.
        hello: The next report asks the others for all their rows.
        answer: The report that was chosen carries all rows.
        urgent: A report must leave as soon as the least gap allows.
        round_at: When somebody, this agent included, last asked for all rows.
        next_beat: When the next heartbeat is due, monotonic seconds.
    """

    def __init__(self, settings: Settings, *, phase: float, now: float) -> None:
        self._settings = settings
        self.sequence = 0
        self.hello = True
        self.answer = False
        self.urgent = False
        self.round_at = -np.inf
        self._beats = 0
        self.next_beat = now
        self._phase = phase
        self._last_at = self._told_all_at = self._told_rows_at = -np.inf
        self._looked_at = now
        self._answer_at = self._rows_at = self._wonder_at = np.inf

    def owe(self, now: float, gap_s: float) -> None:
        """Plan a report of all rows, at least `gap_s` after the last such report."""
        at = max(now, self._told_all_at + gap_s - ROUNDING_S)
        self._answer_at = min(self._answer_at, at)

    def owe_rows(self, now: float, gap_s: float) -> None:
        """Plan a report of the wanted rows, `gap_s` or more after the last one."""
        reported_at = max(self._told_all_at, self._told_rows_at)
        self._rows_at = min(self._rows_at, max(now, reported_at + gap_s - ROUNDING_S))

    def wonder(self, now: float, wait_s: float, *, patient: bool = False) -> None:
        """Plan to ask for all rows, unless they have arrived within `wait_s`.

        If `patient`, wait until the last such question is some heartbeats old.
        """
        at = now + wait_s
        if patient:
            apart_s = ROUND_INTERVALS * self._settings.interval_s
            at = max(at, self.round_at + apart_s)
        self._wonder_at = min(self._wonder_at, at)

    def wonders(self, now: float) -> bool:
        """Return True once: when the time to wait for missing rows has expired."""
        if now < self._wonder_at:
            return False
        self._wonder_at = np.inf
        return True

    def may_speak(self, now: float, local: LocalBuckets) -> bool:
        """Return whether there can be anything to report now: a cheap first test.

        To be asked at each look.  The least gap holds a report back to the next look if
        that comes within a tick of its end, as the others assume; else it leaves now.
        """
        pace_s, self._looked_at = now - self._looked_at, now
        early_s = self._last_at + self._settings.urgent_gap_s - ROUNDING_S - now
        if early_s > 0.0 and pace_s < early_s + self._settings.tick_s + ROUNDING_S:
            return False
        return (
            now >= min(self.next_beat, self._answer_at, self._rows_at)
            or self.hello
            or self.urgent
            or any(map(np.count_nonzero, (local.used, local.demand.rate, local.again)))
        )

    def choose(
        self, local: LocalBuckets, now: float, outlook: Extrapolation, loss: float
    ) -> Flags | None:
        """Return which rows to publish now, ``bool[N]``, or None for no report.

        Args:
            local: The buckets.
            now: Monotonic seconds.
            outlook: What the others assume about the rows if there is no report.
            loss: Fraction of the reports that are lost.
        """
        rows, beat = local.all, now >= self.next_beat
        keyframe = self.hello or now >= self._answer_at
        if beat:
            keyframe |= self._beats % self._settings.keyframe_every == 0
            self._beat(now)
        known = local.numbers[rows] >= 0
        urgent = _moved(local, outlook) | _confirmed(local, outlook, now)
        again = local.repeated[rows] < (_repeats(loss) if beat else 0)
        if beat:
            local.repeated[rows] += again | keyframe
        # Whatever report tells a new demand first, it may be lost.
        wants, told = local.usable[rows] > 0.0, local.sent_demand[rows]
        began = wants & (told <= 0.0)
        local.repeated[rows] = chosen(urgent | began, 0.0, local.repeated[rows])
        if keyframe:
            self.answer = True
            return np.atleast_1d(known)
        urgent |= again | (told < 0.0)  # never published
        # Who admits nothing would tell nobody that its level is below theirs.
        urgent |= outlook.starved & wants
        if now >= self._rows_at:
            urgent |= local.wanted[rows]
            self._rows_at, self._told_rows_at = np.inf, now
        urgent |= _admitted(local, outlook, now, loss)
        drifted, far = outlook.drifted(local.cost[rows], self._settings.interval_s)
        urgent |= far
        urgent &= known
        if not beat and not self.urgent and not some(urgent):
            return None
        return np.atleast_1d(urgent | (known & drifted))

    def _beat(self, now: float) -> None:
        interval = self._settings.interval_s
        if self._beats == 0:
            # All later heartbeats keep this agent's own phase.
            self.next_beat = now + interval * self._phase
        else:
            late = max(0.0, now - self.next_beat)
            self.next_beat += interval * (1.0 + late // interval)
        self._beats += 1

    def sent(self, now: float) -> None:
        """Note that the report that was chosen is sent now."""
        self._last_at = now
        if self.hello:
            self.round_at = now
        if self.answer:
            self._told_all_at = now
            self._answer_at = self._rows_at = np.inf
        self.hello = self.answer = self.urgent = False


def _moved(local: LocalBuckets, outlook: Extrapolation) -> Flags:
    """Return the rows whose usable demand has moved by more than noise."""
    rows, most = local.all, USABLE * outlook.theta
    told = lesser(greater(local.sent_demand[rows], 0.0), most)
    moved = np.abs(lesser(local.usable[rows], most) - told)
    clear = (moved > URGENT_PART * told) & (moved > URGENT_PART * outlook.quota)
    if not some(clear):
        return clear
    sigmas = chosen(local.demand.age_s[rows] < FRESH_S, FRESH_SIGMAS, URGENT_SIGMAS)
    return clear & (moved > sigmas * local.demand.sigma(local.cost)[rows])


def _confirmed(local: LocalBuckets, outlook: Extrapolation, now: float) -> Flags:
    """Return the rows whose reset estimate is due again; plan the next time."""
    rows = local.all
    confirmed: Flags = (local.confirm_at[rows] <= now) & (outlook.quota < np.inf)
    if some(confirmed):
        # An estimate of 0 is no guess, and no look makes it any older.
        age_s = local.demand.age_s[rows]
        young = (age_s < CONFIRMED_S) & (local.demand.rate[rows] > 0.0)
        following = chosen(young, now + age_s, np.inf)
        local.confirm_at[rows] = chosen(confirmed, following, local.confirm_at[rows])
    return confirmed


def _admitted(
    local: LocalBuckets, outlook: Extrapolation, now: float, loss: float
) -> Flags:
    """Return the rows that report each admission and have one, or repeat one."""
    rows = local.all
    news = outlook.at_once & (local.admitted[rows] > local.sent_admitted[rows])
    if loss < LOSS_FLOOR:
        return news
    # Nothing is extrapolated, so an agent that misses the report never learns of it.
    due = (local.again[rows] > 0) & (local.again_at[rows] <= now)
    local.again[rows] = chosen(news, AGAIN, local.again[rows] - due)
    due |= news
    local.again_at[rows] = chosen(due, now + AGAIN_S, local.again_at[rows])
    return due


def _repeats(loss: float) -> int:
    """Return in how many heartbeats a changed demand is repeated.

    An agent that missed it would compute shares from the old demand until the next
    keyframe.
    """
    if loss < LOSS_FLOOR:
        return 1
    return min(max(1, ceil(log(MISSED_BY) / log(min(loss, 0.9)))), REPEATS_MAX)
