"""A broker whose disk is full: nobody waits for it, and reports flow again later."""

from __future__ import annotations

import resource
import time
from statistics import median
from typing import TYPE_CHECKING

from tests.integration.bus.rigs import connected, until
from tools.kafka_broker import Broker

from headgate.agent.bus.kafka.topic import ensure_topic
from headgate.agent.bus.port import BusSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_full_disk_blocks_nobody_and_reports_flow_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path / "kafka") as broker:
        settings = BusSettings(kind="kafka", bootstrap=broker.bootstrap)
        ensure_topic(settings)
        sender, reader = connected(settings), connected(settings)
        assert broker.pid is not None
        # No file may grow any more; the broker ends, as it does on a full disk.
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1, 1))
        took_s: list[float] = []

        def lost() -> bool:
            began_s = time.monotonic()
            sender.publish(b"into the void")
            took_s.append(time.monotonic() - began_s)
            sender.receive(0.05)
            return sender.counters["dropped_down"] > 0

        until(lost, "a report to be lost")
        assert median(took_s) < 0.05
        broker.stop(kill=True)
        broker.start()

        def heard() -> bool:
            sender.publish(b"there is room")
            return any(m.payload == b"there is room" for m in reader.receive(0.1))

        until(heard, "reports to flow again")
        sender.close()
        reader.close()
