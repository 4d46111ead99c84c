"""What a long history costs the pipeline: memory, days of tables, agents long gone.

``PYTHONPATH=. python bench/pipeline/history.py memory|days|departed``:

- ``memory``: 500 batches in one run (``--batches``), groups contended in each tenth;
  the JVM's heap after a collection, the memory of all processes and the time of a
  batch, at the start and at the end;
- ``days``: the same batches on outputs whose tables hold 1, 10 and 60 days of usage
  (``--minutes``: a row of each agent and group every so many minutes);
- ``departed``: the same batches after 100,000 agents said goodbye a year ago.

Each batch holds ten seconds of 20 agents × 50 groups, a report a second.  Batches of
all outputs of a comparison take turns, so that other work on the machine slows all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench.pipeline.machine import resident
from pyspark.sql import functions as f

from headgate.agent.wire.codec import encode
from headgate.coordinator.messages.report import Report, Rows
from headgate.pipeline.batch_jobs import history_of
from headgate.pipeline.settings import PipelineSettings
from headgate.pipeline.stream.engine import StreamEngine
from headgate.pipeline.stream.run import StreamRun
from headgate.pipeline.stream.session import local_session
from headgate.pipeline.stream.source import MESSAGES
from headgate.pipeline.tables.filesystem import uri_of
from headgate.pipeline.tables.schema import COUNTERS, USAGE
from headgate.pipeline.tables.store import dated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

EPOCH_S = 1_760_000_400
AGENTS, GROUPS, PER_BATCH_S = 20, 50, 10
MINUTES_A_DAY = 1_440

CONTENDED = 10
"""Every so many batches of `memory` have tables of unfairness to write."""

WARM = 6
"""First batches, which compile code and are left out."""


class Cluster:
    """Agents whose counters grow by themselves.

    Attributes:
        refused: ``float64[agents, groups]`` units refused so far.
        admitted: The same of admitted units.
    """

    def __init__(
        self, agents: int = AGENTS, groups: int = GROUPS, contended: int = 1
    ) -> None:
        """Begin at zero; units are refused in each `contended`-th batch."""
        self._contended = contended
        self._random = np.random.default_rng(1)
        self._agents = agents
        self._ids = np.arange(1, groups + 1)
        self.refused = np.zeros((agents, groups))
        self.admitted = np.zeros_like(self.refused)

    def batch(self, number: int) -> pa.Table:
        """Return the messages of one batch, columns of Spark's Kafka source."""
        rows = []
        for tick in range(PER_BATCH_S):
            for agent in range(self._agents):
                second = number * PER_BATCH_S + tick
                at_s = EPOCH_S + second + agent / self._agents
                rows.append((at_s, self._report(agent, second, at_s)))
        size = len(rows)
        times = [round(at_s * 1e6) for at_s, _ in rows]
        return pa.table(
            {
                "key": pa.array([b""] * size, pa.binary()),
                "value": pa.array([value for _, value in rows], pa.binary()),
                "topic": ["usage"] * size,
                "partition": pa.array([0] * size, pa.int32()),
                "offset": pa.array(range(number * size, (number + 1) * size)),
                "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
                "timestampType": pa.array([1] * size, pa.int32()),
            }
        )

    def _report(self, agent: int, second: int, at_s: float) -> bytes:
        size = len(self._ids)
        if second // PER_BATCH_S % self._contended == 0:
            self.refused[agent] += self._random.integers(0, 20, size)
        self.admitted[agent] += self._random.integers(1, 100, size)
        rows = Rows(
            dimension="requests",
            group_ids=self._ids,
            refused=self.refused[agent].copy(),
            admitted=self.admitted[agent].copy(),
            demand=np.full(size, 50.0),
            held=np.full(size, 3.0),
            cost=np.ones(size),
        )
        report = Report(
            cluster="bench", agent=f"agent-{agent}", incarnation=1,
            sequence=second + 1, sent_at_s=at_s, revision=1, rows=(rows,),
        )  # fmt: skip
        return encode(report)


def recorded(folder: Path, batches: int, contended: int = 1) -> list[Path]:
    """Write a file of messages for each batch."""
    folder.mkdir(parents=True)
    cluster, paths = Cluster(contended=contended), []
    for number in range(batches):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(cluster.batch(number), path)
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))  # Spark goes by age
        paths.append(path)
    return paths


def settings_for(out: Path, files: Path) -> PipelineSettings:
    """Return the settings of one output."""
    return PipelineSettings(
        out=uri_of(str(out)), files=str(files), max_files=1, lateness_s=10.0
    )


@dataclass(slots=True)
class Output:
    """An output to compare, and how long its batches took."""

    name: str
    engine: StreamEngine
    took_s: list[float] = field(default_factory=list)


def compared(spark: SparkSession, outputs: list[Output], paths: list[Path]) -> None:
    """Run the same batches on all outputs, in turns, and print their times."""
    for number, path in enumerate(paths):
        frame = spark.read.schema(MESSAGES).parquet(str(path))
        for output in outputs:
            start = time.perf_counter()
            output.engine.batch(frame, number)
            output.took_s.append(time.perf_counter() - start)
        last = ", ".join(f"{output.took_s[-1]:.2f}" for output in outputs)
        print(f"  batch {number}: {last} s", flush=True)
    print(
        f"load {os.getloadavg()[0]:.1f}; seconds of a batch, {len(paths) - WARM} each"
    )
    for output in outputs:
        took = sorted(output.took_s[WARM:])
        middle, most = statistics.median(took), took[int(0.9 * len(took))]
        print(f"{output.name:>28}: median {middle:5.2f}, nine of ten below {most:5.2f}")


def usage_of_days(
    spark: SparkSession, days: int, every: int
) -> Iterator[tuple[str, DataFrame]]:
    """Yield table and rows of the `days` before the first batch, a day a time."""
    for back in range(days, 0, -1):
        begin_s = (EPOCH_S // 86_400 - back) * 86_400
        minutes = spark.range(0, MINUTES_A_DAY // every * AGENTS * GROUPS, 1, 2)
        agent, group = f.col("id") % AGENTS, (f.col("id") / AGENTS) % GROUPS
        minute = (f.col("id") / (AGENTS * GROUPS)).cast("long") * every
        rows = minutes.select(
            f.timestamp_seconds(f.lit(begin_s) + 60 * minute).alias("window_start"),
            (group.cast("long") + 1).alias("group_id"),
            f.concat(f.lit("#"), group.cast("long") + 1).alias("group"),
            f.lit("acme").alias("tenant"),
            f.lit("requests").alias("dimension"),
            f.concat(f.lit("agent-"), agent).alias("agent"),
            f.lit(50.0).alias("attempted"),
            f.lit(45.0).alias("admitted"),
            f.lit(5.0).alias("refused"),
            f.lit(False).alias("displaced"),
            f.lit(1).cast("long").alias("subjects"),
            f.lit(1.0).alias("weight"),
            f.lit(1).cast("long").alias("revision_first"),
            f.lit(1).cast("long").alias("revision_last"),
        )
        rows = rows.select(*(f.col(x.name).cast(x.dataType) for x in USAGE.fields))
        for table in ("usage_10s", "usage_1m"):
            yield table, rows


def add(engine: StreamEngine, table: str, rows: DataFrame) -> None:
    """Add rows to a table as if batches of long ago had written them."""
    writer = dated(rows, table, 0).write.format("delta").mode("append")
    writer.partitionBy("date").save(engine.tables.uri(table))


def days(spark: SparkSession, scratch: Path, batches: int, every: int) -> None:
    """Compare outputs with a short and a long history."""
    paths = recorded(scratch / "files", batches)
    outputs = []
    for count in (1, 10, 60):
        settings = settings_for(scratch / f"days-{count}", scratch / "files")
        engine = StreamEngine(spark, settings, history_of(spark, settings))
        for table, rows in usage_of_days(spark, count, every):
            add(engine, table, rows)
        outputs.append(Output(f"{count} days of history", engine))
    compared(spark, outputs, paths)


def departed(spark: SparkSession, scratch: Path, batches: int) -> None:
    """Compare an output with one that 100,000 agents left a year ago."""
    paths = recorded(scratch / "files", batches)
    outputs = []
    for count in (0, 100_000):
        settings = settings_for(scratch / f"gone-{count}", scratch / "files")
        engine = StreamEngine(spark, settings, history_of(spark, settings))
        lives = spark.range(count).select(
            f.timestamp_seconds(f.lit(EPOCH_S - 365 * 86_400)).alias("heard"),
            f.lit(1).alias("group_id"),
            f.lit("requests").alias("dimension"),
            f.concat(f.lit("gone-"), f.col("id")).alias("agent"),
            f.lit(1).alias("incarnation"),
            f.lit(9).alias("sequence"),
            f.lit(1.0).alias("refused"),
            f.lit(9.0).alias("admitted"),
        )
        kinds = (f.col(x.name).cast(x.dataType) for x in COUNTERS.fields)
        add(engine, "counters", lives.select(*kinds))
        outputs.append(Output(f"{count:,} agents left a year ago", engine))
    compared(spark, outputs, paths)


def memory(spark: SparkSession, scratch: Path, batches: int) -> None:
    """Run many batches in one go, and look at the memory now and then."""
    recorded(scratch / "files", batches, CONTENDED)
    settings = settings_for(scratch / "out", scratch / "files")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    last, took = [time.perf_counter()], []

    def after_collection() -> float:
        """MiB of the heap; Java may leave a collection out that it is asked for."""
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        used: float = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        return used

    def after(summary: object) -> None:
        now = time.perf_counter()
        took.append(now - last[0])
        if len(took) % (batches // 10) == 0:
            heap = min(after_collection() for _ in range(3))
            shown = ", ".join(f"{k} {v:.0f}" for k, v in resident().items())
            recent = statistics.median(took[-(batches // 10) :])
            print(
                f"batch {len(took):4}: heap {heap:4.0f} MiB after a collection; "
                f"resident MiB: {shown}; {recent:.2f} s a batch, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        last[0] = time.perf_counter()

    StreamRun(
        spark, settings, history_of(spark, settings), after=after
    ).until_caught_up()


def main() -> None:
    """Run one of the comparisons in a scratch folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("memory", "days", "departed"))
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--minutes", type=int, default=1)
    options = parser.parse_args()
    chosen = {
        "memory": memory,
        "days": partial(days, every=options.minutes),
        "departed": departed,
    }[options.what]
    batches = options.batches or (500 if options.what == "memory" else 36)
    scratch = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    spark = local_session(cores=2, memory="1g", kafka=False)
    try:
        chosen(spark, scratch, batches)
    finally:
        spark.stop()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main())
