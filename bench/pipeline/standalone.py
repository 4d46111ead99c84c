"""The pipeline on a standalone cluster of two workers, beside a run on this machine.

``PYTHONPATH=. python bench/pipeline/standalone.py``:

1. a real Kafka broker takes the reports of 6 agents × 5 groups, one a second;
2. Spark's master and two workers are started, each worker with one core;
3. spark-submit runs the stream and the bill there, in batches of 50 s;
4. ``headgate pipeline run`` reads the same topic in one process.

All tables of both must hold the same rows, usage must be what the generator counted,
and both workers must have done tasks.  Prints a line a table; exit code 1 if not.
The Java processes compile in one tier, since each lives for a minute or two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pyspark
from bench.pipeline.history import PER_BATCH_S, Cluster
from deltalake import DeltaTable
from kafka import KafkaProducer
from tools.kafka_broker import Broker
from tools.ports import free_port

from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.port import BusSettings
from headgate.agent.follow.snapshot import configuration_to_json
from headgate.coordinator.config.configuration import Configuration, Group, Limit
from headgate.pipeline.stream.jars import connector_jars
from headgate.pipeline.stream.session import SUBMIT, log_option
from headgate.pipeline.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Generator

AGENTS, GROUPS, SECONDS, PER_BATCH = 6, 5, 130, 50
TOPIC = "usage"
WORKERS = 2
START_S = 300.0
"""For a process of Spark's to be there, on a busy machine."""

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A few rows a query: compiling costs more than running."""


class CreateTime(TopicShape):
    """A topic whose messages keep the time that they were given, and stay."""

    def options(self) -> dict[str, str]:
        """Return the options of the topic."""
        kept = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
        return super().options() | kept


def recorded(broker: Broker) -> Cluster:
    """Write all reports to the topic; return who counted them."""
    bus = BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic=TOPIC)
    ensure_topic(bus, CreateTime())
    cluster = Cluster(AGENTS, GROUPS)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(SECONDS // PER_BATCH_S):
        batch = cluster.batch(number)
        for value, when in zip(batch["value"], batch["timestamp"], strict=True):
            when_ms = when.as_py().timestamp() * 1e3
            producer.send(TOPIC, value.as_py(), timestamp_ms=round(when_ms))
    producer.flush(timeout=60)
    producer.close()
    return cluster


def limits(path: Path) -> Path:
    """Write a configuration whose limits are exceeded, so that every job has rows."""
    strict = (Limit(dimension="requests", rate=200, burst=100),)
    groups = (Group(id=n, name=f"g{n}", limits=strict) for n in range(1, GROUPS + 1))
    judged = Configuration(revision=1, groups=tuple(groups))
    path.write_text(json.dumps(configuration_to_json(judged)) + "\n", encoding="utf-8")
    return path


@contextmanager
def process(role: str, *arguments: str, scratch: Path) -> Generator[None]:
    """Run a daemon of Spark's until the end of the block."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    name = f"org.apache.spark.deploy.{role.lower()}.{role}"
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "spark"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LIGHT,
        "PYSPARK_PYTHON": sys.executable,
    }
    with (scratch / f"{role}.log").open("ab") as log:
        running = subprocess.Popen(
            [str(script), name, "--host", "127.0.0.1", *arguments],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            running.terminate()
            running.wait()


@contextmanager
def standalone(scratch: Path) -> Generator[str]:
    """Run a master and its workers; give the master's address."""
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        where = ("--port", str(port), "--webui-port", str(page))
        stack.enter_context(process("Master", *where, scratch=scratch))
        for number in range(WORKERS):
            size = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
            work = ("--work-dir", str(scratch / f"work-{number}"))
            worker = process("Worker", *size, *work, master, scratch=scratch)
            stack.enter_context(worker)
        _await_workers(f"http://127.0.0.1:{page}/json/")
        yield master


def _await_workers(url: str) -> None:
    """Wait until all workers have joined the master, whose page is at `url`."""
    until = time.monotonic() + START_S
    joined = 0
    while joined < WORKERS:
        if time.monotonic() > until:
            sys.exit(f"{joined} of {WORKERS} workers joined in {START_S:.0f} s")
        time.sleep(0.5)
        try:
            joined = httpx.get(url).json()["aliveworkers"]
        except httpx.HTTPError:
            continue


def submitted(master: str, options: list[str], scratch: Path) -> list[str]:
    """Return the command that runs the pipeline on a cluster."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": LIGHT,
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "2",
        **INTERPRETED,
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (scratch / "events").as_uri(),
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    command += ["--driver-java-options", f"{log_option()} {LIGHT}"]
    command += ["--jars", ",".join(map(str, connector_jars()))]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(SUBMIT), *options]


def here(options: list[str]) -> list[str]:
    """Return the command that runs the pipeline in one process."""
    command = str(Path(sys.executable).with_name("headgate"))
    more = {"spark.driver.extraJavaOptions": LIGHT, **INTERPRETED}
    settings = [f"--spark-option={name}={value}" for name, value in more.items()]
    return [command, "pipeline", *options, *settings]


def run(name: str, command: list[str]) -> None:
    """Run a command to its end, or end with what it said."""
    start = time.perf_counter()
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{name} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    said = done.stdout.strip().splitlines()[-1]
    load = os.getloadavg()[0]
    print(f"{name}: {time.perf_counter() - start:.0f} s, load {load:.1f}; {said}")


def rows_of(out: Path, table: str) -> Counter[str]:
    """Return the rows of a table as JSON, and how often each is there."""
    uri = out / "tables" / table
    if not (uri / "_delta_log").exists():
        return Counter()
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


def tasks(scratch: Path) -> Counter[str]:
    """Return how many tasks each executor ended well."""
    found = Counter[str]()
    for path in (scratch / "events").rglob("*"):
        if path.name.startswith("events_"):
            for line in path.read_text(encoding="utf-8").splitlines():
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd":
                    found[event["Task Info"]["Executor ID"]] += 1
    return found


def is_true(out: Path, cluster: Cluster) -> bool:
    """Whether usage, open windows too, is what the generator counted."""
    refused, admitted = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for table in ("usage_10s", "usage_open"):
        for text, times in rows_of(out, table).items():
            row = json.loads(text)
            key = row["agent"], row["group_id"]
            refused[key] += row["refused"] * times
            admitted[key] += row["admitted"] * times
    keys = [(f"agent-{a}", g + 1) for a in range(AGENTS) for g in range(GROUPS)]
    wanted = [*cluster.refused.ravel(), *cluster.admitted.ravel()]
    return wanted == [*(refused[key] for key in keys), *(admitted[key] for key in keys)]


def compared(scratch: Path, cluster: Cluster) -> bool:
    """Print how the tables of both runs compare; return whether all is well."""
    well = True
    for table in TABLES:
        one, other = (rows_of(scratch / out, table) for out in ("cluster", "here"))
        if one or other:
            word = "equal" if one == other else "DIFFERENT"
            print(f"  {table:16} {one.total():6} rows, {word}")
            well = well and one == other
    truth = is_true(scratch / "cluster", cluster)
    print(f"  usage is what the generator counted: {'yes' if truth else 'NO'}")
    did = tasks(scratch)
    print(f"  tasks by executor: {dict(sorted(did.items()))}")
    return well and truth and len(did) == WORKERS


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep tables and logs")
    options = parser.parse_args()
    began = datetime.now(UTC)
    print(f"{began:%Y-%m-%d %H:%M} UTC, Spark {pyspark.__version__}", flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    (scratch / "events").mkdir()
    try:
        with Broker(scratch / "kafka") as broker:
            cluster = recorded(broker)
            wanted = ["run", "usage", "violations", "unfairness", "starved", "noisy"]
            wanted += ["bill", "--once", "--bootstrap", broker.bootstrap]
            wanted += ["--topic", TOPIC, "--max-messages", str(PER_BATCH * AGENTS)]
            wanted += ["--lateness-s", "5"]
            wanted += ["--history", str(limits(scratch / "history.jsonl")), "--out"]
            with standalone(scratch) as master:
                out = [*wanted, str(scratch / "cluster")]
                run("two workers", submitted(master, out, scratch))
            run("one process", here([*wanted, str(scratch / "here")]))
        return 0 if compared(scratch, cluster) else 1
    finally:
        if options.keep:
            print(scratch)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
