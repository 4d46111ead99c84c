"""Topics on a real broker, and messages of the recording in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaProducer
from tests.pipeline.rigs import recording as rec

from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.port import BusSettings

if TYPE_CHECKING:
    from tools.kafka_broker import Broker


class Stamped(TopicShape):
    """A topic that keeps the time which its writer gives."""

    def options(self) -> dict[str, str]:
        kept = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
        return super().options() | kept


def bus(broker: Broker, topic: str) -> BusSettings:
    """Return how to reach a topic."""
    return BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic=topic)


def produce(broker: Broker, topic: str, messages: list[rec.Message]) -> None:
    """Write messages, stamped with their own time."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for message in messages:
        when_ms = round(message.second * 1e3)
        producer.send(topic, message.value, timestamp_ms=when_ms)
    producer.flush(timeout=30)
    producer.close()


def produce_recorded(broker: Broker, topic: str) -> None:
    """Make a topic that holds a simulated cluster's reports, some lost or doubled."""
    ensure_topic(bus(broker, topic), Stamped())
    run = rec.simulated()
    found = rec.messages_of(run, lost=0.1, doubled=0.05, stale=0.05, skew_s=0.0)
    produce(broker, topic, found)
