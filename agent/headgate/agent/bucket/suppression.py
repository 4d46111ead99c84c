"""Ably's suppression: admit with probability rate/attempted, never in silence.

The bucket still bounds it: in any window at most Q·W + B, plus one cost.

The attempted rate is a moving average over a second in ten parts.  The running
part is left out while it is below the mean: it has only begun, and would make the
rate look smaller than it is; when it is above the mean a surge is seen at once.
"""

from __future__ import annotations

PARTS = 10
"""Parts of the window: a rise is seen within a tenth of a second."""

PART_S = 0.1
"""Length of a part, seconds; the window is a second, as quotas are per second."""


WINDOW_S = PARTS * PART_S
"""Length of the window, seconds."""


class AttemptedRate:
    """Moving average of what callers attempt, units/s."""

    __slots__ = ("_parts", "_running", "_running_since_s", "_sum")

    def __init__(self, now: float) -> None:
        """Begin at rest at `now`, seconds on the caller's monotonic clock."""
        self._parts: list[float] = [0.0] * PARTS
        self._sum = 0.0
        self._running = 0.0
        self._running_since_s = now

    def note_at(self, now: float, cost: float) -> float:
        """Count an attempt of `cost` units and return the rate, units/s."""
        self._advance(now)
        self._running += cost
        return self.rate_at(now)

    def rate_at(self, now: float) -> float:
        """Return the rate at `now`, units/s."""
        self._advance(now)
        mean = self._sum / PARTS
        if self._running <= mean:
            return mean / PART_S
        # The running part counts as a whole one, and takes the place of the oldest.
        rest = self._sum - self._parts[0]
        return (rest + self._running) / PARTS / PART_S

    def _advance(self, now: float) -> None:
        passed = int((now - self._running_since_s) / PART_S)
        if passed <= 0:
            return
        for _ in range(min(passed, PARTS + 1)):
            self._sum += self._running - self._parts.pop(0)
            self._parts.append(self._running)
            self._running = 0.0
        if passed > PARTS:
            self._sum = 0.0  # what rounding left
        self._running_since_s += passed * PART_S
