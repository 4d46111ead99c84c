"""kill -9 of the driver in the middle of a batch, again and again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.rigs.brokers import produce_recorded
from tests.pipeline.rigs.driver import settings_of
from tests.pipeline.rigs.reader import GROWING
from tests.pipeline.rigs.runs import run_of
from tools.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyspark.sql import SparkSession

    from headgate.pipeline.stream.engine import StreamEngine

KILLS = int(os.environ.get("HEADGATE_KILLS", "6"))
"""How often the driver is killed: each costs Spark's start and a first batch, some
eight seconds of a core."""

PATIENCE_S = 180.0
"""For a driver to start and get to its next batch on a busy machine."""

TABLES = ("usage_10s", "usage_open", *GROWING[1:])

TOPIC = "recorded"

ROOT = Path(__file__).resolve().parents[2]


def planned(out: Path, batch: int) -> bool:
    return (out / "checkpoint" / "offsets" / str(batch)).exists()


def stepped(out: Path, batch: int) -> bool:
    """The step stands, no table has been written."""
    return (out / "steps" / "_delta_log" / f"{batch:020}.json").exists()


def half_written(out: Path, batch: int) -> bool:
    """The step stands, and a table was written just now."""
    if not stepped(out, batch):
        return False
    step = (out / "steps" / "_delta_log" / f"{batch:020}.json").stat().st_mtime
    logs = (out / "tables").glob("*/_delta_log/*.json")
    return any(log.stat().st_mtime >= step for log in logs)


MOMENTS = (planned, stepped, half_written)
"""When the driver is killed, in turns, and then at any time within `LATER_S`."""

LATER_S = 4.0


def committed(out: Path) -> int:
    """Return how many batches are complete."""
    return len(list((out / "checkpoint" / "commits").glob("[0-9]*")))


class Driver:
    """A process that runs the stream once it is told to."""

    def __init__(self, out: Path, broker: Broker, scratch: Path) -> None:
        self._out = out
        # Who is killed leaves its scratch files behind.
        own = {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
        own["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={scratch}"
        command = [sys.executable, "-m", "tests.pipeline.rigs.driver", str(out)]
        self.process = subprocess.Popen(
            [*command, broker.bootstrap, TOPIC],
            cwd=ROOT,
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def begin(self) -> None:
        """Wait until it has started, and let it work."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        assert select.select([stdout], [], [], PATIENCE_S)[0], "no start"
        assert stdout.readline() == b"ready\n"
        stdin.write(b"\n")
        stdin.flush()

    def until(self, moment: Callable[[Path, int], bool], batch: int) -> None:
        """Wait for a moment of a batch, or for the end of that batch."""
        end_s = time.monotonic() + PATIENCE_S
        while not moment(self._out, batch) and committed(self._out) <= batch:
            assert self.process.poll() is None, "the driver ended by itself"
            assert time.monotonic() < end_s, f"{moment.__name__} of batch {batch}"
            time.sleep(0.003)

    def kill(self) -> None:
        """kill -9: Python, JVM, all of it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@contextmanager
def drivers(out: Path, broker: Broker) -> Generator[Callable[[], Driver]]:
    """Give a function that returns the next driver, which has been starting."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        waiting = [Driver(out, broker, scratch)]

        def following() -> Driver:
            waiting.append(Driver(out, broker, scratch))
            return waiting[-2]

        try:
            yield following
        finally:
            for driver in waiting:
                driver.kill()


@contextmanager
def reading(tables: Path) -> Generator[Callable[[], tuple[int, int]]]:
    """Let a process read all tables; give a function that ends it.

    It returns how often they were read, and how many rows were there at last.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.rigs.reader", str(tables)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def end() -> tuple[int, int]:
        told, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, "the reader failed: see above"
        rounds, found = told.split()
        return int(rounds), int(found)

    try:
        yield end
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        produce_recorded(running, TOPIC)
        yield running


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> StreamEngine:
    out = tmp_path_factory.mktemp("undisturbed")
    run = run_of(spark, settings_of(out, broker.bootstrap, TOPIC))
    assert run.until_caught_up() is not None
    assert committed(out) > 4
    return run.engine


def rows(engine: StreamEngine, name: str) -> list[str]:
    return sorted(map(str, engine.tables.read(name).collect()))


@pytest.mark.timeout(1800)
def test_a_driver_killed_in_the_middle_of_batches_changes_no_row(
    spark: SparkSession, broker: Broker, undisturbed: StreamEngine, tmp_path: Path
) -> None:
    out, in_the_middle, random = tmp_path / "killed", 0, Random(5)
    with reading(out / "tables") as ended, drivers(out, broker) as following:
        while in_the_middle < KILLS:
            driver = following()
            driver.begin()
            # Every third driver may finish what its forerunner left.
            batch = committed(out) + (in_the_middle % 3 == 2)
            driver.until(MOMENTS[in_the_middle % len(MOMENTS)], batch)
            if in_the_middle >= len(MOMENTS):
                time.sleep(random.uniform(0, LATER_S))
            driver.kill()
            in_the_middle += committed(out) <= batch
        run = run_of(spark, settings_of(out, broker.bootstrap, TOPIC))
        run.until_caught_up()
        for name in ("usage_10s", "usage_1m"):  # another reader is at it
            run.engine.tables.compact(name, date(2000, 1, 1))
        rounds, rows_read = ended()
    for name in TABLES:
        assert rows(run.engine, name) == rows(undisturbed, name), name
    assert rows(run.engine, "usage_10s")
    assert rounds > 10
    assert rows_read > 0
