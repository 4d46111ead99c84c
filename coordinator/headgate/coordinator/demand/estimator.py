"""Demand λ of each local bucket, from what callers attempted.

Attempted, not admitted: what a starved agent admits says nothing about what it wants,
and every saturated split would then be a fixed point (Ably saw this as oscillation;
PIP-82's formula shows it as 31 % unfairness).  Callers that wait count as well.

**Theory.**  While demand is steady the best estimate is a long average; once it has
changed, old samples are worthless.  So this is an average over τ = 1 s and at least ten
requests, plus a test of whether the newest window could have come from that average.
For Poisson arrivals the deviance of x requests where μ were expected,

    d = 2·(x·ln(x/μ) − (x − μ)),

is roughly χ² with one degree of freedom.  Beyond 25 (five sigma; and more than three
requests, below which χ² is no guide) the average is *reset* to the newer half of that
window plus any earlier ticks that fit the new rate better than the old one: a window
fires when its newest ticks happen to be extreme, so those alone would be a biased
sample.  There are windows of 2, 4, 8 and 16 ticks: the short one detects a flip of a
thousand requests/s within 50 ms, the long ones a change at 40/s that a short one can't
tell from chance.  Rises and falls are treated alike.  Demand has ended if the average
makes the silence less likely than e^−12.5 (the same five sigma).

A window is compared with the average from *before* it, which contains no part of the
change; the threshold is raised by that average's own noise, a factor of 1 + span/age.

False resets: 5.7e−7 per independent look, less than one an hour per bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.turns import SILENCE
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    single,
    some,
)

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Flags, Floats, Ints

TAU_S = 1.0
"""Averaging time: at 1,000 requests/s the noise is 2 %."""

LEAST_REQUESTS = 10.0
"""Fewest requests in the average; with fewer it would be mostly noise (32 % at ten)."""

LONGEST_TAU_S = 5.0
"""Longest averaging time if requests are rare: older ones say little about now."""

SUSPICIOUS_DEVIANCE = 25.0
"""Deviance of five sigma."""

LEAST_SURPRISE = 3.0
"""A difference of fewer requests than this is no evidence, whatever the deviance."""

WINDOWS = np.array([2, 4, 8, 16])
"""Lengths of the windows, ticks: the newest 50 to 400 ms."""

DEPTH = 17
"""Samples kept: the longest window plus the newest sample."""

AGO = (np.arange(DEPTH)[:, None] - WINDOWS) % DEPTH
"""For the newest sample's place, the places of the samples one window earlier."""

SETTLED_S = 0.6
"""Time after the last request until all windows are empty and looks may pause."""

FADE_S = 0.2
"""Seconds between two looks at an average that only fades."""

FAINT_PER_S = 1e-3
"""Requests/s below which a fading average ends: its caller is gone, and an agent that
was asked once must not look at it for ever."""


def deviance(came: Floats, due: Floats) -> Floats:
    """Return how unlikely this many requests are if this many were expected."""
    ratio = np.log((came + 1e-12) / (due + 1e-12))
    unlikely: Floats = 2.0 * (came * ratio - (came - due))
    return unlikely


class Demand:
    """Estimates for N buckets in the order of their keys.

    Attributes:
        rate: ``float64[N]`` λ, units/s.
        age_s: ``float64[N]`` seconds of samples in the average, at most τ.
    """

    def __init__(self, size: int, now: float) -> None:
        self.rate = np.zeros(size)
        self.age_s = np.full(size, 1e-3)
        self._totals = np.zeros((DEPTH, size))
        self._rates = np.zeros((DEPTH, size))
        self._times = np.full(DEPTH, now)
        self._seen = 0
        self._grew_at = np.full(size, now)
        self._active_at = self._idle_at = now
        self._before = self.rate
        self._at = single(slice(0, size))

    def busy(self, now: float) -> bool:
        """Return whether requests came so recently that each tick needs a look."""
        return now - self._active_at < SETTLED_S

    def due(self, now: float) -> bool:
        """Return whether a look without new requests would change anything by now."""
        if self.busy(now):
            return True
        looked_at = self._times[self._seen % DEPTH]
        return bool(now - looked_at >= FADE_S and np.count_nonzero(self.rate))

    def rest(self, now: float) -> None:
        """Let time pass in which nothing was attempted, at no cost.

        At the next look, an average above 0 fades by that time.
        """
        self._idle_at = now
        if not np.count_nonzero(self.rate):
            self._times += now - self._times[self._seen % DEPTH]

    def inherit(self, old: Demand, to: Ints, of: Ints) -> None:
        """Copy the buckets `of` of another into the places `to` of this new one."""
        self.rate[to] = old.rate[of]
        self.age_s[to] = old.age_s[of]
        self._totals[:, to] = old._totals[:, of]
        self._rates[:, to] = old._rates[:, of]
        self._grew_at[to] = old._grew_at[of]
        self._times[:] = old._times
        self._seen = old._seen

    def begin(self, at: Ints, totals: Floats) -> None:
        """Make some buckets count from these totals on, ``float64[K]`` units."""
        self._totals[:, at] = totals

    def look(self, now: float, totals: Floats, cost: Floats) -> Flags:
        """Enter the newest counters; return ``bool[N]``: which averages were reset.

        Args:
            now: Monotonic seconds.
            totals: ``float64[N]`` units attempted since the start.
            cost: ``float64[N]`` units per request.
        """
        return np.atleast_1d(self._look(now, totals[self._at], cost[self._at]))

    def _look(self, now: float, totals: Floats, cost: Floats) -> Flags:
        """Do what `look` does; a single bucket's arguments and result are numbers."""
        at, last = self._at, self._seen % DEPTH
        elapsed = now - self._times[last]
        if elapsed <= 0.0:
            return totals < 0.0
        # A parent's total falls when a child leaves it; that is not an attempt.
        grown = greater(totals - self._totals[last, at], 0.0)
        if self._idle_at > self._times[last] and some(grown):
            # New requests came after the last tick, not evenly since the last look.
            faded = self._look(self._idle_at, self._totals[last, at] + 0.0, cost)
            return faded | self._look(now, totals, cost)
        before = self.rate[at] + 0.0
        self._seen += 1
        here = self._seen % DEPTH
        self._totals[here, at] = totals
        self._times[here] = now
        if some(grown):
            self._grew_at[at] = chosen(grown > 0.0, now, self._grew_at[at])
            self._active_at = now

        tau = LEAST_REQUESTS * cost / greater(before, 1e-9)
        tau = lesser(greater(tau, TAU_S), LONGEST_TAU_S)
        firing = self._surprised(now, totals, cost)
        reset: Flags = np.logical_or.reduce(firing, axis=0)
        age_s = lesser(self.age_s[at] + elapsed, tau)
        gain = lesser(elapsed / age_s, 1.0)
        self.age_s[at] = age_s
        self.rate[at] = before + gain * (grown / elapsed - before)
        self._before = before
        if some(reset):
            self._reset(now, np.atleast_1d(totals), np.atleast_1d(cost), firing)
            self._before = chosen(reset, self.rate[at] + 0.0, before)
        silent = (now - self._grew_at[at]) * self.rate[at] > SILENCE * cost
        if some(silent):
            self.rate[at] = chosen(silent, 0.0, self.rate[at])
            age_s = self.age_s[at]
            self.age_s[at] = chosen(silent, lesser(age_s, elapsed), age_s)
            reset |= silent
        if now - self._active_at > LONGEST_TAU_S:
            faint = self.rate[at] < FAINT_PER_S * cost
            self.rate[at] = chosen(faint, 0.0, self.rate[at])
        self._rates[here] = self.rate
        return reset

    def unmoved(self) -> Floats:
        """Return ``float64[N]``, λ without the requests of the newest look, units/s.

        Right after a request the average is at its highest: with one request every 10 s
        and τ = 5 s it is 0.3/s on average, not 0.1/s.  Just before a Poisson arrival
        it is what it is at any other time.
        """
        unmoved: Floats = np.minimum(self._before, self.rate)
        return unmoved

    def sigma(self, cost: Floats) -> Floats:
        """Return ``float64[N]``, the noise of the average in units/s."""
        noise: Floats = np.sqrt(self.rate * cost / self.age_s)
        return noise

    def _surprised(self, now: float, totals: Floats, cost: Floats) -> Flags:
        """Return ``bool[W, N]``: which windows hardly came from the average."""
        at, ago = self._at, AGO[self._seen % DEPTH]
        spans = now - self._times[ago]
        if isinstance(at, slice):
            spans = spans[:, None]
        came = np.maximum(totals - self._totals[ago, at], 0.0) / cost
        # Compare with the average from before the window, which has no part of it.
        due = self._rates[ago, at] / cost * spans
        candidates: Flags = np.abs(came - due) > LEAST_SURPRISE
        if not np.count_nonzero(candidates):
            return candidates
        before = self.age_s[at] - spans
        candidates &= before > 0.999 * spans
        # That average is noisy as well, and the younger it is the more so.
        limit = SUSPICIOUS_DEVIANCE * (1.0 + spans / np.maximum(before, spans))
        candidates &= deviance(came, due) > limit
        return candidates

    def _reset(self, now: float, totals: Floats, cost: Floats, firing: Flags) -> None:
        firing = firing.reshape(len(WINDOWS), -1)
        which = np.flatnonzero(firing.any(axis=0))
        window = WINDOWS[np.argmax(firing[:, which], axis=0)]
        old = self._rates[(self._seen - window) % DEPTH, which]
        per, ticks = cost[which], window // 2
        came, spans = self._since(ticks, which, now, totals)
        going = ticks < window
        while np.count_nonzero(going):
            # Go one tick further back if that fits the new rate better than the old
            # one.
            more, longer = self._since(ticks + 1, which, now, totals)
            # Nothing is known about the time before a parent's total fell.
            going &= more >= came
            units, elapsed = np.maximum(more - came, 0.0) / per, longer - spans
            new = deviance(units, came / spans * elapsed / per)
            going &= new < deviance(units, old * elapsed / per)
            ticks = ticks + going
            came, spans = np.where(going, more, came), np.where(going, longer, spans)
            going &= ticks < window
        self.rate[which] = came / spans
        self.age_s[which] = spans

    def _since(
        self, ticks: Ints, which: Ints, now: float, totals: Floats
    ) -> tuple[Floats, Floats]:
        at = (self._seen - ticks) % DEPTH
        came = np.maximum(totals[which] - self._totals[at, which], 0.0)
        return came, np.maximum(now - self._times[at], 1e-6)
