"""What is due at some time, soonest first: reservations, and leases of slots.

Most end long before they are due.  Those are cleared away whenever their number could
have doubled, so the memory follows what is still open, not what came within a lease of
an hour, and adding one costs the same on average as if nothing were cleared away.
"""

from __future__ import annotations

import heapq
from itertools import count
from math import inf, nan
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Generic, TypeVar

from headgate.agent.bucket.costs import NOT_A_NUMBER, shown
from headgate.agent.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headgate.agent.bucket.costs import Number

Item = TypeVar("Item")

LEAST_SWEPT = 1_000
"""Fewer are never looked through: at about 200 bytes each, they take 0.2 MB."""


class Deadlines(Generic[Item]):
    """Items with the time when each is due; not thread-safe."""

    def __init__(self, ended: Callable[[Item], bool]) -> None:
        """Begin empty.

        Args:
            ended: Whether nothing is left to do for an item once it is due.
        """
        self._ended = ended
        self._heap: list[tuple[float, int, Item]] = []
        self._number = count()
        self._swept_at = LEAST_SWEPT

    def __len__(self) -> int:
        """Return how many are kept, ended ones included."""
        return len(self._heap)

    def open(self) -> Iterator[Item]:
        """Yield those that have not ended."""
        return (item for _, _, item in tuple(self._heap) if not self._ended(item))

    def add(self, due_s: float, item: Item, most: float = inf) -> list[Item]:
        """Keep an item; if it is time, clear away those that have ended.

        Returns:
            Items taken out then because more than `most` were left, first due first.
        """
        heapq.heappush(self._heap, (due_s, next(self._number), item))
        if len(self._heap) <= self._swept_at:
            return []
        self._heap = [one for one in self._heap if not self._ended(one[2])]
        heapq.heapify(self._heap)
        surplus: list[Item] = []
        while len(self._heap) > most:
            surplus.append(heapq.heappop(self._heap)[2])
        self._swept_at = max(2 * len(self._heap), LEAST_SWEPT)
        return surplus

    def pop(self, now: float) -> Item | None:
        """Take out the item that is due first, if it is by `now`; None if it is not."""
        if not self._heap or self._heap[0][0] > now:
            return None
        return heapq.heappop(self._heap)[2]


def checked_seconds(name: str, seconds: Number) -> float:
    """Return how long something may last; a time below 0 is over already.

    Args:
        name: Of the argument, for the message.
        seconds: What the caller gave.

    Raises:
        InvalidSetting: It is not a number.
    """
    try:
        checked = float(seconds + 0.0)
    except NOT_A_NUMBER:
        checked = nan
    if checked != checked:
        raise InvalidSetting(
            f"{name}: expected a number of seconds, got {shown(seconds)}"
        )
    return checked


def longest_wait(timeout_s: float) -> float | None:
    """Return a timeout as threads and event loops take it; None waits for ever."""
    return None if timeout_s >= TIMEOUT_MAX else timeout_s
