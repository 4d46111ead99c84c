"""A limit over time: its rate, the integral of it, and its burst."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class RateTable:
    """A piecewise constant limit.

    Spans without a limit count as earning nothing; callers must leave them out.
    """

    def __init__(
        self, limits: tuple[tuple[float, float, float], ...], seconds: float
    ) -> None:
        """Take (from when, rate, burst) in order of time."""
        self._starts = np.array([start for start, _, _ in limits])
        self._rates = np.array([rate for _, rate, _ in limits])
        self._bursts = np.array([burst for _, _, burst in limits])
        finite = np.where(np.isfinite(self._rates), self._rates, 0.0)
        lengths = np.diff(self._starts, append=max(seconds, self._starts[-1]))
        self._finite = finite
        self._earned = np.r_[0.0, np.cumsum(finite * lengths)][:-1]
        self._limits = limits
        self._seconds = seconds

    @property
    def reference(self) -> float:
        """The largest finite rate, units/s; 1 if there is none above zero."""
        return float(self._finite.max()) or 1.0

    @property
    def limits(self) -> tuple[tuple[float, float, float], ...]:
        """(from when, rate, burst) in order of time."""
        return self._limits

    def rate_at(self, times: Floats) -> Floats:
        """Return the rate in force, infinite where unlimited."""
        rates: Floats = self._rates[self._place(times)]
        return rates

    def burst_at(self, times: Floats) -> Floats:
        """Return the burst in force."""
        bursts: Floats = self._bursts[self._place(times)]
        return bursts

    def integral(self, times: Floats) -> Floats:
        """Return ∫rate from 0 to each time, counting unlimited spans as 0."""
        place = self._place(times)
        earned: Floats = self._earned[place] + self._finite[place] * (
            times - self._starts[place]
        )
        return earned

    def per_second(self, span: tuple[int, int]) -> Floats:
        """Return the mean rate of each whole second, infinite where unlimited."""
        first, end = span
        edges = np.arange(first, end + 1, dtype=np.float64)
        rates = np.diff(self.integral(edges))
        for start, rate, until in zip(
            self._starts, self._rates, [*self._starts[1:], inf], strict=True
        ):
            if rate == inf:
                rates[(edges[:-1] < until) & (edges[1:] > start)] = inf
        return rates

    def _place(self, times: Floats) -> NDArray[np.int64]:
        place: NDArray[np.int64] = (
            np.searchsorted(self._starts, times, side="right") - 1
        )
        return np.maximum(place, 0)
