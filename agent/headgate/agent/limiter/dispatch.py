"""How much of a topic or subscription may be read, under all its dispatch limits.

Limits of policies (`headgate.agent.follow.policies`) and of groups count alike: what is
read is charged to the dispatch dimensions of one limiter.

A reader gets *entries* from storage, batches of messages.  How many messages and bytes
an entry holds is known only once it is read, so the number of entries is estimated from
averages (one entry while nothing is known), and any excess becomes debt, however large:
at a limit of 10, after 11 come 9, after 30 two periods with none, after 300 29 of them.
"""

from __future__ import annotations

from math import ceil, inf
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
"""Weight of the newest entry in the averages of a topic: ten dominate them."""


class EntryAverages:
    """Average messages and bytes of an entry of one topic.

    What producers wrote best predicts the next entry; failing that, what was
    dispatched.
    """

    def __init__(self) -> None:
        """Start without entries."""
        self._published = _Average()
        self._dispatched = _Average()

    @property
    def messages(self) -> float | None:
        """Messages per entry, at least 1; None while no entry is known."""
        found = self._known().messages
        return None if found is None else max(found, 1.0)

    @property
    def size(self) -> float | None:
        """Bytes per entry, at least 1; None while no entry's size is known."""
        found = self._published.size or self._dispatched.size
        return None if found is None else max(found, 1.0)

    def note_published(self, messages: float, size: float | None = None) -> None:
        """Include an entry written by a producer, with its bytes if known."""
        self._published.note(messages, size)

    def note_dispatched(self, messages: float, size: float | None = None) -> None:
        """Include an entry that was read, with its bytes if known."""
        self._dispatched.note(messages, size)

    def _known(self) -> _Average:
        published = self._published
        return self._dispatched if published.messages is None else published


class _Average:
    """Moving averages of one side's entries; None before the first."""

    def __init__(self) -> None:
        self.messages: float | None = None
        self.size: float | None = None

    def note(self, messages: float, size: float | None) -> None:
        self.messages = _averaged(self.messages, messages)
        if size is not None:
            self.size = _averaged(self.size, size)


class Dispatcher:
    """How much may be read for one subject; made by `Agent.dispatcher`.

    Attributes:
        limiter: Its dispatch limits apply.
        entries: Averages of an entry, shared within a topic.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        clock: Callable[[], float],
        options: Callable[[], DispatchOptions],
        entries: EntryAverages,
    ) -> None:
        """Read under the limits of `limiter`, which follows the configuration.

        Args:
            limiter: The limiter of a topic, or of a topic and a subscription.
            clock: Seconds, monotonic.
            options: Returns how dispatch is counted at present.
            entries: Averages of the topic's entries.
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
        messages, size = permits, inf
        if self._applies(backlog):
            now = self._clock()
            size = min((_free_at(link, now) for link in self._bytes()), default=inf)
            free = (_free_at(link, now) for link in self._messages())
            messages = min(permits, *free, inf)
            if messages <= 0.0 or size <= 0.0:
                return 0
        entries = most
        if messages < inf:
            average = self.entries.messages if self.options.precise_flow_control else 1
            # Any excess becomes debt, so part of an entry is read as a whole one.
            entries = min(entries, 1 if average is None else ceil(messages / average))
        if size < inf:
            average = self.entries.size
            entries = min(entries, 1 if average is None else int(size // average))
        return max(entries, 1)

    def published(self, entries: int, *, messages: int, size: int) -> None:
        """Note entries that a producer wrote to the topic, for the averages.

        Charges nothing: the producer has paid in ``publish_messages``.

        Args:
            entries: Entries written.
            messages: Messages in them.
            size: Their bytes.
        """
        if entries > 0:
            self.entries.note_published(messages / entries, size / entries)

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
            self.entries.note_dispatched(messages / entries, size / entries)

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


def _averaged(before: float | None, newest: float) -> float:
    return newest if before is None else before + AVERAGE_WEIGHT * (newest - before)
