"""How fast reports are read and written, and how many bytes a row takes.

``python bench/codec.py`` plays a dense cycle, 100 reports of 5,000 rows in one
dimension with every row changed, and one of PIP-82's own size, 5 agents a group.
Prints the median of `ROUNDS`, milliseconds of one core.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from headgate.agent.wire.codec import decode, encode
from headgate.coordinator.messages.report import Report, Rows

REPORTS = 100
"""Agents of a dense cycle: each sends one report."""

ROWS = 5_000
"""Groups that each of them uses: PIP-82's 100,000 groups on 5 of 100 brokers each."""

ROUNDS = 15
"""Enough for a median that a busy neighbour does not disturb."""


def rows(random: np.random.Generator, dimension: str, scale: float) -> Rows:
    """Return what an agent counts in a day; `scale` is the size of a request."""
    admitted = random.integers(0, 1 << 27, ROWS) * scale
    return Rows(
        dimension=dimension,
        group_ids=np.arange(1, ROWS + 1),
        refused=np.floor(admitted * random.random(ROWS)),
        admitted=np.floor(admitted),
        demand=random.lognormal(5, 2, ROWS) * scale,
        held=np.floor(random.normal(20, 40, ROWS) * scale),
        cost=np.ones(len(np.arange(1, ROWS + 1))),
    )


def report(seed: int, dimensions: dict[str, float]) -> Report:
    """Return one agent's report."""
    random = np.random.default_rng(seed)
    columns = tuple(rows(random, name, size) for name, size in dimensions.items())
    return Report(
        cluster="default",
        agent=f"agent-{seed}",
        incarnation=1,
        sequence=1,
        sent_at_s=1e9,
        rows=columns,
    )


def measure(name: str, dimensions: dict[str, float]) -> None:
    """Print one line for reports with these dimensions."""
    reports = [report(seed, dimensions) for seed in range(REPORTS)]
    writing, reading = [], []
    payloads: list[bytes] = []
    for _ in range(ROUNDS):
        started = time.process_time()
        payloads = [encode(one) for one in reports]
        written = time.process_time()
        for payload in payloads:
            decode(payload)
        writing.append(written - started)
        reading.append(time.process_time() - written)
    count = REPORTS * ROWS * len(dimensions)
    size = sum(map(len, payloads)) / count
    encode_ms, decode_ms = median(writing) * 1e3, median(reading) * 1e3
    print(
        f"{name:28} {count:9,} rows  {size:5.2f} bytes a row  "
        f"encode {encode_ms:6.1f} ms  decode {decode_ms:6.1f} ms"
        f"  {sum(map(len, payloads)) / REPORTS / 1e3:6.1f} kB a report"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    measure("messages", {"publish_messages": 1.0})
    measure("messages and bytes", {"publish_messages": 1.0, "publish_bytes": 1_000.0})
