"""Dispatch and publish throttling as Pulsar knows it, per topic and subscription.

A *policy* is a rate of messages and one of bytes; it is given at the broker, a
namespace or a topic, and the narrowest wins.  It is no group: each topic to which
it applies has the whole rate to itself, and so has each partition of a partitioned
topic (two partitions at 10/s make 20/s).

What is read from storage is an *entry*, a batch of messages.  How many messages an
entry holds is known only when it has been read, so the number of entries to read is
estimated and what was delivered too much is owed: at a limit of 10, after 11 come 9,
after 30 two periods without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal

from headgate.agent.bucket import Bucket
from headgate.agent.keyed import KeyedLimiter
from headgate.coordinator.configuration import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Level = Literal["broker", "namespace", "topic"]

LEVELS: tuple[Level, ...] = ("topic", "namespace", "broker")
"""Where a policy may be given, the one that wins first."""

ROUNDING = 1e-9
"""Part of a message that a rounding error may be short of a whole one."""

AVERAGE_WEIGHT = 0.1
"""Part of the newest entry in the average messages per entry: ten make most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """Pulsar's DispatchRate (and PublishRate): messages and bytes per period.

    Attributes:
        messages: Per period; infinite for none (-1 on Pulsar's paths).
        bytes: Per period; infinite for none.
        period_s: `ratePeriodInSecond`.
        relative_to_publish_rate: The rates are on top of the publish rate.
    """

    messages: float = inf
    bytes: float = inf
    period_s: float = 1.0
    relative_to_publish_rate: bool = False

    def __post_init__(self) -> None:
        for name in ("messages", "bytes"):
            if not getattr(self, name) >= 0:
                raise InvalidConfiguration(
                    name, f"expected >= 0, got {getattr(self, name)}"
                )
        if not (isfinite(self.period_s) and self.period_s > 0):
            raise InvalidConfiguration(
                "period_s", f"expected a finite number > 0, got {self.period_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """How dispatch is counted.

    Attributes:
        precise_flow_control: Estimate entries from average messages per entry
            (`preciseDispatcherFlowControl`).
        on_batch_message: An entry counts as one message
            (`dispatchThrottlingOnBatchMessageEnabled`).
        on_non_backlog_consumer: Throttle consumers without backlog too
            (`dispatchThrottlingOnNonBacklogConsumerEnabled`).
    """

    precise_flow_control: bool = False
    on_batch_message: bool = False
    on_non_backlog_consumer: bool = False

    def __post_init__(self) -> None:
        if self.precise_flow_control and self.on_batch_message:
            raise InvalidConfiguration(
                "on_batch_message",
                "expected not together with precise_flow_control: entries that count"
                " as one message need no estimate of their messages",
            )


def winning_policy(policies: dict[Level, RatePolicy]) -> RatePolicy | None:
    """Return the policy that applies: topic > namespace > broker."""
    for level in LEVELS:
        if level in policies:
            return policies[level]
    return None


class RateThrottle:
    """One policy's buckets: of a topic or partition, a subscription, a broker."""

    def __init__(self, policy: RatePolicy, now: float) -> None:
        """Make full buckets.

        Args:
            policy: What to hold.
            now: Seconds on the caller's monotonic clock.
        """
        self.policy = policy
        self._messages = Bucket(now, rate=0.0, capacity=0.0)
        self._bytes = Bucket(now, rate=0.0, capacity=0.0)
        self.set_policy_at(now, policy)
        for bucket in (self._messages, self._bytes):
            bucket.fill()

    def set_policy_at(
        self,
        now: float,
        policy: RatePolicy,
        *,
        published_messages: float = 0.0,
        published_bytes: float = 0.0,
    ) -> None:
        """Go over to a policy, or to another publish rate that it is relative to.

        Args:
            now: Seconds on the caller's monotonic clock.
            policy: What to hold.
            published_messages: Per second.
            published_bytes: Per second.
        """
        self.policy = policy
        for bucket, units, published in (
            (self._messages, policy.messages, published_messages),
            (self._bytes, policy.bytes, published_bytes),
        ):
            extra = published if policy.relative_to_publish_rate else 0.0
            capacity = units + extra * policy.period_s
            if capacity > 0.0:
                bucket.set_ceiling_at(
                    now, ceiling=capacity / policy.period_s, capacity=capacity
                )
            else:
                bucket.close_at(now)

    def delay_at(self, now: float) -> float:
        """Return the seconds until a message may be delivered; 0 for now."""
        return max(_delay_at(self._messages, now), _delay_at(self._bytes, now))

    def available_at(self, now: float) -> tuple[float, float]:
        """Return (messages, bytes) that may be delivered now; may be infinite."""
        if self.delay_at(now) > 0.0:
            return 0.0, 0.0
        return self._messages.level_at(now), self._bytes.level_at(now)

    def charge_at(self, now: float, messages: float, size: float) -> None:
        """Charge what was delivered; what was too much is owed."""
        self._messages.charge_at(now, messages)
        self._bytes.charge_at(now, size)


class MessagesPerEntry:
    """Average messages per entry: published, else dispatched, at first one."""

    def __init__(self) -> None:
        """Know of no entry yet."""
        self._published = 0.0
        self._dispatched = 0.0

    @property
    def average(self) -> float:
        """Messages per entry, at least 1."""
        return self._published or self._dispatched or 1.0

    def note_published(self, messages: float) -> None:
        """Take an entry that a producer wrote into the average."""
        self._published = _averaged(self._published, messages)

    def note_dispatched(self, messages: float) -> None:
        """Take an entry that was read into the average."""
        self._dispatched = _averaged(self._dispatched, messages)


class Dispatcher:
    """How much of one subscription may be read: all its throttles must admit.

    Attributes:
        options: How dispatch is counted.
        entries: Average messages per entry.
    """

    def __init__(
        self,
        throttles: Iterable[RateThrottle],
        *,
        clock: Callable[[], float],
        options: DispatchOptions | None = None,
        entries: MessagesPerEntry | None = None,
    ) -> None:
        """Join throttles.

        Args:
            throttles: Broker's, topic's or partition's, subscription's; shared
                with other dispatchers of the same.
            clock: Seconds, monotonic.
            options: How dispatch is counted.
            entries: Average messages per entry, shared within a topic.
        """
        self._throttles = tuple(throttles)
        self._clock = clock
        self.options = options or DispatchOptions()
        self.entries = entries or MessagesPerEntry()

    def delay_s(self, *, backlog: bool = True) -> float:
        """Return the seconds until entries may be read; 0 for now."""
        if not self._applies(backlog):
            return 0.0
        now = self._clock()
        return max((t.delay_at(now) for t in self._throttles), default=0.0)

    def entries_to_read(
        self, most: int, *, backlog: bool = True, permits: float = inf
    ) -> int:
        """Return how many entries may be read now.

        Args:
            most: The reader's own bound.
            backlog: Whether the subscription has a backlog.
            permits: Messages that the consumer has asked for.
        """
        messages = permits
        if self._applies(backlog):
            now = self._clock()
            for throttle in self._throttles:
                free, size = throttle.available_at(now)
                if free <= 0.0 or size <= 0.0:
                    return 0
                messages = min(messages, free)
        if self.options.precise_flow_control:
            messages /= self.entries.average
        # What is over is owed, so a part of an entry is read as a whole one.
        return int(min(most, max(-(-messages // 1), 1.0)))

    def delivered(
        self, entries: int, *, messages: int, size: int, backlog: bool = True
    ) -> None:
        """Charge what was delivered; seek and redelivery count again.

        Args:
            entries: Entries read.
            messages: Messages in them.
            size: Their bytes.
            backlog: Whether the subscription had a backlog.
        """
        if entries > 0:
            self.entries.note_dispatched(messages / entries)
        if self._applies(backlog):
            now = self._clock()
            counted = entries if self.options.on_batch_message else messages
            for throttle in self._throttles:
                throttle.charge_at(now, counted, size)

    def _applies(self, backlog: bool) -> bool:
        return backlog or self.options.on_non_backlog_consumer


class SubscribeThrottle:
    """Subscribes per consumer and period (Pulsar's SubscribeRate)."""

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


def _delay_at(bucket: Bucket, now: float) -> float:
    """Return the seconds until a whole message, or what the bucket holds, is there.

    At level 0 a bucket that may owe admits one more; a dispatcher that asks for
    what is there would then be told 0 messages and no delay.
    """
    if bucket.tokenless:
        return inf
    need = min(1.0, bucket.capacity)
    short = need - bucket.level_at(now)
    return short / bucket.rate if short > ROUNDING else 0.0


def _averaged(before: float, messages: float) -> float:
    return before + AVERAGE_WEIGHT * (messages - before) if before else messages
