"""Demand λ of each local bucket, from what callers attempted.

Attempted, not admitted: what a starved agent admits says nothing about what it
wants, and every saturated split is then a fixed point (found by Ably as
oscillation, in PIP-82's formula as 31 % unfairness).  Callers that wait count.

**Theory.**  While demand is steady the best estimate is a long average; when it
has changed, the old samples are worth nothing.  So: an average over τ = 1 s and at
least ten requests, and a test whether the newest window could have come from it.
For Poisson arrivals the deviance of x requests where μ were expected,

    d = 2·(x·ln(x/μ) − (x − μ)),

is about χ² with one degree of freedom; beyond 25 (five sigma, and more than three
requests, where χ² is no guide) the average is *reset* to the newer half of that
window, and to the ticks before it that are likelier of the new rate than of the old:
a window fires when its newest ticks happen to be extreme, so these alone are a
biased sample.  Windows of 2, 4, 8 and 16 ticks: the short one sees a flip of a
thousand a second within 50 ms, the long ones a change at 40 a second that a short one
can't tell from chance.  Rises and falls are seen alike.  A silence that the average
makes less likely than e^−12.5 (the same five sigma) is an end of demand.

The window is compared with the average from *before* it, which has not swallowed a
part of the change; the limit is raised by that average's own noise, a factor of
1 + span/age.

False resets: 5.7e−7 for each independent look, below one in an hour per bucket.
Rejected: fast attack and slow decay (a fall leaves quota idle for as long as a
rise overshoots), one short average (its noise of √(λ·cost/τ) moves every share).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TAU_S = 1.0
"""Length of the average: at 1,000 requests/s its noise is 2 %."""

LEAST_REQUESTS = 10.0
"""An average over fewer requests would be mostly noise (32 % at ten)."""

LONGEST_TAU_S = 5.0
"""Bound of the length where requests are rare: older ones say little of now."""

SUSPICIOUS_DEVIANCE = 25.0
"""Five sigma."""

LEAST_SURPRISE = 3.0
"""Requests: fewer than this more or less is no evidence, whatever the deviance."""

WINDOWS = np.array([2, 4, 8, 16])
"""Ticks; the newest 50 to 400 ms."""

DEPTH = 17
"""Samples kept: the longest window and the newest."""

AGO = (np.arange(DEPTH)[:, None] - WINDOWS) % DEPTH
"""Of the newest sample's place, the places of those one window before it."""

SILENCE = 12.5
"""Requests that should have come; e^−12.5 is five sigma."""

SETTLED_S = 0.6
"""After the last request, time until all windows are empty: then looks may rest."""

FADE_S = 0.2
"""Between two looks at an average that only fades: it needs no more."""

FAINT_PER_S = 1e-3
"""Requests/s below which an average that only fades ends: its caller is gone, and
an agent that was asked once must not look at it for ever."""


def deviance(came: Floats, due: Floats) -> Floats:
    """Return how unlikely it is that so many requests came where so many were due."""
    ratio = np.log((came + 1e-12) / (due + 1e-12))
    unlikely: Floats = 2.0 * (came * ratio - (came - due))
    return unlikely


class Demand:
    """Estimates for N buckets in the order of their keys.

    Attributes:
        rate: ``float64[N]`` λ, units/s.
        age_s: ``float64[N]`` seconds that the average rests on, at most τ.
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

    def busy(self, now: float) -> bool:
        """Say whether requests came so lately that each tick needs a look."""
        return now - self._active_at < SETTLED_S

    def due(self, now: float) -> bool:
        """Say whether a look without new requests would change anything by now."""
        if self.busy(now):
            return True
        looked_at = self._times[self._seen % DEPTH]
        return bool(now - looked_at >= FADE_S and np.count_nonzero(self.rate))

    def rest(self, now: float) -> None:
        """Let time pass in which nothing was attempted, and cost nothing.

        An average that is not 0 fades by that time at the next look.
        """
        self._idle_at = now
        if not np.count_nonzero(self.rate):
            self._times += now - self._times[self._seen % DEPTH]

    def inherit(
        self, old: Demand, to: NDArray[np.int64], of: NDArray[np.int64]
    ) -> None:
        """Copy the buckets `of` of another into the places `to` of this one."""
        self.rate[to] = old.rate[of]
        self.age_s[to] = old.age_s[of]
        self._totals[:, to] = old._totals[:, of]
        self._rates[:, to] = old._rates[:, of]
        self._grew_at[to] = old._grew_at[of]
        self._before = self.rate.copy()
        self._times[:] = old._times
        self._seen = old._seen
        fresh = np.ones(len(self.rate), np.bool_)
        fresh[to] = False
        self._totals[:, fresh] = 0.0

    def begin(self, at: NDArray[np.int64], totals: Floats) -> None:
        """Let some buckets count from these totals on, ``float64[K]`` units."""
        self._totals[:, at] = totals

    def look(self, now: float, totals: Floats, cost: Floats) -> NDArray[np.bool_]:
        """Take the newest counters; return ``bool[N]``: the average was reset.

        Args:
            now: Monotonic seconds.
            totals: ``float64[N]`` units attempted since the start.
            cost: ``float64[N]`` units per request.
        """
        last = self._seen % DEPTH
        elapsed = now - self._times[last]
        if elapsed <= 0.0:
            return np.zeros(len(totals), dtype=np.bool_)
        # A parent's total falls when a child leaves it: nothing was attempted.
        grown = np.maximum(totals - self._totals[last], 0.0)
        if self._idle_at > self._times[last] and np.count_nonzero(grown):
            # What came now came after the last tick, not evenly since the last look.
            faded = self.look(self._idle_at, self._totals[last].copy(), cost)
            return faded | self.look(now, totals, cost)
        before = self.rate
        self._seen += 1
        here = self._seen % DEPTH
        self._totals[here] = totals
        self._times[here] = now
        self._grew_at[grown > 0.0] = now
        if np.count_nonzero(grown):
            self._active_at = now

        tau = np.maximum(before, 1e-9)
        np.divide(LEAST_REQUESTS * cost, tau, out=tau)
        np.minimum(np.maximum(tau, TAU_S, out=tau), LONGEST_TAU_S, out=tau)
        reset = self._surprised(now, totals, cost)
        self.age_s = np.minimum(self.age_s + elapsed, tau)
        gain = np.minimum(elapsed / self.age_s, 1.0)
        self.rate = before + gain * (grown / elapsed - before)
        self._before = before
        if np.count_nonzero(reset):
            self._reset(now, totals, cost, reset)
            self._before = np.where(reset, self.rate, before)
        silent = (now - self._grew_at) * self.rate > SILENCE * cost
        if np.count_nonzero(silent):
            self.rate[silent] = 0.0
            self.age_s[silent] = np.minimum(self.age_s[silent], elapsed)
            reset |= silent
        if now - self._active_at > LONGEST_TAU_S:
            self.rate[self.rate < FAINT_PER_S * cost] = 0.0
        self._rates[here] = self.rate
        return reset

    def unmoved(self) -> Floats:
        """Return ``float64[N]``, λ without the requests of the newest look, units/s.

        Who looks because a request came finds the average at its highest: with one
        request in 10 s and τ = 5 s at 0.3/s in the mean, not at 0.1/s.  Poisson
        arrivals find it, just before they come, as it is at any time.
        """
        unmoved: Floats = np.minimum(self._before, self.rate)
        return unmoved

    def sigma(self, cost: Floats) -> Floats:
        """Return ``float64[N]``, the noise of the average in units/s."""
        noise: Floats = np.sqrt(self.rate * cost / self.age_s)
        return noise

    def room(self, cost: Floats) -> Floats:
        """Return ``float64[N]``, the noise of young averages beyond that of old ones.

        In units/s; 0 from τ on, when the noise of arrivals covers that of the average.
        """
        youth = np.maximum(1.0 / np.sqrt(self.age_s / TAU_S) - 1.0, 0.0)
        room: Floats = np.sqrt(self.rate * cost / TAU_S) * youth
        return room

    def _surprised(self, now: float, totals: Floats, cost: Floats) -> NDArray[np.bool_]:
        at = AGO[self._seen % DEPTH]
        spans = (now - self._times[at])[:, None]
        came = np.maximum(totals - self._totals[at], 0.0) / cost
        # By the average from before the window: the newest has swallowed part of it.
        due = self._rates[at] / cost * spans
        before = self.age_s - spans
        candidates = (before > 0.999 * spans) & (np.abs(came - due) > LEAST_SURPRISE)
        self._firing = None
        if not np.count_nonzero(candidates):
            return np.zeros(len(totals), dtype=np.bool_)
        # That average is noisy as well, the more the younger it is.
        limit = SUSPICIOUS_DEVIANCE * (1.0 + spans / np.maximum(before, spans))
        firing: NDArray[np.bool_] = candidates & (deviance(came, due) > limit)
        self._firing = firing
        surprised: NDArray[np.bool_] = np.logical_or.reduce(firing, axis=0)
        return surprised

    def _reset(
        self, now: float, totals: Floats, cost: Floats, reset: NDArray[np.bool_]
    ) -> None:
        which = np.flatnonzero(reset)
        firing = self._firing
        assert firing is not None
        window = WINDOWS[np.argmax(firing[:, which], axis=0)]
        old = self._rates[(self._seen - window) % DEPTH, which]
        per, ticks = cost[which], window // 2
        came, spans = self._since(ticks, which, now, totals)
        going = ticks < window
        while np.count_nonzero(going):
            # One tick further back, if it is likelier of the new rate than of the old.
            more, longer = self._since(ticks + 1, which, now, totals)
            # Beyond a tick in which a parent's total fell, nothing can be told.
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

    _firing: NDArray[np.bool_] | None = None
