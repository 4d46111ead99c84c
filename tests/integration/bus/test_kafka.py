"""Kafka's own: brokers that hang, topics that go, foreign records, wrong options."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

import kafka  # type: ignore[import-untyped, unused-ignore]  # has no types
import pytest
from tests.integration.bus.rigs import KafkaRig, acquainted, connected, hear, until

from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.kafka_broker import Broker

    from headgate.agent.bus.port import Bus
    from headgate.agent.json_place import Json


class Writer(Protocol):
    """What is used of ``kafka.KafkaProducer`` here."""

    def send(self, topic: str, value: bytes | None, key: bytes) -> object: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Administrator(Protocol):
    """What is used of ``kafka.KafkaAdminClient`` here."""

    def delete_topics(self, topics: list[str]) -> object: ...

    def create_partitions(self, topic_partitions: dict[str, int]) -> object: ...

    def close(self) -> None: ...


@pytest.fixture
def settings(broker: Broker) -> Iterator[BusSettings]:
    """A topic of its own."""
    rig = KafkaRig(broker)
    yield rig.settings
    rig.close()


def test_a_broker_that_hung_brings_no_old_reports(
    broker: Broker, settings: BusSettings
) -> None:
    sender, reader = connected(settings), connected(replace(settings, max_age_s=1.5))
    # Age is what a message took beyond the fastest of its sender: to a reader that
    # never heard the sender before, the first report that the broker thaws is new.
    acquainted(sender, reader)
    broker.freeze()
    try:
        for number in range(8):
            sender.publish(f"old {number}".encode())
            sender.receive(0.0)
            time.sleep(0.5)
    finally:
        broker.thaw()
    heard: list[bytes] = []

    def fresh() -> bool:
        sender.publish(b"fresh")
        heard.extend(message.payload for message in reader.receive(0.2))
        return b"fresh" in heard

    until(fresh, "fresh reports")
    # What stood still for less than 1.5 s is not old; what waited longer is.
    assert b"old 0" not in heard
    assert b"old 3" not in heard
    sender.close()
    reader.close()


def test_reports_flow_again_after_the_topic_was_deleted_and_made_again(
    settings: BusSettings,
) -> None:
    sender, reader = connected(settings), connected(settings)
    for _ in range(20):
        sender.publish(b"before")
    hear(reader, b"before")
    administrator = cast(
        "Administrator", kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap)
    )
    administrator.delete_topics([settings.topic])
    time.sleep(1.0)
    assert sender.receive(0.0) is not None
    until(lambda: ensure_topic(settings), "the topic to be made again")
    administrator.close()

    def heard() -> bool:
        sender.publish(b"after")
        return any(m.payload == b"after" for m in reader.receive(0.3))

    until(heard, "reports on the new topic")
    sender.close()
    reader.close()


def test_a_topic_of_several_partitions_is_read_whole(broker: Broker) -> None:
    settings = BusSettings(
        kind="kafka", bootstrap=broker.bootstrap, topic="three-partitions"
    )
    assert ensure_topic(settings, TopicShape(partitions=3))
    assert not ensure_topic(settings, TopicShape(partitions=3)), "it is there"
    buses = [connected(settings) for _ in range(4)]
    for number, bus in enumerate(buses):
        bus.publish(f"from {number}".encode())
    for reader in buses[:2]:
        expected = {f"from {number}".encode() for number in range(4)}

        def complete(reader: Bus = reader, left: set[bytes] = expected) -> bool:
            left -= {message.payload for message in reader.receive(0.1)}
            return not left

        until(complete, "one message of each")
    for bus in buses:
        bus.close()


def test_partitions_that_are_added_to_the_topic_are_read_too(
    settings: BusSettings,
) -> None:
    quick: dict[str, Json] = {"metadata_max_age_ms": 500}
    reader = connected(replace(settings, options=quick))
    administrator = cast(
        "Administrator", kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap)
    )
    administrator.create_partitions({settings.topic: 2})
    administrator.close()
    writer = open_bus(settings)

    def heard() -> bool:
        writer.publish(b"on a new one", partition=1)
        return any(m.payload == b"on a new one" for m in reader.receive(0.3))

    until(heard, "a report on the new partition")
    writer.close()
    reader.close()


def test_records_of_others_are_read_by_the_brokers_time(settings: BusSettings) -> None:
    reader = connected(settings)
    writer = cast("Writer", kafka.KafkaProducer(bootstrap_servers=settings.bootstrap))
    writer.send(settings.topic, b"without envelope", b"k")
    writer.send(settings.topic, None, b"a tombstone has no payload")
    writer.flush()
    message = hear(reader, b"without envelope")
    assert message.age_s == 0.0
    until(
        lambda: not reader.receive(0.1) and reader.counters["dropped_malformed"] == 1,
        "the tombstone to be counted",
    )
    writer.close()
    reader.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"linger": 5}, "kafka-python has no option 'linger'"),
        ({"compression_type": "zip"}, "compression_type|Not supported|zip"),
        ({"security_protocol": "ROT13"}, "security_protocol|ROT13"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_wrong_option_is_refused(
    settings: BusSettings, options: dict[str, str | int], says: str
) -> None:
    with pytest.raises(BusUnavailable, match=says):
        open_bus(replace(settings, options=options))
    gc.collect()  # kafka-python opens sockets before it looks at its options


@pytest.mark.parametrize("missing", [{"bootstrap": "127.0.0.1:9"}, {"topic": "none"}])
def test_a_bus_without_broker_or_topic_says_where_it_was_expected(
    settings: BusSettings,
    missing: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = replace(settings, **missing)  # type: ignore[arg-type]  # by name
    bus = open_bus(lost)
    until(lambda: bool(bus.receive(0.1) or caplog.text), "the log line")
    bus.close()
    for expected in (lost.topic, lost.bootstrap, "headgate bus init"):
        assert expected in caplog.text


def test_an_option_of_the_operator_wins(settings: BusSettings) -> None:
    plain = replace(settings, options={"compression_type": None, "linger_ms": 5})
    bus = connected(plain)
    bus.publish(b"uncompressed")
    hear(bus, b"uncompressed")
    bus.close()


def test_a_topic_that_can_not_be_made_says_why(settings: BusSettings) -> None:
    with pytest.raises(BusUnavailable, match=r"topic .* on 127.0.0.1:"):
        ensure_topic(replace(settings, topic="a b"))
    with pytest.raises(BusUnavailable, match="replication"):
        ensure_topic(replace(settings, topic="r3"), TopicShape(replication=3))
