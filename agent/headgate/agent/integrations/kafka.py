"""kafka-python's producer and consumer under publish and dispatch limits.

A producer charges ``publish_messages`` and ``publish_bytes`` before it sends.  A
consumer charges ``dispatch_messages`` and ``dispatch_bytes`` for what a poll
brought, and pauses the partitions of a subject while it is in debt: `poll` itself
never blocks longer than asked, so that the consumer stays in its group.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Protocol

from headgate.agent.errors import Throttled
from headgate.agent.integrations.sources import limiter_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import DispatchSource, LimiterSource
    from headgate.agent.limiter.limiter import Limiter

Header = tuple[str, bytes]

LONGEST_BLOCK_S = 60.0
"""How long `send` blocks at most, as long as kafka-python's own max_block_ms."""


class Partition(Protocol):
    """kafka-python's TopicPartition."""

    @property
    def topic(self) -> str:
        """Name."""
        ...

    @property
    def partition(self) -> int:
        """Number."""
        ...


class Record(Protocol):
    """kafka-python's ConsumerRecord, as far as it is counted."""

    @property
    def offset(self) -> int:
        """Position in the partition."""
        ...

    @property
    def serialized_key_size(self) -> int:
        """Bytes, -1 without a key."""
        ...

    @property
    def serialized_value_size(self) -> int:
        """Bytes, -1 without a value."""
        ...


class Producer(Protocol):
    """kafka-python's KafkaProducer, as far as it is used."""

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: list[Header] | None = None,
    ) -> object:
        """Put a record into the buffer."""
        ...


class Consumer(Protocol):
    """kafka-python's KafkaConsumer, as far as it is used."""

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> Mapping[Partition, Sequence[Record]]:
        """Fetch records."""
        ...

    def pause(self, *partitions: Partition) -> None:
        """Fetch nothing of some partitions."""
        ...

    def resume(self, *partitions: Partition) -> None:
        """Fetch them again."""
        ...

    def assignment(self) -> set[Partition]:
        """Return the partitions of this consumer."""
        ...

    def highwater(self, partition: Partition) -> int | None:
        """Return the offset after a partition's last record, as last heard."""
        ...


class ThrottledProducer:
    """A producer whose subject's publish limits admit each record.

    Attributes:
        throttle_s: Seconds that `send` has blocked in all.
    """

    def __init__(
        self,
        producer: Producer,
        source: LimiterSource,
        *,
        subject: Callable[[str], Mapping[str, str | None]],
        block_s: float = LONGEST_BLOCK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap a producer of bytes (without serializers).

        Args:
            producer: A `kafka.KafkaProducer`.
            source: The agent.
            subject: From a Kafka topic to who publishes, such as
                ``lambda topic: {"tenant": "acme", "client": "etl"}``.
            block_s: Longest wait of `send` in the fair queue; 0 raises at once.
            clock: Seconds, monotonic.
        """
        self.throttle_s = 0.0
        self._producer = producer
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._block_s = block_s
        self._clock = clock

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: list[Header] | None = None,
        messages: int = 1,
    ) -> object:
        """Send a record when it is admitted.

        Args:
            topic: Kafka's topic.
            value: Bytes.
            key: Bytes.
            headers: Pairs of name and bytes.
            messages: How many messages the record is a batch of.

        Returns:
            kafka-python's future.

        Raises:
            Throttled: The limits did not admit it in time.
        """
        limiter = self._limiters.get(self._subject(topic))
        size = len(value or b"") + len(key or b"")
        size += sum(len(name) + len(content) for name, content in headers or ())
        costs = {"publish_messages": float(messages), "publish_bytes": float(size)}
        decision = limiter.try_acquire(**costs) if self._block_s <= 0.0 else None
        if decision is None:
            began_s = self._clock()
            decision = limiter.wait(timeout_s=self._block_s, **costs)
            self.throttle_s += self._clock() - began_s
        if not decision:
            raise Throttled(decision)
        return self._producer.send(topic, value=value, key=key, headers=headers)


class ThrottledConsumer:
    """A consumer whose subjects' dispatch limits pause and resume its partitions.

    Attributes:
        throttle_s: Seconds for which partitions were to be paused, added up.
    """

    def __init__(
        self,
        consumer: Consumer,
        source: DispatchSource,
        *,
        subject: Callable[[str], Mapping[str, str | None]],
        messages_of: Callable[[Record], int] | None = None,
        without_backlog: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap a consumer.

        Args:
            consumer: A `kafka.KafkaConsumer`.
            source: The agent.
            subject: From a Kafka topic to who consumes.
            messages_of: Messages in a record that is a batch; by default a record
                counts as one.
            without_backlog: Charge and pause also a partition that is read to its
                end; None for what the configuration says at the time
                (`dispatchThrottlingOnNonBacklogConsumerEnabled`).
            clock: Seconds, monotonic.
        """
        self.throttle_s = 0.0
        self._consumer = consumer
        self._source = source
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._messages_of = messages_of
        self._without_backlog = without_backlog
        self._clock = clock
        self._paused: dict[Partition, float] = {}

    @property
    def paused(self) -> set[Partition]:
        """The partitions that are paused for their limits."""
        return set(self._paused)

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> Mapping[Partition, Sequence[Record]]:
        """Poll, charge what came, pause what is in debt, resume what is not.

        Returns early when a paused partition is due, so that the next call
        resumes it in time.
        """
        self._resume_due()
        timeout_ms = self._until_due_ms(timeout_ms)
        batches = self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        everywhere = self._without_backlog
        if everywhere is None:
            everywhere = self._source.dispatch_options.on_non_backlog_consumer
        for partition, records in batches.items():
            if records and (everywhere or self._behind(partition, records)):
                self._charge(partition, records)
        return batches

    def _charge(self, partition: Partition, records: Sequence[Record]) -> None:
        # What was fetched has been delivered: it is charged whatever is there, and
        # what was too much is owed.
        limiter = self._limiters.get(self._subject(partition.topic))
        count = self._messages_of
        messages = (
            len(records) if count is None else sum(count(record) for record in records)
        )
        size = sum(
            max(record.serialized_key_size, 0) + max(record.serialized_value_size, 0)
            for record in records
        )
        decision = _charge_delivered(
            limiter, {"dispatch_messages": messages, "dispatch_bytes": size}
        )
        if decision.delay_s > 0.0:
            self.throttle_s += decision.delay_s
            self._paused[partition] = self._clock() + decision.delay_s
            self._consumer.pause(partition)

    def _behind(self, partition: Partition, records: Sequence[Record]) -> bool:
        end = self._consumer.highwater(partition)
        return end is None or records[-1].offset + 1 < end

    def _resume_due(self) -> None:
        now = self._clock()
        mine = self._consumer.assignment()
        for partition, until_s in list(self._paused.items()):
            if partition not in mine:  # another consumer of the group has it now
                del self._paused[partition]
            elif until_s <= now:
                del self._paused[partition]
                self._consumer.resume(partition)

    def _until_due_ms(self, timeout_ms: int) -> int:
        soonest = min(self._paused.values(), default=inf)
        if soonest == inf:
            return timeout_ms
        return max(0, min(timeout_ms, int((soonest - self._clock()) * 1e3) + 1))


def _charge_delivered(limiter: Limiter, costs: Mapping[str, float]) -> Decision:
    """Charge what can't be refused any more; the delay is the debt's.

    While in debt the consumer would have fetched as much again, so that is counted
    as refused: were only what is delivered seen as demand, a starved consumer
    would look content.
    """
    limiter.charge(**costs)
    decision = limiter.validate(**dict.fromkeys(costs, 1.0))
    if decision.delay_s > 0.0:
        limiter.count_refused(**costs)
    return decision
