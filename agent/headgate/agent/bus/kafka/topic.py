"""Creates the usage topic of a Kafka cluster, short-lived and small.

Kafka has no topic that lives only in memory: every byte is written, and is deleted only
once its segment is closed and the broker checks.  Hence segments of seconds and a
retention of seconds (the broker's own ``log.retention.check.interval.ms`` should be
a second as well).  An operator who runs the pipeline on the topic chooses hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.bus.kafka import client as kafka_client
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bus.port import BusSettings

LONGEST_SEGMENT_MS = 600_000
"""Ten minutes: even with a retention of days, segments close now and then."""

LEAST_SEGMENT_BYTES = 1 << 20
"""Kafka refuses smaller segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How the topic is created.

    Attributes:
        partitions: One is enough for hundreds of agents.  With the option
            ``report_partitions``, more of them reduce what an agent reads; without
            it, they only spread the brokers' work.
        replication: Copies.  Reports need none, but clients do when a broker dies.
        retention_s: Seconds for which records are kept, at least.
    """

    partitions: int = 1
    replication: int = 1
    retention_s: float = 10.0

    def options(self) -> dict[str, str]:
        """Return the topic's configuration in Kafka's names."""
        retention_ms = round(self.retention_s * 1e3)
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            "segment.ms": str(min(max(retention_ms // 2, 1_000), LONGEST_SEGMENT_MS)),
            "segment.bytes": str(16 * LEAST_SEGMENT_BYTES),
            "file.delete.delay.ms": "1000",
            "min.insync.replicas": "1",
            # Losing a report is harmless; a topic without a leader is silence.
            "unclean.leader.election.enable": "true",
            # The broker's clock, so that a sender can't choose the time.
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(MAX_PAYLOAD_BYTES + 8_192),
        }


class _Admin(Protocol):
    """The part of ``kafka.KafkaAdminClient`` used here."""

    def list_topics(self) -> list[str]: ...

    def create_topics(
        self,
        new_topics: Mapping[str, Mapping[str, object]],
        timeout_ms: int,
        *,
        wait_for_metadata: bool,
    ) -> object: ...


def ensure_topic(settings: BusSettings, shape: TopicShape | None = None) -> bool:
    """Create the topic of `settings` unless it exists; return whether it was created.

    Needs the right to create topics, which agents should not have.

    Raises:
        BusUnavailable: No broker answered, or the broker refused.
    """
    shape = shape or TopicShape()
    wanted = {
        "num_partitions": shape.partitions,
        "replication_factor": shape.replication,
        "configs": shape.options(),
    }
    with kafka_client.administrator(settings) as client:
        admin = cast("_Admin", client)
        exists = import_module("kafka.errors").TopicAlreadyExistsError
        if settings.topic in admin.list_topics():
            return False
        try:
            admin.create_topics(
                {settings.topic: wanted},
                kafka_client.ADMIN_TIMEOUT_MS,
                wait_for_metadata=True,
            )
        except exists:
            return False  # another process was faster
    return True
