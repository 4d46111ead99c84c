"""How much of a topic or subscription may be read, under all its dispatch limits.

Limits of policies (`headgate.agent.follow.policies`) and of groups count alike: what is
read is charged to the dispatch dimensions of one limiter.

A reader gets *entries* from storage, batches of messages.  How many messages an entry
holds is known only once it is read, so the number of entries is estimated, and any
excess becomes debt: at a limit of 10, after 11 come 9, and after 30 come two periods
with none.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headgate.agent.limiter.keyed import KeyedLimiter
from headgate.agent.limiter.refusal import RECONSIDERED_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.agent.bucket.chain import Link
    from headgate.agent.follow.policies import DispatchOptions
    from headgate.agent.limiter.limiter import Limiter

ROUNDING = 1e-9
"""Part of a message by which rounding may fall short of a whole one."""

AVERAGE_WEIGHT = 0.1
"""Weight of the newest entry in the average messages per entry: ten dominate it."""


class MessagesPerEntry:
    """Average messages per entry, of published or else of dispatched entries, or 1."""

    def __init__(self) -> None:
        """Know of no entry yet."""
        self._published = 0.0
        self._dispatched = 0.0

    @property
    def average(self) -> float:
        """Messages per entry, at least 1."""
        return max(self._published or self._dispatched, 1.0)

    def note_published(self, messages: float) -> None:
        """Include an entry written by a producer in the average."""
        self._published = _averaged(self._published, messages)

    def note_dispatched(self, messages: float) -> None:
        """Include an entry that was read in the average."""
        self._dispatched = _averaged(self._dispatched, messages)


class Dispatcher:
    """How much may be read for one subject; made by `Agent.dispatcher`.

    Attributes:
        limiter: Its dispatch limits apply.
        entries: Average messages per entry, shared within a topic.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        clock: Callable[[], float],
        options: Callable[[], DispatchOptions],
        entries: MessagesPerEntry,
    ) -> None:
        """Read under the limits of `limiter`, which follows the configuration.

        Args:
            limiter: The limiter of a topic, or of a topic and a subscription.
            clock: Seconds, monotonic.
            options: Returns how dispatch is counted at present.
            entries: Average messages per entry.
        """
        self.limiter = limiter
        self.entries = entries
        self._clock = clock
        self._options = options

    @property
    def options(self) -> DispatchOptions:
        """How dispatch is counted at present."""
        return self._options()

    def delay_s(self, *, backlog: bool = True) -> float:
        """Return seconds until entries may be read: 0 for now, infinite for never."""
        if not self._applies(backlog):
            return 0.0
        now = self._clock()
        links = (*self._messages(), *self._bytes())
        return max((_delay_at(link, now) for link in links), default=0.0)

    def entries_to_read(
        self, most: int, *, backlog: bool = True, permits: float = inf
    ) -> int:
        """Return how many entries may be read now.

        Args:
            most: The reader's own maximum.
            backlog: Whether the subscription has a backlog.
            permits: Messages that the consumer has asked for.
        """
        if most <= 0 or permits <= 0.0:
            return 0
        messages = permits
        if self._applies(backlog):
            now = self._clock()
            for link in self._bytes():
                if _free_at(link, now) <= 0.0:
                    return 0
            for link in self._messages():
                free = _free_at(link, now)
                if free <= 0.0:
                    return 0
                messages = min(messages, free)
        if self.options.precise_flow_control:
            messages /= self.entries.average
        # Any excess becomes debt, so part of an entry is read as a whole one.
        return int(min(most, max(-(-messages // 1), 1.0)))

    def delivered(
        self, entries: int, *, messages: int, size: int, backlog: bool = True
    ) -> None:
        """Charge what was delivered; a seek or redelivery counts again.

        A reader in debt would have read as much again, so that amount is counted as
        refused: if only deliveries counted as demand, a starved reader would look
        satisfied.

        Args:
            entries: Entries read.
            messages: Messages in them.
            size: Their bytes.
            backlog: Whether the subscription had a backlog.

        Raises:
            InvalidCost: A count is negative, above 2**53 or not a number.
        """
        if self._applies(backlog):
            counted = entries if self.options.on_batch_message else messages
            costs: dict[str, float] = {
                "dispatch_messages": counted,
                "dispatch_bytes": size,
            }
            self.limiter.charge(**costs)
            if self.delay_s(backlog=backlog) > 0.0:
                self.limiter.count_refused(**costs)
        if entries > 0:
            self.entries.note_dispatched(messages / entries)

    def _messages(self) -> tuple[Link, ...]:
        return self.limiter.chain("dispatch_messages").links

    def _bytes(self) -> tuple[Link, ...]:
        return self.limiter.chain("dispatch_bytes").links

    def _applies(self, backlog: bool) -> bool:
        return backlog or self.options.on_non_backlog_consumer


class SubscribeThrottle:
    """Subscribes per consumer and period (Pulsar's SubscribeRate), without an agent."""

    def __init__(
        self, *, per_consumer: float, period_s: float, clock: Callable[[], float]
    ) -> None:
        """Admit `per_consumer` subscribes of each consumer in `period_s` seconds."""
        self._keyed = KeyedLimiter(
            rate=per_consumer / period_s,
            burst=per_consumer,
            clock=clock,
            may_owe=False,
            name="subscribe rate",
        )

    def try_subscribe(self, consumer: str) -> float:
        """Return 0 when a consumer may subscribe, else the seconds to wait."""
        return self._keyed.try_acquire(consumer).delay_s


def _free_at(link: Link, now: float) -> float:
    """Return the units that a limit lets through now; may be infinite."""
    bucket = link.bucket
    if link.mode == "shadow":
        return inf
    return 0.0 if _delay_at(link, now) > 0.0 else bucket.available_at(now)


def _delay_at(link: Link, now: float) -> float:
    """Return the seconds until a whole message, or the bucket's capacity, is available.

    At level 0 a bucket that may owe admits one more; a dispatcher that asks how much is
    available would then get 0 messages and no delay.
    """
    bucket = link.bucket
    if link.mode == "shadow":
        return 0.0
    if link.hopeless_above < 0.0:
        return inf
    if bucket.closed:
        return RECONSIDERED_S
    short = min(1.0, bucket.capacity) - bucket.available_at(now)
    if short <= ROUNDING:
        return 0.0
    if bucket.quota <= 0.0:
        return RECONSIDERED_S
    return max(short / bucket.quota, bucket.least_delay_s)


def _averaged(before: float, messages: float) -> float:
    return before + AVERAGE_WEIGHT * (messages - before) if before else messages
