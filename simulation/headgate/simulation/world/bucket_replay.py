"""Runs one agent's requests in one group through its real bucket, in order of time."""

from __future__ import annotations

import heapq
from collections import deque
from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from headgate.simulation.world.arrivals import AgentArrivals

RETRY_S = 0.05
"""Delay before a refused request is retried, seconds (scenario contract)."""

PATIENCE_S = 5.0
"""Age at which a request is given up, seconds (scenario contract)."""


class BucketReplay:
    """The requests still to come, and the outcome of the others.

    Attributes:
        admitted_s: Times of admission.
        admitted_units: Their costs.
        refused: (time, cost, delay given in seconds) of each refusal.
    """

    def __init__(
        self, arrivals: AgentArrivals, gaps: list[tuple[float, float]]
    ) -> None:
        """Take arrivals that lie outside the gaps; retries inside a gap are lost."""
        self._times: list[float] = [*arrivals.time_s.tolist(), inf]
        self._costs: list[float] = arrivals.cost.tolist()
        self._retry: list[bool] = arrivals.retry.tolist()
        self._retries = any(self._retry)
        self._gaps = gaps
        self._next = 0
        self._waiting: deque[tuple[float, float, float]] = deque()
        self.admitted_s: list[float] = []
        self.admitted_units: list[float] = []
        self.refused: list[tuple[float, float, float]] = []

    @property
    def next_s(self) -> float:
        """Time of the next attempt; infinite after the last."""
        due = self._waiting[0][0] if self._waiting else inf
        return min(self._times[self._next], due)

    def advance(self, until_s: float, acquire: Callable[[float, float], float]) -> None:
        """Make every attempt that is due before `until_s`.

        Args:
            until_s: Simulated time.
            acquire: ``(now, cost) -> delay``, 0.0 when admitted, else the seconds
                that the caller is asked to wait.
        """
        if self._retries:
            self._advance_with_retries(until_s, acquire)
            return
        times, costs, place = self._times, self._costs, self._next
        at_s, units = self.admitted_s.append, self.admitted_units.append
        refused = self.refused.append
        while (now := times[place]) < until_s:
            cost = costs[place]
            delay_s = acquire(now, cost)
            if delay_s == 0.0:
                at_s(now)
                units(cost)
            else:
                refused((now, cost, delay_s))
            place += 1
        self._next = place

    def admitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return times and units of what was admitted."""
        return np.array(self.admitted_s), np.array(self.admitted_units)

    def _advance_with_retries(
        self, until_s: float, acquire: Callable[[float, float], float]
    ) -> None:
        waiting = self._waiting
        while True:
            due = waiting[0][0] if waiting else inf
            now = self._times[self._next]
            if due <= now:
                if due >= until_s:
                    return
                now, born, cost = waiting.popleft()
                again = True
            else:
                if now >= until_s:
                    return
                born, cost = now, self._costs[self._next]
                again = self._retry[self._next]
                self._next += 1
            delay_s = acquire(now, cost)
            if delay_s == 0.0:
                self.admitted_s.append(now)
                self.admitted_units.append(cost)
                continue
            self.refused.append((now, cost, delay_s))
            if again:
                self._wait(now + RETRY_S, born, cost)

    def _wait(self, due: float, born: float, cost: float) -> None:
        lost = any(start <= due < until for start, until in self._gaps)
        if due - born <= PATIENCE_S and not lost:
            self._waiting.append((due, born, cost))


def serve_in_order(
    served: Sequence[tuple[BucketReplay, Callable[[float, float], float]]],
    until_s: float,
) -> None:
    """Serve streams that share a bucket in the order of their next attempts.

    The stream with the next attempt is advanced by exactly that attempt.
    """
    heap = [(stream.next_s, place) for place, (stream, _) in enumerate(served)]
    heapq.heapify(heap)
    while heap and heap[0][0] < until_s:
        now, place = heap[0]
        stream, acquire = served[place]
        stream.advance(float(np.nextafter(now, inf)), acquire)
        heapq.heapreplace(heap, (stream.next_s, place))
