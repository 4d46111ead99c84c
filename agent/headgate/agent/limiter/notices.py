"""Notices of refusals, for those who would have received what was refused.

Ably informs the sender with each refusal (here, a `Decision`) and everyone else on a
separate channel.  Here a sender attempts through a `NoticeBoard`, which adds up the
refusals and publishes at most one notice a second.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headgate.agent.decision import Decision, LimitName
    from headgate.agent.limiter.limiter import Limiter

EVERY_S = 1.0
"""Shortest time between notices by default: a storm of refusals must not become a
storm of notices."""

logger = logging.getLogger("headgate.agent")


@dataclass(frozen=True, slots=True)
class Notice:
    """What was refused to a subject since the last notice.

    Attributes:
        subject: Who asked, as text.
        limit: The limit that refused last.
        requests: Attempts refused.
        units: Units refused, summed over all dimensions.
        since_s: Time of the first of them, on the limiter's clock.
        until_s: Time of the last.
    """

    subject: str
    limit: LimitName | None
    requests: int
    units: float
    since_s: float
    until_s: float

    def to_json(self) -> str:
        """Return it in the form that receivers read."""
        limit = self.limit
        return json.dumps(
            {
                "subject": self.subject,
                "group": None if limit is None else limit.group,
                "dimension": None if limit is None else limit.dimension,
                "requests": self.requests,
                "units": self.units,
                "within_s": round(self.until_s - self.since_s, 3),
            }
        )


class NoticeBoard:
    """Attempts through a limiter, and publishes what was refused.

    Not thread-safe: one board per sender.

    Attributes:
        failed: Number of notices that could not be published.
    """

    def __init__(
        self,
        limiter: Limiter,
        publish: Callable[[Notice], None],
        *,
        clock: Callable[[], float],
        every_s: float = EVERY_S,
    ) -> None:
        """Begin with nothing to publish.

        Args:
            limiter: Its refusals are published.
            publish: Sends a notice to the receivers.
            clock: Seconds, monotonic.
            every_s: Shortest time between two notices.
        """
        self.failed = 0
        self._limiter = limiter
        self._publish = publish
        self._clock = clock
        self._every_s = every_s
        self._told_s = clock() - every_s
        self._limit: LimitName | None = None
        self._requests = 0
        self._units = 0.0
        self._since_s = 0.0

    def try_acquire(self, **costs: float) -> Decision:
        """Do what `Limiter.try_acquire` does, and publish refusals."""
        decision = self._limiter.try_acquire(**costs)
        self.note(decision, costs)
        return decision

    def note(self, decision: Decision, costs: Mapping[str, float]) -> None:
        """Count an attempt that was made elsewhere, if it was refused."""
        now = self._clock()
        if not decision:
            if not self._requests:
                self._since_s = now
            self._limit = decision.limit
            self._requests += 1
            self._units += sum(costs.values())
        self.tell_due(now)

    def idle(self, now: float) -> bool:
        """Return whether a new board would do the same from now on."""
        return not self._requests and now - self._told_s >= self._every_s

    def tell_due(self, now: float) -> None:
        """Publish the refusals since the last notice, if that is long enough ago."""
        if not self._requests or now - self._told_s < self._every_s:
            return
        notice = Notice(
            str(self._limiter.subject),
            self._limit,
            self._requests,
            self._units,
            self._since_s,
            now,
        )
        self._told_s, self._requests, self._units = now, 0, 0.0
        try:
            self._publish(notice)
        except Exception:
            self.failed += 1
            if self.failed == 1:
                logger.exception("a notice of refusals could not be published")
