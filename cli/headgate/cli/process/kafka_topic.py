"""Creating the topic that carries reports, on a broker that may still be starting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headgate.cli.failure import Failure, one_line

if TYPE_CHECKING:
    from headgate.agent.bus.kafka.topic import TopicShape
    from headgate.agent.bus.port import BusSettings

PAUSE_S = 0.2
"""Seconds between two attempts while a broker starts."""


def make_topic(
    settings: BusSettings, shape: TopicShape | None = None, *, wait_s: float
) -> bool:
    """Create the topic unless it exists; return whether it is new.

    Args:
        settings: Settings of a Kafka bus.
        shape: Partitions, replicas and retention of the topic.
        wait_s: How long to wait for a broker that is starting, seconds.

    Raises:
        Failure: No broker answers, it refuses, or the kafka extra is missing.
    """
    from headgate.agent.bus.kafka.topic import ensure_topic
    from headgate.agent.errors import BusUnavailable

    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ensure_topic(settings, shape)
        except BusUnavailable as error:
            if time.monotonic() > deadline:
                raise Failure(one_line(str(error))) from error
            time.sleep(PAUSE_S)
