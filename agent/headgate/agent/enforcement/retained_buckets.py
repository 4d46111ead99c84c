"""Keeps buckets for a while: for the next limiter, and until they are full again.

The bucket of a single topic or user lives as long as a limiter's chain refers to it,
and at least `RETAIN_S` after it was last resolved, longer while it is not full.  So a
limiter made per request finds its bucket again, and no debt is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.bucket.local import LocalBucket

RETAIN_S = 60.0
"""How long a bucket is kept for the next limiter; the same as for groups."""


class RetainedBuckets:
    """Buckets, with the time until which to keep each; not thread-safe."""

    def __init__(self) -> None:
        """Begin empty."""
        self._until_s: dict[LocalBucket, float] = {}

    def keep(self, local: LocalBucket, now: float) -> None:
        """Keep a bucket for at least `RETAIN_S` from now on."""
        self._until_s[local] = now + RETAIN_S

    def take_all(self) -> list[LocalBucket]:
        """Return all buckets, and keep none of them any longer."""
        held = list(self._until_s)
        self._until_s.clear()
        return held

    def let_go(self, now: float) -> None:
        """Release the buckets that are due and full."""
        due = [local for local, until_s in self._until_s.items() if until_s <= now]
        for local in due:
            if local.bucket.level_at(now) < local.bucket.capacity:
                self.keep(local, now)
            else:
                del self._until_s[local]
