"""The queue of events, ordered by (time, number of the event)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal[
    "edge",
    "change",
    "configure",
    "gone",
    "vouch",
    "granted",
    "deliver",
    "wake",
    "request",
    "probe",
]


class Timeline:
    """Pending events; those at the same time come out in the order of their push."""

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[float, int, Kind, int, object]] = []
        self._pushed = 0

    def push(self, at_s: float, kind: Kind, index: int, payload: object = None) -> None:
        """Add an event.

        Args:
            at_s: Simulated time.
            kind: What happens.
            index: The agent it happens to.
            payload: Data of that kind of event.
        """
        self._pushed += 1
        heapq.heappush(self._heap, (at_s, self._pushed, kind, index, payload))

    def until(self, end_s: float) -> Iterator[tuple[float, Kind, int, object]]:
        """Yield (time, kind, agent, payload) up to a time, new ones as they come."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end_s:
            now, _, kind, index, payload = pop(heap)
            yield now, kind, index, payload
