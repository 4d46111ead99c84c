"""Rows per second of the pipeline, its state, and where the time goes.

``python bench/pipeline/speed.py`` plays a dense cycle to the pipeline: 100 agents ×
5,000 groups, every row of every report changed, one dimension.  A row is agent ×
group × dimension of one report.  Prints, for two cores:

- decode + difference + window from files, and decoding in a Python UDF beside it;
- end to end from a real Kafka broker to tables, every table of the stream on;
- bytes of state per million (group, agent) pairs;
- the cost of a batch at a tenth of the agents and a tenth of the groups;
- memory of the JVM and of the Python workers;
- a profile of the Python half of the step, in this process.

``--seconds`` reports of each agent are made (one a second), ``--batch`` of them for
each batch: a pipeline that falls behind takes larger ones, up to `max_messages`.
``--no-kafka`` leaves the broker out.  Java compiles for many batches, so only the
second half of them counts on the way from Kafka: ``--seconds 200`` makes twenty.
Other work on the machine makes all of it slower: the load is printed, and the first
line is the plain decoding in this process to compare with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.pipeline.machine import Memory, cost, cpu_s, rate  # noqa: E402  # path

from headgate.agent.wire.codec import decode, encode  # noqa: E402  # after the path
from headgate.coordinator.messages.report import Report, Rows  # noqa: E402
from headgate.pipeline.batch_jobs import history_of  # noqa: E402
from headgate.pipeline.counters.incarnation import Times  # noqa: E402
from headgate.pipeline.settings import PipelineSettings  # noqa: E402
from headgate.pipeline.stream.batch_log import BatchLog, BatchSummary  # noqa: E402
from headgate.pipeline.stream.run import StreamRun  # noqa: E402
from headgate.pipeline.stream.session import local_session  # noqa: E402
from headgate.pipeline.stream.source import MESSAGES  # noqa: E402
from headgate.pipeline.stream.step import Rules, routed, step  # noqa: E402
from headgate.pipeline.tables.filesystem import uri_of  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH_S = 1_760_000_400
WINDOW_US = 10_000_000
UDF_REPORTS = 40


@dataclass(frozen=True)
class Shape:
    """Size of a recording."""

    agents: int
    groups: int
    seconds: int
    batch_s: int = 10

    @property
    def per_batch(self) -> int:
        """Reports of a batch."""
        return self.agents * self.batch_s


def payloads(shape: Shape) -> list[tuple[float, bytes]]:
    """Return (second, report) of all agents in order of time."""
    random = np.random.default_rng(1)
    ids = np.arange(1, shape.groups + 1)
    refused = np.zeros((shape.agents, shape.groups))
    admitted = np.zeros_like(refused)
    found = []
    for second in range(shape.seconds):
        for agent in range(shape.agents):
            refused[agent] += random.integers(0, 20, shape.groups)
            admitted[agent] += random.integers(1, 100, shape.groups)
            at_s = EPOCH_S + second + agent / shape.agents
            rows = Rows(
                dimension="requests",
                group_ids=ids,
                refused=refused[agent].copy(),
                admitted=admitted[agent].copy(),
                demand=np.full(shape.groups, 50.0),
                held=np.full(shape.groups, 3.0),
                cost=np.ones(len(ids)),
            )
            report = Report(
                cluster="bench",
                agent=f"agent-{agent}",
                incarnation=1,
                sequence=second + 1,
                sent_at_s=at_s,
                revision=1,
                rows=(rows,),
            )
            found.append((at_s, encode(report)))
    return found


def write(messages: list[tuple[float, bytes]], folder: Path, per_file: int) -> None:
    """Write messages as files of Spark's Kafka columns, a file a batch."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(messages), per_file)):
        part = messages[start : start + per_file]
        size = len(part)
        table = pa.table(
            {
                "key": pa.array([b""] * size, pa.binary()),
                "value": pa.array([value for _, value in part], pa.binary()),
                "topic": ["usage"] * size,
                "partition": pa.array([0] * size, pa.int32()),
                "offset": pa.array(range(start, start + size), pa.int64()),
                "timestamp": pa.array(
                    [round(s * 1e6) for s, _ in part], pa.timestamp("us", "UTC")
                ),
                "timestampType": pa.array([1] * size, pa.int32()),
            }
        )
        path = folder / f"{number:04d}.parquet"
        pq.write_table(table, path, row_group_size=100, compression="none")
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))


def plain_decoding(messages: list[tuple[float, bytes]], groups: int) -> None:
    """Print how fast the codec alone is in this process."""
    start = time.perf_counter()
    for _, payload in messages[:200]:
        decode(payload)
    took = time.perf_counter() - start
    count = min(200, len(messages))
    size = sum(len(p) for _, p in messages) / len(messages) / groups
    print(f"plain decoding, one core           {rate(count * groups, took)}", end="")
    print(f"   {size:.1f} bytes a row")


def from_files(
    spark: SparkSession, source: Path, out: Path, batch_s: int
) -> list[tuple[float, float]]:
    """Time the step alone; return seconds and CPU seconds of each batch."""
    steps, took = BatchLog(spark, uri_of(str(out / "steps"))), []
    summary = BatchSummary(window_us=WINDOW_US)
    for number, path in enumerate(sorted(source.glob("*.parquet"))):
        frame = spark.read.schema(MESSAGES).parquet(str(path))
        closed_s = EPOCH_S + batch_s * (number - 1)
        times = Times(
            window_us=WINDOW_US,
            floor_us=summary.floor_us,
            watermark_us=closed_s * 1_000_000,
            silence_us=1 << 60,
            keep_us=1 << 60,
        )
        start, before = time.perf_counter(), cpu_s()
        summary = replace(summary, batch=number)
        rows = step(routed(frame, keyed=False), steps.read("life"), Rules(times=times))
        steps.write(summary, rows)
        took.append((time.perf_counter() - start, cpu_s() - before))
        summary = replace(summary, watermark_us=times.watermark_us)
    return took


def state_bytes(spark: SparkSession, out: Path) -> float:
    """Return bytes of the newest step's state."""
    files = spark.read.format("delta").load(str(out / "steps"))
    names = files.where("kind = 'life'").inputFiles()
    return sum(Path(name.removeprefix("file:")).stat().st_size for name in names)


def python_udf(spark: SparkSession, source: Path, groups: int) -> float:
    """Time the obvious way, a UDF that returns rows, on a few reports."""
    from pyspark.sql import functions as f

    row = "array<struct<agent:string,sequence:long,group_id:long,refused:double,"
    row += "admitted:double>>"

    @f.udf(row)
    def explode(payload: bytes) -> list[tuple[str, int, int, float, float]]:
        report = decode(bytes(payload))
        return [
            (report.agent, report.sequence, int(g), float(r), float(a))
            for rows in report.rows
            for g, r, a in zip(rows.group_ids, rows.refused, rows.admitted, strict=True)
        ]

    frame = spark.read.schema(MESSAGES).parquet(str(source)).limit(UDF_REPORTS)
    frame = frame.repartition(2).cache()
    frame.count()
    start = time.perf_counter()
    frame.select(f.inline(explode("value"))).agg(f.sum("admitted")).collect()
    return time.perf_counter() - start


def end_to_end(
    spark: SparkSession, settings: PipelineSettings
) -> list[tuple[int, float, float]]:
    """Run the whole stream; return rows, seconds and CPU seconds of each batch."""
    last, found = [(time.perf_counter(), cpu_s())], []

    def after(summary: BatchSummary) -> None:
        now, cpu = time.perf_counter(), cpu_s()
        found.append((summary.rows, now - last[0][0], cpu - last[0][1]))
        last[0] = (now, cpu)

    history = history_of(spark, settings)
    StreamRun(spark, settings, history, after=after).until_caught_up()
    return [entry for entry in found if entry[0]]


def profile(source: Path) -> None:
    """Say where the Python half of a step spends its time."""
    import cProfile
    import pstats

    from headgate.pipeline.stream.step import _Step

    table = pq.read_table(sorted(source.glob("*.parquet"))[0]).slice(0, 400)
    agents = [decode(v.as_py()).agent for v in table.column("value")]
    batch = pa.table(
        {
            "kind": ["message"] * len(table),
            "agent": agents,
            "topic": table.column("topic"),
            "partition": table.column("partition"),
            "offset": table.column("offset"),
            "broker_us": table.column("timestamp").cast(pa.int64()),
            "by_broker": [True] * len(table),
            "payload": table.column("value"),
        }
    )
    times = Times(
        window_us=WINDOW_US, floor_us=0, watermark_us=1 << 60, silence_us=1 << 60,
        keep_us=1 << 60,
    )  # fmt: skip
    profiler = cProfile.Profile()
    profiler.enable()
    rows = sum(b.num_rows for b in _Step(Rules(times=times))(batch.to_batches()))
    profiler.disable()
    stats = pstats.Stats(profiler)
    total = stats.total_tt  # type: ignore[attr-defined]  # not in the stub
    print(f"\nprofile: 400 reports in {total:.2f} s of one core, {rows:,} rows out")
    wanted = {
        "decode": "decode", "absorb": "difference + windows", "pack": "state to bytes",
        "conclude": "closing windows", "packed_groups": "usage to bytes",
        "rest": "Arrow batches",
        "_sort_out": "messages from Arrow",
    }  # fmt: skip
    for (file, _, name), (_, _, _, cumulative, _) in stats.stats.items():  # type: ignore[attr-defined]  # not in the stub
        if name in wanted and "headgate" in file and "counters.py" not in file:
            print(f"  {wanted[name]:24} {cumulative / total:6.1%}")


def main() -> None:
    """Run everything in a scratch folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=50)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    if options.batch < 1 or options.seconds % options.batch:
        parser.error("--seconds must be a multiple of --batch")
    if options.seconds < 2 * options.batch:
        parser.error("--seconds must cover at least two batches")
    scratch = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    spark = local_session(cores=2, memory="2g", kafka=not options.no_kafka)
    memory = Memory()
    try:
        dense = Shape(100, 5_000, options.seconds, options.batch)
        measure(spark, scratch, dense, kafka=not options.no_kafka)
        print(
            f"memory: JVM {memory.jvm:.0f} MiB, Python workers {memory.workers:.0f} MiB"
        )
    finally:
        spark.stop()
        shutil.rmtree(scratch)


def measure(spark: SparkSession, scratch: Path, dense: Shape, *, kafka: bool) -> None:
    """Print all figures."""
    messages = payloads(dense)
    source = scratch / "dense"
    write(messages, source, dense.per_batch)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    plain_decoding(messages, dense.groups)
    took = from_files(spark, source, scratch / "step", dense.batch_s)[1:]
    best, cpu = sorted(took)[len(took) // 2]
    batch_rows = dense.per_batch * dense.groups
    print(
        f"decode + difference + window       {rate(batch_rows, best)}   (files)", end=""
    )
    print(f"   {cost(cpu, batch_rows)}")
    slow = python_udf(spark, source, dense.groups)
    print(
        f"Python UDF, decode + explode only  {rate(UDF_REPORTS * dense.groups, slow)}"
    )
    pairs = dense.agents * dense.groups
    size = state_bytes(spark, scratch / "step") / pairs
    print(f"state: {size:.1f} MB per million pairs")
    for shape in (Shape(10, 5_000, 30), Shape(100, 500, 30)):
        folder = scratch / f"{shape.agents}x{shape.groups}"
        write(payloads(shape), folder, shape.per_batch)
        out = scratch / f"s-{folder.name}"
        wall, used = min(from_files(spark, folder, out, shape.batch_s)[1:])
        size_text = f"{shape.agents:4} agents x {shape.groups:5} groups"
        print(f"batch of {size_text}: {wall:5.2f} s, {used:5.2f} core-s")
    print(f"the batches above: {best:5.2f} s, {cpu:5.2f} core-s")
    if kafka:
        from_kafka(spark, messages, dense, scratch)
    profile(source)


def from_kafka(
    spark: SparkSession,
    messages: list[tuple[float, bytes]],
    shape: Shape,
    scratch: Path,
) -> None:
    """Measure the whole way from a broker to tables."""
    from kafka import KafkaProducer
    from tools.kafka_broker import Broker

    from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
    from headgate.agent.bus.port import BusSettings

    class Kept(TopicShape):
        def options(self) -> dict[str, str]:
            kept = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
            return super().options() | kept

    with Broker(scratch / "kafka") as broker:
        ensure_topic(
            BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic="b"), Kept()
        )
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            max_request_size=8 << 20,
        )
        for second, payload in messages:
            producer.send("b", payload, timestamp_ms=round(second * 1e3))
        producer.flush()
        producer.close()
        settings = PipelineSettings(
            out=uri_of(str(scratch / "tables")),
            bootstrap=broker.bootstrap,
            topic="b",
            max_messages=shape.per_batch,
            lateness_s=1.0,
        )
        for jobs in (("usage",), settings.jobs):
            one = replace(
                settings, jobs=jobs, out=uri_of(str(scratch / f"out-{len(jobs)}"))
            )
            batches = end_to_end(spark, one)
            print("  ", ", ".join(f"{wall:.1f}" for _, wall, _ in batches), "s a batch")
            warm = batches[len(batches) // 2 :]
            rows = sum(batch[0] for batch in warm)
            wall, cpu = sum(b[1] for b in warm), sum(b[2] for b in warm)
            print(
                f"Kafka to tables, {len(jobs)} job(s): {rate(rows, wall)}, "
                f"{cost(cpu, rows)}"
            )


if __name__ == "__main__":
    main()
