"""A Kafka producer and consumer under one tenant's publish and dispatch quota.

python examples/messaging/limiter_kafka.py BOOTSTRAP TOPIC [URL of the API]
"""

import sys
import time
from importlib import import_module
from typing import Any

import headgate
from headgate.kafka import ThrottledConsumer, ThrottledProducer

kafka: Any = import_module("kafka")
RECORDS = 200


def who(_: str) -> dict[str, str | None]:
    """Return who publishes and consumes, whatever the topic."""
    return {"tenant": "acme"}


def main(bootstrap: str, topic: str, url: str) -> None:
    """Publish, then consume what was published."""
    with headgate.connect(url) as agent:
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        publish = ThrottledProducer(producer, agent, subject=who)
        for index in range(RECORDS):
            publish.send(topic, b"record %d" % index)
        producer.close()
        print(f"published {RECORDS}, held back {publish.throttle_s:.2f} s")

        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        dispatch = ThrottledConsumer(consumer, agent, subject=who)
        read, end_s = 0, time.monotonic() + 60
        while read < RECORDS and time.monotonic() < end_s:
            read += sum(len(records) for records in dispatch.poll(500).values())
        consumer.close()
        print(f"consumed {read}, paused {dispatch.throttle_s:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], (sys.argv[3:] or ["http://127.0.0.1:8080"])[0])
