"""Buckets that are held for a while: for the next limiter, and while not full.

A bucket of its own for each topic or user lives as long as a limiter's chain holds
it, and `RETAIN_S` after it was resolved last, longer while it is not full: a limiter
that is made per request finds its bucket again, and no debt is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.bucket.local import LocalBucket

RETAIN_S = 60.0
"""How long a bucket is kept for the next limiter, as long as a group's."""


class RetainedBuckets:
    """Buckets by the time until which they are held; not thread-safe."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._until_s: dict[LocalBucket, float] = {}

    def keep(self, local: LocalBucket, now: float) -> None:
        """Hold a bucket from now on for `RETAIN_S` at least."""
        self._until_s[local] = now + RETAIN_S

    def take_all(self) -> list[LocalBucket]:
        """Return all that is held, and hold nothing any more."""
        held = list(self._until_s)
        self._until_s.clear()
        return held

    def let_go(self, now: float) -> None:
        """Hold no longer what is due and full."""
        due = [local for local, until_s in self._until_s.items() if until_s <= now]
        for local in due:
            if local.bucket.level_at(now) < local.bucket.capacity:
                self.keep(local, now)
            else:
                del self._until_s[local]
