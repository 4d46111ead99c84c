"""kafka-python's producer and consumer under publish and dispatch limits.

A producer charges ``publish_messages`` and ``publish_bytes`` before it sends.  A
consumer charges ``dispatch_messages`` and ``dispatch_bytes`` for what a poll returned,
and pauses all partitions of a subject while that is in debt; `poll` never blocks longer
than asked, so the consumer stays in its group.
"""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING, Protocol

from headgate.agent.errors import Throttled
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.limiter.kafka_quota import composed
from headgate.agent.limiter.notices import Notice, NoticeBoard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import DispatchSource, LimiterSource
    from headgate.agent.limiter.limiter import Limiter

Header = tuple[str, bytes]

MOST_SUBJECTS = 10_000
"""Most subjects with refusals that are yet to be published."""

ONE_OF_EACH: Mapping[str, float] = {"dispatch_messages": 1.0, "dispatch_bytes": 1.0}
"""What a consumer asks for to find out whether it is in debt."""

LONGEST_POLL_S = 1.0
"""Longest poll while a partition is paused: its limit may be raised meanwhile."""

TURN_S = 0.1
"""How long a partition waits for others that have a backlog: a fetch takes less.  A
burst of 0.1 s makes up for a wait in vain."""

GLANCE_S = 0.002
"""How long it waits for others without one: whatever has been fetched comes at once."""

MOST_RECORDS = "max_poll_records"
"""kafka-python's setting for polls without `max_records`."""

IN_LINE = "_next_partition_records"
"""Attribute of kafka-python's fetcher: what it has fetched of the partition that it
reads at present."""

PARKED = "_paused_partition_records"
"""Attribute of kafka-python's fetcher: the same of partitions that were paused."""

LONGEST_BLOCK_S = 60.0
"""Longest time that `send` blocks, the same as kafka-python's max_block_ms."""


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
    """The part of kafka-python's ConsumerRecord used here."""

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


class _Fetched(Protocol):
    """What kafka-python has fetched of a partition; falsy if it is finished."""

    @property
    def topic_partition(self) -> Partition:
        """The partition."""
        ...


class Producer(Protocol):
    """The part of kafka-python's KafkaProducer used here."""

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: list[Header] | None = None,
    ) -> object:
        """Add a record to the buffer."""
        ...


class Consumer(Protocol):
    """The part of kafka-python's KafkaConsumer used here."""

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> Mapping[Partition, Sequence[Record]]:
        """Fetch records."""
        ...

    def pause(self, *partitions: Partition) -> None:
        """Stop fetching from some partitions."""
        ...

    def resume(self, *partitions: Partition) -> None:
        """Fetch from them again."""
        ...

    def paused(self) -> set[Partition]:
        """Return the partitions that are paused."""
        ...

    def assignment(self) -> set[Partition]:
        """Return the partitions of this consumer."""
        ...

    @property
    def config(self) -> Mapping[str, int]:
        """Return the settings; only `max_poll_records` is read."""
        ...

    def highwater(self, partition: Partition) -> int | None:
        """Return the offset after a partition's last record, as last known."""
        ...


class ThrottledProducer:
    """A producer that sends a record once its subject's publish limits admit it.

    Attributes:
        throttle_s: Total seconds that `send` has blocked.
    """

    def __init__(
        self,
        producer: Producer,
        source: LimiterSource,
        *,
        subject: Callable[[str], Mapping[str, str | None]],
        block_s: float = LONGEST_BLOCK_S,
        notices_topic: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap a producer of bytes (without serializers).

        Args:
            producer: A `kafka.KafkaProducer`.
            source: The agent.
            subject: Returns who publishes on a Kafka topic, such as
                ``lambda topic: {"tenant": "acme", "client": "etl"}``.
            block_s: Longest wait of `send` in the fair queue; with 0 it raises at once.
            notices_topic: Topic for notices to those who would have received what was
                refused, as JSON (`headgate.agent.limiter.notices.Notice.to_json`), at
                most one a second for each subject; None for no notices.
            clock: Seconds, monotonic.
        """
        self.throttle_s = 0.0
        self._producer = producer
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._block_s = block_s
        self._clock = clock
        self._controller: Throttled | None = None
        self._heeding = Lock()
        self._notices_topic = notices_topic
        self._boards: dict[str, NoticeBoard] = {}

    def heed(self, refusal: Throttled) -> None:
        """Send nothing until a controller's delay is over, too (KIP-599).

        Args:
            refusal: What the controller said, such as about a topic to be created.
        """
        at_s = time.monotonic() if refusal.at_s is None else refusal.at_s
        heeded = Throttled(refusal.decision, at_s=at_s)
        with self._heeding:
            before = self._controller
            # What was refused for ever may be allowed by now.
            if (
                before is None
                or before.decision.never
                or _ends_s(before) < _ends_s(heeded)
            ):
                self._controller = heeded

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: list[Header] | None = None,
        messages: int = 1,
    ) -> object:
        """Send a record once it is admitted.

        Args:
            topic: Kafka's topic.
            value: Bytes.
            key: Bytes.
            headers: Pairs of name and bytes.
            messages: Number of messages in the record, if it is a batch.

        Returns:
            kafka-python's future.

        Raises:
            Throttled: The limits didn't admit it in time.
        """
        limiter = self._limiters.get(self._subject(topic))
        size = len(value or b"") + len(key or b"")
        size += sum(len(name) + len(content) for name, content in headers or ())
        costs = {"publish_messages": float(messages), "publish_bytes": float(size)}
        self._wait_for_controller(limiter, costs)
        decision = limiter.try_acquire(**costs) if self._block_s <= 0.0 else None
        if decision is None:
            began_s = self._clock()
            decision = limiter.wait(timeout_s=self._block_s, **costs)
            self.throttle_s += self._clock() - began_s
        self._note(limiter, decision, costs)
        if not decision:
            raise Throttled(decision)
        return self._producer.send(topic, value=value, key=key, headers=headers)

    def tell_due(self) -> None:
        """Publish notices of the last refusals of idle subjects; call it now and then.

        `send` does it, too.
        """
        for board in list(self._boards.values()):
            board.tell_due(self._clock())

    def _note(
        self, limiter: Limiter, decision: Decision, costs: Mapping[str, float]
    ) -> None:
        if self._notices_topic is None:
            return
        subject = str(limiter.subject)
        if not decision and subject not in self._boards:
            if len(self._boards) >= MOST_SUBJECTS:
                self._boards.clear()  # unpublished notices are lost
            self._boards[subject] = NoticeBoard(limiter, self._tell, clock=self._clock)
        if (board := self._boards.get(subject)) is not None:
            board.note(decision, costs)

    def _tell(self, notice: Notice) -> None:
        assert self._notices_topic is not None
        key = notice.subject.encode()
        self._producer.send(
            self._notices_topic, value=notice.to_json().encode(), key=key, headers=None
        )

    def _wait_for_controller(
        self, limiter: Limiter, costs: Mapping[str, float]
    ) -> None:
        """Wait for the longer of both delays, or raise where that takes too long.

        Meanwhile another thread may heed a longer one.
        """
        end_s = time.monotonic() + min(self._block_s, TIMEOUT_MAX)
        while (controller := self._controller) is not None:
            now = time.monotonic()
            refused = composed(limiter.validate(**costs), controller, now)
            if refused.delay_s > max(end_s - now, 0.0):
                raise Throttled(refused)
            time.sleep(refused.delay_s)
            self.throttle_s += refused.delay_s
            with self._heeding:
                if self._controller is controller:
                    self._controller = None


class ThrottledConsumer:
    """A consumer that holds back the partitions of subjects in debt.

    A debt belongs to a subject: during each poll, all partitions of subjects in debt
    are paused, so at most one poll is delivered beyond what the limits admit (and the
    poll in which a rebalance brings new partitions).  Once the debt is paid, the
    partitions take turns.  Between polls, only what the application paused is paused;
    but what a rebalance listener pauses, which runs within a poll, may go on after it,
    so let the listener note it, and pause it once the poll has returned.

    Attributes:
        throttle_s: Total seconds for which subjects were to be held back; by a limit of
            0 they are for ever, which is not counted.
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
            subject: Returns who consumes a Kafka topic.
            messages_of: Returns the number of messages in a record that is a batch; by
                default a record counts as one.
            without_backlog: Also charge and hold back a partition that has been read to
                its end; None for the configuration's present setting
                (`dispatchThrottlingOnNonBacklogConsumerEnabled`).  If False, the
                first batch of each partition is always delivered, since only that
                shows whether there is a backlog.
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
        self._turns = _Turns()

    @property
    def paused(self) -> set[Partition]:
        """The partitions that their limits hold back at present."""
        return set(self._in_debt(self._consumer.assignment()))

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> Mapping[Partition, Sequence[Record]]:
        """Poll the partitions whose subjects are not in debt; charge what arrived.

        Returns early, perhaps with nothing, when a debt is paid, so that the next call
        reads on in time; in any case within `LONGEST_POLL_S` while a partition is held
        back, and within `TURN_S` while one lets others go first.
        """
        mine = self._consumer.assignment()
        debts = self._in_debt(mine)
        yielding, longest_s = self._turns.yielding(mine, debts.keys(), self._clock())
        if debts:
            longest_s = min(longest_s, LONGEST_POLL_S, *debts.values())
        if longest_s < inf:
            timeout_ms = min(timeout_ms, int(longest_s * 1e3) + 1)
        batches = self._poll_without(
            yielding.union(debts), timeout_ms=timeout_ms, max_records=max_records
        )
        self._charge(batches, max_records or self._consumer.config[MOST_RECORDS])
        return batches

    def _in_debt(self, partitions: set[Partition]) -> dict[Partition, float]:
        """Return the partitions to hold back, and the seconds until they may go on."""
        everywhere = self._everywhere()
        delays = {
            topic: self._limiter(topic).validate(**ONE_OF_EACH).delay_s
            for topic in {partition.topic for partition in partitions}
        }
        return {
            partition: delays[partition.topic]
            for partition in partitions
            if delays[partition.topic] > 0.0
            and (everywhere or self._turns.has_backlog(partition))
        }

    def _poll_without(
        self, held: set[Partition], *, timeout_ms: int, max_records: int | None
    ) -> Mapping[Partition, Sequence[Record]]:
        paused = self._consumer.paused()  # by the application: it stays so
        _let_parked_records_go_on(self._consumer, paused | held)
        held = held - paused
        try:
            for partition in held:
                with suppress(KeyError):  # no longer this consumer's
                    self._consumer.pause(partition)
            return self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        finally:
            for partition in held:
                with suppress(KeyError):  # a rebalance took it away meanwhile
                    self._consumer.resume(partition)

    def _charge(self, batches: Mapping[Partition, Sequence[Record]], most: int) -> None:
        # What was fetched has been delivered, so it is charged whatever the level; any
        # excess becomes debt.
        everywhere = self._everywhere()
        charged: dict[Limiter, dict[Partition, Sequence[Record]]] = {}
        for partition, records in batches.items():
            if records:
                behind = self._behind(partition, records)
                self._turns.note(partition, behind=behind)
                if everywhere or behind:
                    limiter = self._limiter(partition.topic)
                    charged.setdefault(limiter, {})[partition] = records
        # A full poll ends within what was fetched of its last partition.
        full = sum(map(len, batches.values())) >= most
        unfinished = set(list(batches)[-1:]) if full else set[Partition]()
        for limiter, delivered in charged.items():
            decision = _charge_delivered(limiter, self._costs(delivered.values()))
            if decision.delay_s > 0.0:
                self.throttle_s += decision.delay_s if decision.delay_s < inf else 0.0
                self._turns.take(delivered.keys(), unfinished)

    def _costs(self, batches: Iterable[Sequence[Record]]) -> dict[str, float]:
        count = self._messages_of
        messages = size = 0
        for records in batches:
            messages += len(records) if count is None else sum(map(count, records))
            size += sum(
                max(record.serialized_key_size, 0)
                + max(record.serialized_value_size, 0)
                for record in records
            )
        return {"dispatch_messages": messages, "dispatch_bytes": size}

    def _behind(self, partition: Partition, records: Sequence[Record]) -> bool:
        end = self._consumer.highwater(partition)
        return end is None or records[-1].offset + 1 < end

    def _everywhere(self) -> bool:
        if self._without_backlog is not None:
            return self._without_backlog
        return self._source.dispatch_options.on_non_backlog_consumer

    def _limiter(self, topic: str) -> Limiter:
        return self._limiters.get(self._subject(topic))


class _Turns:
    """Whose turn it is among the partitions that are not held back.

    Left alone, kafka-python reads one partition for as long as it has fetched records
    of it: up to 1 MB, which may last minutes under a low limit.  So a partition that is
    not finished when a debt begins lets the others go first once the debt is paid.  It
    waits `TURN_S` for those known to have a backlog, or never read, and `GLANCE_S` for
    the rest, of which something may have arrived.
    """

    def __init__(self) -> None:
        self._took: dict[Partition, bool] = {}  # whether it is unfinished
        self._backlog: dict[Partition, bool] = {}
        self._until_s = inf

    def yielding(
        self, mine: set[Partition], held: Set[Partition], now: float
    ) -> tuple[set[Partition], float]:
        """Return the partitions that let others go first, and for how many seconds.

        Args:
            mine: All partitions of the consumer; others are forgotten.
            held: Those in debt.
            now: Seconds.
        """
        self._took = {p: rest for p, rest in self._took.items() if p in mine}
        self._backlog = {p: more for p, more in self._backlog.items() if p in mine}
        others = mine - held - self._took.keys()
        yielding = {p for p, rest in self._took.items() if rest} - held
        if not yielding:
            return set(), inf
        if others:
            awaited = any(self._backlog.get(p, True) for p in others)
            self._until_s = min(self._until_s, now + (TURN_S if awaited else GLANCE_S))
            if now < self._until_s:
                return yielding, self._until_s - now
            # They delivered nothing: a leader is away, or the application paused them
            # or sought their end.  Don't wait so long for them again.
            self._backlog.update(dict.fromkeys(others, False))
        self._took = {p: rest for p, rest in self._took.items() if p in held}
        self._until_s = inf
        return set(), inf

    def note(self, partition: Partition, *, behind: bool) -> None:
        """Note whether a batch of a partition left a backlog behind."""
        self._backlog[partition] = behind

    def take(self, delivered: Set[Partition], unfinished: Set[Partition]) -> None:
        """Note that partitions left a debt, and which would be read on next."""
        if not delivered <= self._took.keys():
            self._until_s = inf  # nobody was waited for in vain
        self._took.update({p: p in unfinished for p in delivered})

    def has_backlog(self, partition: Partition) -> bool:
        """Return whether a partition is known to have a backlog."""
        return self._backlog.get(partition, False)


def _ends_s(refusal: Throttled) -> float:
    """Return when a controller's delay is over."""
    assert refusal.at_s is not None
    return refusal.at_s + refusal.decision.delay_s


def _charge_delivered(limiter: Limiter, costs: Mapping[str, float]) -> Decision:
    """Charge what can no longer be refused; the delay is that of the debt.

    A consumer in debt would have fetched as much again, so that amount is counted as
    refused: if only deliveries counted as demand, a starved consumer would look
    satisfied.
    """
    limiter.charge(**costs)
    decision = limiter.validate(**ONE_OF_EACH)
    if decision.delay_s > 0.0:
        limiter.count_refused(**costs)
    return decision


def _let_parked_records_go_on(consumer: Consumer, paused: Set[Partition]) -> None:
    """Empty kafka-python's slot for the partition it reads, if that is finished.

    kafka-python 3.0.12 parks what it has fetched of a paused partition, and takes it up
    again only while that slot is empty.  But a finished partition stays in the slot,
    and the next ones that it has fetched go there first, so the parked one might never
    be read again.  While one is parked that may go on, whatever is in the slot is
    parked behind it.

    Args:
        consumer: Of kafka-python.
        paused: What the next poll must not read.
    """
    fetcher: object = getattr(consumer, "_fetcher", None)
    reading: _Fetched | None = getattr(fetcher, IN_LINE, None)
    parked: dict[Partition, object] = getattr(fetcher, PARKED, {})
    if reading is None or (reading and parked.keys() <= paused):
        return
    if reading:
        parked[reading.topic_partition] = reading
    setattr(fetcher, IN_LINE, None)
