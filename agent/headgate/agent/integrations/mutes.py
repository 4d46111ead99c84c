"""Callers that were refused, and are not served until their delay is over (KIP-599).

A broker answers a throttled client at once and then stops reading from it, so that a
client that ignores the delay can't ask again before it is over.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

LONGEST_MUTE_S = 30.0
"""Longest time that a caller is held: about the timeout of clients."""

MOST_MUTED = 10_000
"""Most callers remembered; beyond that, those whose delay ends first are let go."""


class Mutes:
    """Until when each caller is muted.  Several threads may call it at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Mute nobody.

        Args:
            clock: Seconds, monotonic.
        """
        self._clock = clock
        self._until_s: dict[Hashable, float] = {}
        self._lock = Lock()

    def mute(self, caller: Hashable, delay_s: float) -> None:
        """Mute a caller from now on, for `LONGEST_MUTE_S` at most.

        A longer delay that it was given before goes on.
        """
        until_s = self._clock() + min(delay_s, LONGEST_MUTE_S)
        with self._lock:
            if len(self._until_s) >= MOST_MUTED:
                self._let_go()
            self._until_s[caller] = max(until_s, self._until_s.get(caller, until_s))

    def left_s(self, caller: Hashable) -> float:
        """Return how long to hold the next request of a caller; 0 if it is free."""
        if caller not in self._until_s:
            return 0.0  # as nearly always
        now = self._clock()
        with self._lock:
            left_s = self._until_s.get(caller, now) - now
            if left_s <= 0.0:
                self._until_s.pop(caller, None)
        return max(left_s, 0.0)

    def _let_go(self) -> None:
        ends = sorted(self._until_s.items(), key=lambda pair: pair[1])
        for caller, _ in ends[: len(ends) // 2]:
            del self._until_s[caller]
