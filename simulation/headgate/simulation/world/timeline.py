"""What is to happen, in the order of (time, number of the event)."""

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
    "deliver",
    "wake",
    "request",
    "probe",
]


class Timeline:
    """Events still to come; of two at one time the one pushed first comes first."""

    def __init__(self) -> None:
        """Start with nothing to come."""
        self._heap: list[tuple[float, int, Kind, int, object]] = []
        self._pushed = 0

    def push(self, at_s: float, kind: Kind, index: int, payload: object = None) -> None:
        """Add an event.

        Args:
            at_s: Simulated time.
            kind: What happens.
            index: To which agent.
            payload: What belongs to the kind.
        """
        self._pushed += 1
        heapq.heappush(self._heap, (at_s, self._pushed, kind, index, payload))

    def until(self, end_s: float) -> Iterator[tuple[float, Kind, int, object]]:
        """Yield (time, kind, agent, payload) up to a time, new ones as they come."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end_s:
            now, _, kind, index, payload = pop(heap)
            yield now, kind, index, payload
