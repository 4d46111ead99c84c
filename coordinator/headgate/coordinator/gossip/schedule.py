"""When to report, and which rows: dead reckoning, urgency, keyframes.

Receivers extrapolate each row at ρ, the share that they compute; the sender
computes the same and knows what they believe.  A heartbeat every T says "I live,
and what I omit is as you extrapolate"; it carries a row only where the truth is
off by more than max(½ cost, √(ρ·cost·T')) units, so steady load costs no rows.
A keyframe of all rows every 10 T bounds what a lost row can do.

**At once** goes a row whose usable demand min(λ, 1.2·w·θ) has moved by more than
10 % of what was sent and 10 % of Q/n and three sigma of the average (one sigma just
after a reset, which has passed a five-sigma test already).  Demand above θ changes
nobody's share, so its noise is not told.  This is the best single lever: a full
flip settles in 0.35 s rather than 0.9 s at T = 1 s, and T = 5 s with it equals
T = 0.25 s without.  At most every 50 ms.  The first estimate after a reset is a
guess from 25 ms; it is told again 75 ms later, and then whenever it is twice as old.

All of an agent's urgent rows leave in one report.  A row that someone had no line
for is an implicit question: receivers answer with their own row of that group.
"""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.messages.report import Report, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import Own

    Floats = NDArray[np.float64]

DRIFT_SIGMAS = 1.0
"""Standard deviations of a Poisson count over T that a row may be off."""

USABLE = 1.2
"""Demand above this multiple of w·θ is not told at once: it changes no share."""

URGENT_SIGMAS = 3.0
"""Noise of the demand average that is not worth a report."""

FRESH_SIGMAS = 1.0
"""The same just after a reset."""

FRESH_S = 0.15
"""What "just after a reset" means."""


AGAIN, AGAIN_S = 2, 0.1
"""How often, and how much later, a row that tells each admission is said again while
reports are lost."""

MISSED_BY = 0.01
"""Chance to miss a change and all its repeats."""

ANNOUNCED_COSTS = 3.0
"""Mean costs above which a request, or what came within one tick, is announced."""

REPEATS_MAX = 5
"""Heartbeats at most; keyframes come every ten."""

LOSS_FLOOR = 1e-3
"""A smaller measured loss counts as none: one repeat covers it."""


CONFIRM_S = 0.075
"""After a reset the estimate rests on 25 ms; so much later it is told once more, with
half of the noise, and then each time that it is twice as old.  Without it the first
guess stays until the next heartbeat."""

ROUNDING_S = 1e-9
"""What the sum of two times may be too late by."""

CONFIRMED_S = 0.6
"""Age of an estimate that was told often enough: its noise is near its least."""


class Reporting:
    """The sender's side of one agent: timers and the choice of rows.

    Attributes:
        sequence: Of the last report.
        hello: The next report asks for everyone's rows.
        answer: The next report carries all rows.
        answering: It was asked for, rather than due.
        urgent: A report must leave as soon as the gap allows.
    """

    def __init__(self, settings: Settings, *, phase: float, now: float) -> None:
        self._settings = settings
        self.sequence = 0
        self.hello = True
        self.answer = False
        self.answering = False
        self.urgent = False
        self._beats = 0
        self._next_beat = now
        self._phase = phase
        self._last_at = self._told_all_at = self._told_rows_at = -np.inf
        self._answer_at = self._rows_at = self._wonder_at = np.inf

    def owe(self, now: float, gap_s: float) -> None:
        """Tell all rows, at least `gap_s` after they were told the last time."""
        self.answering = True
        at = max(now, self._told_all_at + gap_s - ROUNDING_S)
        self._answer_at = min(self._answer_at, at)

    def owe_rows(self, now: float, gap_s: float) -> None:
        """Tell those that are wanted, at least `gap_s` after such were told."""
        told_at = max(self._told_all_at, self._told_rows_at)
        self._rows_at = min(self._rows_at, max(now, told_at + gap_s - ROUNDING_S))

    def wonder(self, now: float, wait_s: float) -> None:
        """Ask for all rows, unless they have come after `wait_s`."""
        self._wonder_at = min(self._wonder_at, now + wait_s)

    def wonders(self, now: float) -> bool:
        """Say once, when it is time, that what was missing should be there."""
        if now < self._wonder_at:
            return False
        self._wonder_at = np.inf
        return True

    def next_at(self) -> float:
        """Return when the next heartbeat is due, monotonic seconds."""
        return self._next_beat

    def may_speak(self, now: float, own: Own) -> bool:
        """Say whether there can be anything to report now: a cheap first look."""
        if now - self._last_at < self._settings.urgent_gap_s - ROUNDING_S:
            return False
        return (
            now >= self._next_beat
            or self.hello
            or now >= self._answer_at
            or now >= self._rows_at
            or self.urgent
            or bool(np.count_nonzero(own.used))
            or bool(np.count_nonzero(own.demand.rate))
            or bool(np.count_nonzero(own.again))
        )

    def choose(
        self,
        own: Own,
        now: float,
        *,
        off: Floats,
        unsure: Floats,
        theta: Floats,
        quota: Floats,
        burn: Floats,
        quiet_s: Floats,
        at_once: NDArray[np.bool_],
        loss: float,
    ) -> NDArray[np.bool_] | None:
        """Return which rows to publish now, ``bool[N]``, or None for no report.

        Args:
            own: The buckets.
            now: Monotonic seconds.
            off: ``float64[N]`` units by which the others' extrapolation is off.
            unsure: ``float64[N]`` units by which it may be off besides, since ρ turned
                while not all knew why.
            theta: ``float64[N]`` w·θ.
            quota: ``float64[N]`` Q/n, units/s; infinite where unlimited.
            burn: ``float64[N]`` ρ of this agent.
            quiet_s: ``float64[N]`` T', how long a row in steady load stays untold.
            at_once: ``bool[N]`` each admission is told at once.
            loss: Part of reports that are lost.
        """
        beat = now >= self._next_beat
        keyframe = self.hello or now >= self._answer_at
        if beat:
            if self._beats % self._settings.keyframe_every == 0:
                keyframe = True
            self._beat(now)
        known = own.numbers >= 0
        if keyframe:
            self.answer = True
            return known
        urgent = self._urgent(own, theta=theta, quota=quota)
        confirmed = (own.confirm_at <= now) & np.isfinite(quota)
        if confirmed.any():
            # An estimate of 0 is no guess, and no look makes it any older.
            young = (own.demand.age_s < CONFIRMED_S) & (own.demand.rate > 0.0)
            own.confirm_at[confirmed] = np.inf
            again = confirmed & young
            own.confirm_at[again] = now + own.demand.age_s[again]
            urgent |= confirmed
        own.repeats[urgent] = _repeats(loss)
        if beat:
            again = own.repeats > 0
            own.repeats[again] -= 1
            urgent |= again
        urgent |= own.sent_demand < 0.0
        if now >= self._rows_at:
            urgent |= own.wanted
            self._rows_at, self._told_rows_at = np.inf, now
        news = at_once & (own.admitted > own.sent_admitted)
        urgent |= news
        if loss >= LOSS_FLOOR:
            # Nothing is extrapolated, so whoever misses it does not know of it at all.
            due = (own.again > 0) & (own.again_at <= now)
            own.again[due] -= 1
            own.again[news] = AGAIN
            own.again_at[due | news] = now + AGAIN_S
            urgent |= due
        allowed: Floats = np.maximum(
            0.5 * own.cost,
            DRIFT_SIGMAS * np.sqrt(burn * own.cost * quiet_s),
        )
        drifted = ~at_once & (np.maximum(np.abs(off), unsure) > allowed)
        # Where the bucket is large enough the next heartbeat will do.
        urgent |= drifted & (quiet_s < self._settings.interval_s)
        urgent &= known
        if not beat and not self.urgent and not urgent.any():
            return None
        return urgent | (known & drifted)

    def _beat(self, now: float) -> None:
        interval = self._settings.interval_s
        if self._beats == 0:
            # The phase of all later beats is this agent's own.
            self._next_beat = now + interval * self._phase
        else:
            late = max(0.0, now - self._next_beat)
            self._next_beat += interval * (1.0 + late // interval)
        self._beats += 1

    @staticmethod
    def _urgent(own: Own, *, theta: Floats, quota: Floats) -> NDArray[np.bool_]:
        most = USABLE * theta
        told = np.minimum(np.maximum(own.sent_demand, 0.0), most)
        moved = np.abs(np.minimum(own.usable, most) - told)
        fresh = own.demand.age_s < FRESH_S
        sigmas = np.where(fresh, FRESH_SIGMAS, URGENT_SIGMAS)
        result: NDArray[np.bool_] = (
            (moved > 0.1 * told)
            & (moved > 0.1 * quota)
            & (moved > sigmas * own.demand.sigma(own.cost))
        )
        return result

    def publish(
        self,
        own: Own | None,
        rows: NDArray[np.bool_] | None,
        *,
        now: float,
        level: Floats | None,
        like: Report,
        demand: Floats | None = None,
    ) -> Report:
        """Make the report and remember what it said.

        Args:
            own: The buckets, if there are any.
            rows: ``bool[N]`` which of them.
            now: Monotonic seconds.
            demand: ``float64[N]`` λ' to tell; `usable` if absent.
            level: ``float64[N]`` E, where it is known and asked for.
            like: Carries sender, time and revision.
        """
        self.sequence += 1
        self._last_at = now
        parts: list[Rows] = []
        if own is not None and rows is not None:
            demand = own.usable if demand is None else demand
            parts = _rows_of(own, rows, demand, level)
            own.sent_admitted[rows] = own.admitted[rows]
            own.sent_demand[rows] = demand[rows]
            own.wanted[rows] = False
            own.largest[rows] = 0.0
        report = Report(
            cluster=like.cluster,
            agent=like.agent,
            incarnation=like.incarnation,
            sequence=self.sequence,
            sent_at_s=like.sent_at_s,
            revision=like.revision,
            hello=self.hello,
            leave=like.leave,
            keyframe=self.hello or self.answer,
            rows=tuple(parts),
            permits=like.permits,
            weight=like.weight,
            interval_s=like.interval_s,
        )
        if report.keyframe:
            self._told_all_at = now
            self._answer_at = self._rows_at = np.inf
            self.answering = False
        self.hello = self.answer = self.urgent = False
        return report


def _repeats(loss: float) -> int:
    """Return in how many heartbeats a changed demand is told again.

    Whoever missed it would share out by the old demand until the next keyframe.
    """
    if loss < LOSS_FLOOR:
        return 1
    return min(max(1, ceil(log(MISSED_BY) / log(min(loss, 0.9)))), REPEATS_MAX)


def _announced(largest: Floats, cost: Floats) -> Floats | None:
    """Return what to say of large requests; None where there was none."""
    large = largest > ANNOUNCED_COSTS * cost
    return np.where(large, largest, 0.0) if np.count_nonzero(large) else None


def _rows_of(
    own: Own, chosen: NDArray[np.bool_], demand: Floats, level: Floats | None
) -> list[Rows]:
    parts: list[Rows] = []
    for dimension, where, groups in own.by_dimension:
        picked = chosen[where]
        if not picked.any():
            continue
        at = where[picked]
        parts.append(
            Rows(
                dimension=dimension,
                group_ids=groups[picked],
                refused=own.refused[at],
                admitted=own.admitted[at],
                demand=demand[at],
                held=own.held[at],
                cost=own.cost[at],
                largest=_announced(own.largest[at], own.cost[at]),
                level=None if level is None else level[at],
                subjects=own.subjects[at],
            )
        )
    return parts
