"""Kafka as a bus: everyone reads the topic from its end, and nobody keeps it.

kafka-python may block: on metadata, on a hung broker, in a constructor.  So only two
threads of this module call it, one to write and one to read, and the agent's thread
uses their bounded queues::

    publish ─▶ queue ─▶ writing thread ─▶ topic ─▶ reading thread ─▶ queue ─▶ receive

Old messages are still dropped by age: a broker that hung for 15 s delivers reports that
are 15 s old when it resumes.  The payload of a record is a plain report, so the
pipeline and other languages can read the topic as it is.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.agent.bus.envelope import (
    HEADER,
    Ages,
    Envelope,
    Returns,
    payload_fits,
    steady_s,
)
from headgate.agent.bus.inbox import Arrival, Receiver
from headgate.agent.bus.kafka import client as kafka_client
from headgate.agent.bus.partitions import checked_partitions
from headgate.agent.bus.port import BusSettings, Message
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from headgate.agent.bus.kafka.client import ConsumedRecord, ConsumerClient

log = logging.getLogger("headgate.bus")

MAX_UNSENT = 64
"""Own messages that wait for the writing thread; the oldest are dropped."""

MAX_UNDELIVERED = 128
"""Messages that kafka-python may hold: over six seconds of the fastest agent, in which
time they expire."""

POLL_MS = 500
"""How long the reading thread waits for records, and so how long `close` may take."""

PIN_MS = 2_000
"""Longest wait for the end offset of a partition."""

FETCHES_PER_S = 20.0
"""Most fetches per second, in the long run.  Each costs 1 ms of CPU however little it
brings: with 99 other agents, one per report would take a tenth of a core."""

FETCHES_AT_ONCE = 5.0
"""Fetches that need not wait: in a small or quiet cluster, no report waits."""

LARGE_PART = 0.5
"""A fetch that brings this part of the largest possible one may have been truncated,
with the rest waiting at the broker, and is not counted.  Five reports of 90 kB are
less: the fetch costs 1 ms, and each of them only 0.1 ms more."""

PAUSE_S = 0.1
"""Pause after a failure of the reading thread, doubled with each further failure."""

MAX_PAUSE_S = 2.0
"""The longest such pause, with up to a quarter of jitter."""

CLOSE_S = 2.0
"""Longest wait for the last report to go out and for each (daemon) thread to end."""

CLOSE_ATTEMPTS = 3
"""Together longer than kafka-python's 3 s for delivery: then nothing is left to wait
for."""


class Pace:
    """How long to wait before the next fetch: a token bucket of fetches.

    During the wait, reports gather at the broker, and one fetch brings them all: at 99
    a second each waits 25 ms on average.  Rejected: the broker's ``fetch_min_bytes``
    and ``fetch_max_wait_ms``, which delay reports in small clusters as well.

    Args:
        now: Monotonic seconds.
        most: Most bytes that one fetch brings from a partition.
    """

    def __init__(self, now: float, most: int = kafka_client.FETCH_BYTES) -> None:
        self._large = LARGE_PART * most
        self._left = FETCHES_AT_ONCE
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds to wait before the next fetch, and count that fetch."""
        earned = (now - self._at) * FETCHES_PER_S
        self._left = min(self._left + earned, FETCHES_AT_ONCE) - 1.0
        self._at = now
        return max(-self._left, 0.0) / FETCHES_PER_S

    def brought(self, size: int) -> None:
        """Don't count the last fetch after all if it brought many bytes."""
        if size >= self._large:
            self._left = min(self._left + 1.0, FETCHES_AT_ONCE)


class KafkaBus:
    """A topic of a Kafka cluster; see `headgate.agent.bus.port.Bus`."""

    def __init__(self, settings: BusSettings) -> None:
        kafka_client.check_installed()
        settings, self._partitions = _without_partitions(settings)
        kafka_client.check_options(settings)
        self._settings = settings
        self._producer = kafka_client.open_producer(settings)
        self._unsent: deque[tuple[Envelope, bytes, int | None]] = deque()
        self._unsent_changed = threading.Condition()
        self._undelivered = 0
        self._returns = Returns()
        self._ages = Ages()
        self._counters: Counter[str] = Counter()
        self._receiver = Receiver(self._returns, self._counters, settings.max_age_s)
        self._closing = False
        self._ending = threading.Event()
        self._wanted: frozenset[int] | None = None  # all that exist
        self._in_force: frozenset[int] = frozenset()
        self._said: set[str] = set()
        self._threads = [
            threading.Thread(target=run, name=f"headgate-kafka-{name}", daemon=True)
            for name, run in (("write", self._write), ("read", self._read))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def counters(self) -> Mapping[str, int]:
        """See `Bus.counters`."""
        return self._counters

    @property
    def partitions(self) -> int:
        """See `Bus.partitions`: the option ``report_partitions``, 1 by default."""
        return self._partitions

    def read(self, partitions: frozenset[int]) -> None:
        """See `Bus.read`; the reading thread follows within `POLL_MS`."""
        self._wanted = partitions if self._partitions > 1 else None

    def reads(self, partitions: frozenset[int]) -> bool:
        """See `Bus.reads`."""
        return partitions <= self._in_force

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """See `Bus.publish`."""
        if not payload_fits(payload):
            self._counters["dropped_too_large"] += 1
            return False
        envelope = self._returns.number(time.monotonic())
        with self._unsent_changed:
            if self._undelivered >= MAX_UNDELIVERED * self._partitions:
                self._counters["dropped_full"] += 1
                return False
            if len(self._unsent) >= MAX_UNSENT * self._partitions:
                self._unsent.popleft()
                self._counters["dropped_full"] += 1
            self._unsent.append((envelope, payload, partition))
            self._unsent_changed.notify()
        return True

    def receive(self, timeout_s: float) -> list[Message]:
        """See `Bus.receive`."""
        return self._receiver.receive(timeout_s)

    def lag(self) -> float:
        """See `Bus.lag`."""
        return self._returns.lag(time.monotonic())

    def close(self) -> None:
        """See `Bus.close`."""
        with self._unsent_changed:
            self._closing = True
            self._unsent_changed.notify()
        self._ending.set()
        for thread in self._threads:
            thread.join(CLOSE_S)

    def _write(self) -> None:
        """Give own messages to kafka-python until closed; then let them go out."""
        while True:
            with self._unsent_changed:
                while not self._unsent and not self._closing:
                    self._unsent_changed.wait()
                if not self._unsent:
                    break
                envelope, payload, partition = self._unsent.popleft()
            age_s = self._returns.age_s(envelope)
            if age_s > self._settings.max_age_s:
                self._counters["dropped_unsent"] += 1
                continue
            try:
                self._send(envelope, payload, partition)
            except Exception as error:  # whatever kafka-python raises: one message lost
                self._failed(error)
        self._close_producer()

    def _close_producer(self) -> None:
        """Send the last messages; without a broker, wait until they expire."""
        for _ in range(CLOSE_ATTEMPTS):
            try:
                self._producer.close(timeout=CLOSE_S)
            except Exception as error:  # it may raise before its thread has stopped
                self._failed(error)
            else:
                return

    def _send(self, envelope: Envelope, payload: bytes, partition: int | None) -> None:
        """Send one message; blocks only while the topic's metadata is unknown."""
        future = self._producer.send(
            self._settings.topic,
            payload,
            envelope.origin,  # the key: one agent's reports stay in one partition
            [(HEADER, envelope.pack())],
            partition,
        )
        with self._unsent_changed:
            self._undelivered += 1
        future.add_callback(self._delivered)
        future.add_errback(self._undeliverable)

    def _delivered(self, _: object) -> None:
        """Count a message that the broker accepted; called by kafka-python's thread."""
        with self._unsent_changed:
            self._undelivered -= 1
            self._counters["published"] += 1

    def _undeliverable(self, error: BaseException) -> None:
        """Count a message that the broker did not accept in time."""
        with self._unsent_changed:
            self._undelivered -= 1
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Count a lost message, and log each kind of reason once."""
        with self._unsent_changed:  # two threads come here
            self._counters["dropped_down"] += 1
        self._say("a report was not delivered", error)

    def _read(self) -> None:
        """Read the topic from its end until closed; start over after a failure."""
        topic, pause_s = self._settings.topic, PAUSE_S
        while not self._closing:
            try:
                # Ask the producer: its wait is bounded, whereas a consumer that never
                # reached a broker leaks the sockets of its attempts.
                self._check_partitions(self._producer.partitions_for(topic))
                consumer = kafka_client.open_consumer(self._settings)
                most = kafka_client.fetch_bytes(self._settings)
                pace = Pace(time.monotonic(), most)
                try:
                    while not self._closing:
                        self._ending.wait(pace.wait_s(time.monotonic()))
                        # Asked each time: agents write to partitions that were added.
                        self._follow(consumer, self._producer.partitions_for(topic))
                        pace.brought(self._take(consumer.poll(timeout_ms=POLL_MS)))
                        pause_s = PAUSE_S
                finally:
                    self._in_force = frozenset()
                    consumer.close(timeout_ms=POLL_MS)
            except Exception as error:  # whatever kafka-python raises: start over
                self._counters["read_failures"] += 1
                self._say("reading failed", error)
                self._ending.wait(pause_s * random.uniform(1.0, 1.25))
                pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _check_partitions(self, there: AbstractSet[int]) -> None:
        """Raise if the topic has too few partitions."""
        if len(there) < self._partitions:
            raise BusUnavailable(
                f"{self._settings.topic} has {len(there)} partitions, expected at "
                f"least {self._partitions} (report_partitions)"
            )

    def _follow(self, consumer: ConsumerClient, there: AbstractSet[int]) -> None:
        """Read the wanted partitions, new ones from their end."""
        numbers = frozenset(there) if self._wanted is None else self._wanted
        if numbers == self._in_force:
            return
        topic = self._settings.topic
        partitions = {n: kafka_client.partition(topic, n) for n in sorted(numbers)}
        new = [partitions[number] for number in sorted(numbers - self._in_force)]
        consumer.assign(list(partitions.values()))  # keeps its place in the old ones
        if new:
            self._start_at_end(consumer, new)
        self._in_force = numbers

    def _start_at_end(self, consumer: ConsumerClient, partitions: list[object]) -> None:
        """Read these partitions from where they end now."""
        topic = self._settings.topic
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            # Without the right to read, poll() is silent, but position() raises.
            if consumer.position(partition, timeout_ms=PIN_MS) is None:
                raise TimeoutError(f"no broker gave the end offset of {topic}")

    def _take(self, records: Mapping[object, Iterable[ConsumedRecord]]) -> int:
        """Queue what was read; if the agent is behind, the oldest are dropped.

        Returns:
            Bytes of all payloads.
        """
        now_s, wall_s, size = time.monotonic(), time.time(), 0
        for of_partition in records.values():
            for record in of_partition:
                arrival = self._arrival(record, now_s=now_s, wall_s=wall_s)
                if arrival is None:
                    self._counters["dropped_malformed"] += 1
                    continue
                size += len(arrival.message.payload)
                self._receiver.put(arrival)
        return size

    def _arrival(
        self, record: ConsumedRecord, *, now_s: float, wall_s: float
    ) -> Arrival | None:
        """Return a record's message; without an envelope the broker's time counts."""
        if record.value is None:
            return None
        packed = next((v for name, v in record.headers if name == HEADER), b"")
        envelope = Envelope.unpack(packed)
        origin = envelope.origin if envelope else b""
        sent_s = envelope.sent_s if envelope else record.timestamp / 1e3
        age_s = self._ages.age_s(origin, sent_s=sent_s, received_s=steady_s())
        return Arrival(now_s, envelope, Message(record.value, wall_s, age_s))

    def _say(self, what: str, error: BaseException) -> None:
        """Log each kind of trouble once per bus; the counters say how often."""
        kind, topic = type(error).__name__, self._settings.topic
        if kind in self._said or len(self._said) >= MAX_UNSENT:
            return
        self._said.add(kind)
        why = str(error) or kind
        if kind == "KafkaTimeoutError":  # as a rule it is one of these
            why = (
                f"does a broker answer at {self._settings.bootstrap}, and does it have "
                f"the topic (`headgate bus init` makes it)? {why}"
            )
        log.warning("kafka %s: %s: %s", topic, what, why)


def _without_partitions(settings: BusSettings) -> tuple[BusSettings, int]:
    """Return the options meant for kafka-python, and the number of partitions."""
    options = dict(settings.options)
    partitions = checked_partitions(options.pop("report_partitions", 1))
    return replace(settings, options=options), partitions
