"""The wrappers around kafka-python's clients, on a real broker."""

from __future__ import annotations

import json
import time
from importlib import import_module
from itertools import count
from math import inf
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.limiter.making import configure, make, node_limit

from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.port import BusSettings
from headgate.agent.decision import Refusal
from headgate.agent.errors import Throttled
from headgate.agent.follow.policies import DispatchOptions, Policies
from headgate.agent.integrations.kafka import (
    ThrottledConsumer,
    ThrottledProducer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.kafka_broker import Broker

    from headgate.agent.enforcement.enforcer import Enforcer
    from headgate.coordinator.config.configuration import Refusal as RefusalMode

Kafka = Any
"""kafka-python has no types."""

kafka: Kafka = import_module("kafka")

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PATIENCE_S = 30.0
_numbers = count()


def who(_: str) -> dict[str, str | None]:
    return {"tenant": "acme"}


@pytest.fixture
def topic(broker: Broker) -> str:
    return new_topic(broker)


def new_topic(broker: Broker, partitions: int = 1) -> str:
    name = f"limited-{next(_numbers)}"
    settings = BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic=name)
    ensure_topic(settings, TopicShape(partitions=partitions, retention_s=3_600.0))
    return name


@pytest.fixture
def producer(broker: Broker) -> Iterator[Kafka]:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    yield producer
    producer.close()


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Kafka]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    )
    yield consumer
    consumer.close()


def test_a_producer_is_refused_above_its_bytes_and_sends_what_is_admitted(
    producer: Kafka, topic: str
) -> None:
    enforcer = make(node_limit("publish_bytes", 1, 1_000))
    limited = ThrottledProducer(producer, enforcer, subject=who, block_s=0.0)
    futures: list[Kafka] = [limited.send(topic, b"x" * 400, key=b"k") for _ in range(3)]
    with pytest.raises(Throttled, match="publish_bytes of group 'gold'"):
        limited.send(topic, b"x")
    offsets = [future.get(timeout=PATIENCE_S).offset for future in futures]
    assert offsets == [0, 1, 2]
    (usage,) = enforcer.usage()
    assert usage.admitted == 3 * 401.0


def test_a_producer_waits_its_turn_and_a_batch_counts_as_its_messages(
    producer: Kafka, topic: str
) -> None:
    enforcer = make(node_limit("publish_messages", 100, 10))
    limited = ThrottledProducer(producer, enforcer, subject=who)
    began = time.monotonic()
    for _ in range(4):
        limited.send(topic, b"ten", messages=10)
    assert time.monotonic() - began >= 0.15
    assert limited.throttle_s > 0.0
    assert enforcer.usage()[0].admitted == 40.0


def test_kip599_a_producer_heeds_what_a_controller_said_less_what_was_waited(
    producer: Kafka, topic: str
) -> None:
    enforcer = make(node_limit("publish_messages", 1_000, 1_000))
    at_s = time.monotonic() - 20.0
    hasty = ThrottledProducer(producer, enforcer, subject=who, block_s=0.0)
    hasty.heed(Throttled(Refusal(delay_s=50.0), at_s=at_s))
    with pytest.raises(Throttled) as caught:
        hasty.send(topic, b"x")
    assert 25_000 < caught.value.decision.throttle_time_ms <= 30_000
    patient = ThrottledProducer(producer, enforcer, subject=who)
    patient.heed(Throttled(Refusal(delay_s=21.0), at_s=at_s))
    patient.send(topic, b"x")
    assert time.monotonic() - at_s >= 21.0
    began_s = time.monotonic()
    patient.send(topic, b"x")
    assert time.monotonic() - began_s < 10.0


def test_kip599_a_producer_heeds_the_longest_of_what_controllers_said(
    producer: Kafka, topic: str
) -> None:
    enforcer = make(node_limit("publish_messages", 1_000, 1_000))
    patient = ThrottledProducer(producer, enforcer, subject=who)
    began_s = time.monotonic()
    patient.heed(Throttled(Refusal(delay_s=1.0)))
    patient.heed(Throttled(Refusal(delay_s=0.01)))
    patient.send(topic, b"x")
    assert time.monotonic() - began_s >= 1.0
    # One that another thread hears of while a record waits:
    began_s = time.monotonic()
    patient.heed(Throttled(Refusal(delay_s=1.0)))
    later = Timer(0.3, patient.heed, [Throttled(Refusal(delay_s=1.7))])
    later.start()
    patient.send(topic, b"x")
    assert time.monotonic() - began_s >= 2.0
    later.join()
    # All of them together are waited for no longer than `block_s`.
    hasty = ThrottledProducer(producer, enforcer, subject=who, block_s=1.5)
    hasty.heed(Throttled(Refusal(delay_s=1.0)))
    later = Timer(0.3, hasty.heed, [Throttled(Refusal(delay_s=1.7))])
    later.start()
    with pytest.raises(Throttled):
        hasty.send(topic, b"x")
    later.join()


@pytest.mark.parametrize("delay_s", [inf, 1e10])
def test_kip599_nobody_waits_for_what_a_controller_refused_for_ever(
    producer: Kafka, topic: str, delay_s: float
) -> None:
    enforcer = make(node_limit("publish_messages", 1_000, 1_000))
    patient = ThrottledProducer(producer, enforcer, subject=who, block_s=inf)
    patient.heed(Throttled(Refusal(delay_s=delay_s, never=delay_s == inf)))
    with pytest.raises(Throttled):
        patient.send(topic, b"x")
    patient.heed(Throttled(Refusal(delay_s=0.01)))  # the limit of 0 was raised
    if delay_s == inf:
        patient.send(topic, b"x")


def test_ably_receivers_hear_on_a_topic_what_was_refused_to_a_producer(
    producer: Kafka, consumer: Kafka, topic: str
) -> None:
    enforcer = make(node_limit("publish_messages", 0.001, 5))
    limited = ThrottledProducer(
        producer, enforcer, subject=who, block_s=0.0, notices_topic=topic
    )
    refused = 0
    for _ in range(20):
        try:
            limited.send(topic, b"x", messages=3)
        except Throttled:
            refused += 1
        if refused == 10:
            break
    assert refused == 10
    consumer.assign([kafka.TopicPartition(topic, 0)])
    told: list[dict[str, Any]] = []
    end_s = time.monotonic() + PATIENCE_S
    while sum(one["requests"] for one in told) < 10:
        limited.tell_due()
        for records in consumer.poll(timeout_ms=200).values():
            texts = [value(record) for record in records]
            told += [json.loads(text) for text in texts if text != b"x"]
        assert time.monotonic() < end_s, told
    # Three messages and one byte each.
    assert sum(one["units"] for one in told) == 40
    assert told[0]["dimension"] == "publish_messages"


def value(record: Kafka) -> bytes:
    content: bytes = record.value
    return content


def fill(producer: Kafka, topic: str, records: int, partition: int = 0) -> None:
    for index in range(records):
        producer.send(topic, b"%06d" % index, partition=partition)
    producer.flush(timeout=PATIENCE_S)


@pytest.mark.parametrize("mode", ["reject", "delay", "wait"])
def test_a_consumer_in_debt_pauses_its_partition_and_resumes_in_time(
    producer: Kafka, consumer: Kafka, topic: str, mode: RefusalMode
) -> None:
    fill(producer, topic, 100)
    enforcer = make(node_limit("dispatch_messages", 50, 10), refusal=mode)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    got: list[bytes] = []
    longest_s, paused = 0.0, 0
    began = time.monotonic()
    while len(got) < 100 and time.monotonic() < began + PATIENCE_S:
        before = time.monotonic()
        for records in limited.poll(timeout_ms=200, max_records=10).values():
            got += [value(record) for record in records]
        longest_s = max(longest_s, time.monotonic() - before)
        paused += partition in limited.paused
    assert got == [b"%06d" % index for index in range(100)]
    # A burst of 10 and one poll beyond it come at once, the rest at 50/s.
    assert time.monotonic() - began >= (90 - 20) / 50
    assert paused > 0
    assert longest_s < 5.0  # polling never blocks for the quota's sake
    (usage,) = enforcer.usage()
    assert usage.admitted == 100
    assert usage.refused > 0


@pytest.mark.parametrize("rate", [0.0, 0.001])
def test_a_paused_partition_goes_on_as_soon_as_its_limit_is_raised(
    producer: Kafka, consumer: Kafka, topic: str, rate: float
) -> None:
    fill(producer, topic, 20)
    enforcer = make(node_limit("dispatch_messages", rate, rate))
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    end_s = time.monotonic() + PATIENCE_S
    while not limited.paused and time.monotonic() < end_s:
        limited.poll(timeout_ms=200, max_records=10)
    assert limited.paused == {partition}
    assert not limited.poll(timeout_ms=200)
    configure(enforcer, node_limit("dispatch_messages", 1_000, 1_000))
    got = 0
    while not got and time.monotonic() < end_s:
        polled = limited.poll(timeout_ms=200, max_records=10)
        got += sum(len(records) for records in polled.values())
    assert got == 10
    assert limited.throttle_s < inf


def test_dispatch_without_backlog_a_switch_says_whether_to_throttle(
    producer: Kafka, consumer: Kafka, topic: str
) -> None:
    fill(producer, topic, 20)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    limit = node_limit("dispatch_messages", 1, 5)
    # What the caller says, what the configuration says, what is charged.
    cases = ((None, False, 0.0), (None, True, 20.0), (False, True, 0.0))
    for said, configured, admitted in (*cases, (True, False, 20.0)):
        enforcer = make(limit)
        limited = ThrottledConsumer(
            consumer, enforcer, subject=who, without_backlog=said
        )
        # The switch is followed live.
        options = DispatchOptions(on_non_backlog_consumer=configured)
        configure(enforcer, limit, policies=Policies(options=options))
        consumer.seek_to_beginning()  # what is read again counts again
        read = 0
        end_s = time.monotonic() + PATIENCE_S
        while read < 20 and time.monotonic() < end_s:
            read += sum(len(r) for r in limited.poll(timeout_ms=500).values())
        assert sum(usage.admitted for usage in enforcer.usage()) == admitted
        assert bool(limited.paused) == (admitted > 0.0)


def test_dispatch_a_record_may_be_a_batch_of_messages(
    producer: Kafka, consumer: Kafka, topic: str
) -> None:
    fill(producer, topic, 4)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    enforcer = make(
        node_limit("dispatch_messages", 1, 5), node_limit("dispatch_bytes", 1, 5)
    )
    limited = ThrottledConsumer(
        consumer,
        enforcer,
        subject=who,
        messages_of=lambda _: 25,
        without_backlog=True,
    )
    read = 0
    end_s = time.monotonic() + PATIENCE_S
    while read < 4 and time.monotonic() < end_s:
        read += sum(len(r) for r in limited.poll(timeout_ms=500).values())
    admitted = {u.dimension: u.admitted for u in enforcer.usage()}
    assert admitted == {"dispatch_messages": 100.0, "dispatch_bytes": 24.0}


def partitions_of(topic: str, count: int) -> list[Kafka]:
    return [kafka.TopicPartition(topic, number) for number in range(count)]


@pytest.mark.parametrize("most", [10, 500])
@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_the_partitions_of_a_subject_share_its_debt_and_take_turns(
    broker: Broker, producer: Kafka, consumer: Kafka, partitions: int, most: int
) -> None:
    topic = new_topic(broker, partitions)
    rate = 10.0 * most
    for number in range(partitions):
        fill(producer, topic, 30 * most // partitions, number)
    enforcer = make(node_limit("dispatch_messages", rate, most))
    consumer.assign(partitions_of(topic, partitions))
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    turns: list[int] = []
    total = 0
    began_s = time.monotonic()
    while len(turns) < 3 * partitions and time.monotonic() < began_s + PATIENCE_S:
        for partition, records in limited.poll(200, max_records=most).items():
            turns.append(partition.partition)
            total += len(records)
        # The burst and one poll beyond it, however many partitions there are.
        assert total <= 2 * most + rate * (time.monotonic() - began_s)
        assert limited.throttle_s <= time.monotonic() - began_s + total / rate
    taken = [turns.count(number) for number in range(partitions)]
    assert len(turns) >= 3 * partitions
    # The first one may go on while the burst lasts.
    assert max(taken) - min(taken) <= 2


def test_a_backlog_is_read_on_beside_partitions_that_have_none(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    topic = new_topic(broker, 3)
    fill(producer, topic, 200)
    enforcer = make(node_limit("dispatch_messages", 100, 10))
    consumer.assign(partitions_of(topic, 3))
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    got = [0, 0, 0]
    sent = 0
    end_s = time.monotonic() + PATIENCE_S
    while got[0] < 200 and time.monotonic() < end_s:
        if got[1] == sent:  # at its end
            sent += 1
            fill(producer, topic, 1, 1)
        for partition, records in limited.poll(200, max_records=10).items():
            got[partition.partition] += len(records)
    assert got[0] == 200
    # A record that arrives waits for a few polls of the backlog, not for its end.
    assert got[1] >= 5


def of_one_tenant(topic: str, consumer: Kafka, enforcer: Enforcer) -> ThrottledConsumer:
    """Limit a consumer, one of whose topics belongs to another tenant than the rest."""
    return ThrottledConsumer(
        consumer,
        enforcer,
        subject=lambda each: {"tenant": "acme" if each == topic else "other"},
    )


def test_other_subjects_go_on_while_one_is_in_debt(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    acme, others = new_topic(broker, 2), new_topic(broker, 2)
    for number in (0, 1):
        fill(producer, acme, 100, number)
        fill(producer, others, 100, number)
    enforcer = make(node_limit("dispatch_messages", 0.001, 1))
    consumer.assign(partitions_of(acme, 2) + partitions_of(others, 2))
    limited = of_one_tenant(acme, consumer, enforcer)
    got = {acme: 0, others: 0}
    end_s = time.monotonic() + PATIENCE_S
    while got[others] < 200 and time.monotonic() < end_s:
        for partition, records in limited.poll(200, max_records=10).items():
            got[partition.topic] += len(records)
    assert got[others] == 200
    assert got[acme] <= 20
    assert limited.paused == set(partitions_of(acme, 2))


def test_a_paid_debt_is_read_on_beside_backlogs_that_never_end(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    acme, others = new_topic(broker), new_topic(broker, 2)
    fill(producer, acme, 200)
    for number in (0, 1):
        fill(producer, others, 5_000, number)
    enforcer = make(node_limit("dispatch_messages", 100, 10))
    consumer.assign(partitions_of(acme, 1) + partitions_of(others, 2))
    limited = of_one_tenant(acme, consumer, enforcer)
    got = {acme: 0, others: 0}
    while got[acme] < 80 and got[others] < 10_000:
        # kafka-python has always fetched more of one than a poll takes.
        for partition, records in limited.poll(200, max_records=7).items():
            got[partition.topic] += len(records)
        time.sleep(0.002)
    assert got[acme] >= 80


def test_nothing_is_read_while_a_subject_is_in_debt_for_something_else(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    topic = new_topic(broker, 2)
    fill(producer, topic, 10, 0)
    fill(producer, topic, 10, 1)
    enforcer = make(node_limit("dispatch_messages", 0.001, 1))
    enforcer.limiter(tenant="acme").charge(dispatch_messages=50)
    consumer.assign(partitions_of(topic, 2))
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    for _ in range(5):
        assert not limited.poll(timeout_ms=200)
    assert limited.paused == set(partitions_of(topic, 2))


def test_what_the_application_pauses_and_resumes_is_its_own_affair(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    topic = new_topic(broker, 2)
    fill(producer, topic, 100, 0)
    fill(producer, topic, 20, 1)
    first, second = partitions_of(topic, 2)
    enforcer = make(node_limit("dispatch_messages", 50, 10))
    consumer.assign([first, second])
    limited = ThrottledConsumer(consumer, enforcer, subject=who)
    got = {first: 0, second: 0}
    end_s = time.monotonic() + PATIENCE_S
    while got[first] < 60 and time.monotonic() < end_s:
        if limited.paused:  # in debt
            consumer.pause(second)
        for partition, records in limited.poll(200, max_records=10).items():
            got[partition] += len(records)
        assert consumer.paused() <= {second}
    assert got[first] == 60
    assert got[second] <= 10
    consumer.resume(second)
    while sum(got.values()) < 120 and time.monotonic() < end_s:
        for partition, records in limited.poll(200, max_records=10).items():
            got[partition] += len(records)
    assert got == {first: 100, second: 20}


def test_dispatch_a_partition_at_its_end_goes_on_if_only_a_backlog_is_throttled(
    broker: Broker, producer: Kafka, consumer: Kafka
) -> None:
    topic = new_topic(broker, 2)
    fill(producer, topic, 100)
    first, second = partitions_of(topic, 2)
    enforcer = make(node_limit("dispatch_messages", 0.001, 5))
    consumer.assign([first, second])
    limited = ThrottledConsumer(consumer, enforcer, subject=who, without_backlog=False)
    got = {first: 0, second: 0}
    end_s = time.monotonic() + PATIENCE_S
    while (not got[first] or got[second] < 5) and time.monotonic() < end_s:
        if limited.paused:
            fill(producer, topic, 1, 1)
        for partition, records in limited.poll(200, max_records=10).items():
            got[partition] += len(records)
    assert limited.paused == {first}
    assert got == {first: 10, second: 5}
    assert sum(usage.admitted for usage in enforcer.usage()) == 10


def test_consumers_join_and_leave_a_group_in_debt_and_every_record_is_read(
    broker: Broker, producer: Kafka
) -> None:
    topic = new_topic(broker, 8)
    for number in range(8):
        fill(producer, topic, 50, number)
    rate, burst, most = 100, 10, 10
    enforcer = make(node_limit("dispatch_messages", rate, burst))
    read: set[tuple[int, int]] = set()
    total = rebalances = 0
    members: list[tuple[Kafka, ThrottledConsumer]] = []

    def join() -> None:
        member: Kafka = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        )
        enforcer.limiter(tenant="acme").charge(dispatch_messages=150)
        members.append((member, ThrottledConsumer(member, enforcer, subject=who)))

    join()
    began_s = time.monotonic()
    while len(read) < 400 and time.monotonic() < began_s + 2 * PATIENCE_S:
        for member, limited in members:
            before = member.assignment()
            for partition, records in limited.poll(200, max_records=most).items():
                total += len(records)
                read |= {(partition.partition, record.offset) for record in records}
            rebalances += member.assignment() != before
            assert not member.paused()
        allowed = burst + most * (1 + rebalances) + rate * (time.monotonic() - began_s)
        assert total <= allowed
        if len(members) == 1 and len(read) >= 100 and rebalances == 1:
            join()
        shares = [len(member.assignment()) for member, _ in members]
        if shares == [4, 4] and len(read) >= 200:
            members.pop(0)[0].close()
            enforcer.limiter(tenant="acme").charge(dispatch_messages=150)
    assert len(read) == 400
    assert rebalances >= 4  # alone, both, alone again
    for member, _ in members:
        member.close()
