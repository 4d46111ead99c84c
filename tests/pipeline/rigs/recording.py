"""Reports of simulated clusters, made into messages by the real codec, and the truth.

The coordinators are the real ones; the simulation keeps apart what the callers were
answered, and that is what the tables are compared with.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.agent.wire.codec import encode
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import controller_of
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headgate.simulation.world.record import Published, SimulationRun

EPOCH_S = 1_760_000_400
"""Where simulated time begins; a full minute."""

DOCUMENT: dict[str, object] = {
    "seconds": 100,
    "demand": [{"agents": list(range(6)), "rate": 80.0}],
    "group": {"rate": 200.0},
    "agents": {"count": 6},
    "fault": [{"kind": "crash", "agents": [0], "from": 15, "until": 25}],
}
"""Six agents want 480/s of 200/s; one is killed and returns."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as Spark's Kafka source shows it; `second` is the broker's time."""

    second: float
    value: bytes
    partition: int = 0

    def row(self, offset: int) -> dict[str, object]:
        return {
            "key": b"",
            "value": self.value,
            "topic": "usage",
            "partition": self.partition,
            "offset": offset,
            "timestamp": round(self.second * 1e6),
            "timestampType": 1,
        }


_COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
}

SCHEMA = pa.schema(_COLUMNS)


@cache
def simulated() -> SimulationRun:
    """Run the cluster; a few seconds, once."""
    scenario = parse_scenario(DOCUMENT, name="recorded")
    return SimulationEngine(
        scenario, seed=1, strategy="headgate", make_controller=controller_of("headgate")
    ).run()


def last_told(run: SimulationRun) -> dict[tuple[str, int], Published]:
    """Return the last report of each life that has rows."""
    return {
        (p.report.agent, p.report.incarnation): p
        for p in run.published
        if p.report.rows and len(p.report.rows[0].group_ids)
    }


def messages_of(
    run: SimulationRun, *, lost: float, doubled: float, stale: float, skew_s: float
) -> list[Message]:
    """Return what a bad network makes of a run's reports.

    Of each life the last report and the last that has rows always arrive: what a
    lost tail costs is another question.  The clock of agent 1 is `skew_s` ahead.
    """
    random = Random(7)
    last = {(p.report.agent, p.report.incarnation): p for p in run.published}
    told = last_told(run)
    names = sorted({p.report.agent for p in run.published})
    messages: list[Message] = []
    for published in run.published:
        report = published.report
        life = report.agent, report.incarnation
        final = published in (last[life], told[life])
        if not final and random.random() < lost:
            continue
        wrong_s = skew_s if report.agent == names[1] else 0.0
        sent_s = EPOCH_S + published.at_s + wrong_s
        value = encode(replace(report, sent_at_s=sent_s))
        arrived_s = EPOCH_S + published.at_s + random.uniform(0.001, 0.03)
        messages.append(Message(arrived_s, value))
        if random.random() < doubled:
            messages.append(Message(arrived_s + random.uniform(0, 2), value))
        if random.random() < stale:
            messages.append(Message(arrived_s + random.uniform(2, 9), value))
    return sorted(messages, key=lambda message: message.second)


def write_files(
    messages: Sequence[Message], folder: Path, *, batches: int
) -> list[Path]:
    """Write messages as files, each of which makes a batch."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(messages) // batches)
    paths: list[Path] = []
    for number in range(batches):
        part = range(number * size, min((number + 1) * size, len(messages)))
        rows = [messages[offset].row(offset) for offset in part]
        path = folder / f"{number:04d}.parquet"
        pq.write_table(  # pyright: ignore[reportUnknownMemberType]  # its stub is open
            pa.Table.from_pylist(rows, schema=SCHEMA), path
        )
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))  # Spark goes by age
        paths.append(path)
    return paths
