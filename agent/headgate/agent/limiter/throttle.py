"""A throttle tracker: any cause pauses a connection, and it resumes after the last.

PIP-322 counts the causes for which a producer is throttled: broker, resource
group, topic, too many pending requests on its connection, too much memory in
publish buffers.  The first cause (0 -> 1) pauses reading from the connection, and the
end of the last one (1 -> 0) resumes it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CAUSES = 1_000
"""Most causes at once on one tracker; more means that causes are never lifted."""

RESUME_PART = 0.5
"""Pulsar resumes when half of the pending requests or of the memory is free again:
resuming at the limit itself would pause again with the next request."""


class ThrottleTracker:
    """The causes for which one connection or consumer is paused; thread-safe.

    The callbacks run in the thread that adds or lifts a cause, one at a time, and
    in the order of the changes.
    """

    def __init__(
        self, *, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Watch a connection that is not paused.

        Args:
            pause: Called exactly at 0 -> 1.
            resume: Called exactly at 1 -> 0.
        """
        self._pause = pause
        self._resume = resume
        self._lock = threading.RLock()
        self._until: dict[str, float | None] = {}

    @property
    def count(self) -> int:
        """How many causes there are."""
        return len(self._until)

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the causes, oldest first."""
        return tuple(self._until)

    def throttle(self, cause: str, *, until_s: float | None = None) -> None:
        """Add a cause, or change the end of an existing one.

        Args:
            cause: Such as ``topic``.
            until_s: When `lift_due` lifts it; None keeps it until `lift`.
        """
        with self._lock:
            if cause not in self._until and len(self._until) >= MOST_CAUSES:
                raise ValueError(f"expected at most {MOST_CAUSES} causes at once")
            first = not self._until
            self._until[cause] = until_s
            if first:
                self._pause()

    def lift(self, cause: str) -> None:
        """Lift a cause; does nothing if it is not in force."""
        with self._lock:
            if cause in self._until:
                del self._until[cause]
                if not self._until:
                    self._resume()

    def lift_due(self, now: float) -> float | None:
        """Lift the causes that are due; return when the next one will be."""
        with self._lock:
            ends = {c: end for c, end in self._until.items() if end is not None}
            for cause, end in ends.items():
                if end <= now:
                    self.lift(cause)
            return min((end for end in ends.values() if end > now), default=None)


class PendingRequests:
    """Ready-made cause: too many requests of a connection await an answer.

    Attributes:
        pending: Unanswered requests.
    """

    CAUSE = "pending requests"

    def __init__(self, tracker: ThrottleTracker, *, most: int) -> None:
        """Throttle `tracker` while at least `most` requests are pending.

        Args:
            tracker: The connection's tracker.
            most: Requests at which the connection is paused, > 0.
        """
        if most <= 0:
            raise ValueError(f"most: expected > 0, got {most}")
        self.pending = 0
        self._tracker = tracker
        self._most = most
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Count a request that arrived."""
        with self._lock:
            self.pending += 1
            if self.pending >= self._most:
                self._tracker.throttle(self.CAUSE)

    def end(self) -> None:
        """Count a request that was answered."""
        with self._lock:
            if self.pending <= 0:
                raise ValueError("end() without begin(): no request is pending")
            self.pending -= 1
            if self.pending <= self._most * RESUME_PART:
                self._tracker.lift(self.CAUSE)


class PublishMemory:
    """Ready-made cause: the publish buffers of all connections together are too full.

    Attributes:
        held_bytes: Bytes in buffers.
    """

    CAUSE = "publish memory"

    def __init__(self, *, most_bytes: int) -> None:
        """Throttle all trackers while at least `most_bytes` are held."""
        if most_bytes <= 0:
            raise ValueError(f"most_bytes: expected > 0, got {most_bytes}")
        self.held_bytes = 0
        self._most = most_bytes
        self._trackers: set[ThrottleTracker] = set()
        self._over = False
        self._lock = threading.Lock()

    def watch(self, tracker: ThrottleTracker) -> None:
        """Throttle another connection too, at once if the buffers are too full."""
        with self._lock:
            self._trackers.add(tracker)
            if self._over:
                tracker.throttle(self.CAUSE)

    def forget(self, tracker: ThrottleTracker) -> None:
        """Stop throttling a connection, because it is closed."""
        with self._lock:
            self._trackers.discard(tracker)
            tracker.lift(self.CAUSE)

    def take(self, size: int) -> None:
        """Count `size` bytes added to a buffer."""
        self._change(size)

    def free(self, size: int) -> None:
        """Count `size` bytes removed from a buffer."""
        self._change(-size)

    def _change(self, size: int) -> None:
        with self._lock:
            self.held_bytes += size
            if not self._over and self.held_bytes >= self._most:
                self._over = True
                for tracker in self._trackers:
                    tracker.throttle(self.CAUSE)
            elif self._over and self.held_bytes <= self._most * RESUME_PART:
                self._over = False
                for tracker in self._trackers:
                    tracker.lift(self.CAUSE)
