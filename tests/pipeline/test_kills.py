"""kill -9 of the driver in the middle of a batch, again and again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.brokers import produce_recorded
from tests.pipeline.driver import settings_of
from tools.kafka_broker import Broker

from headgate.pipeline.stream.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyspark.sql import SparkSession

    from headgate.pipeline.stream.engine import Engine

KILLS = int(os.environ.get("HEADGATE_KILLS", "10"))
"""How often the driver is killed: each costs Spark's start and a first batch, some
eight seconds of a core."""

PATIENCE_S = 180.0
"""For a driver to start and get to its next batch on a busy machine."""

TABLES = ("usage_10s", "usage_1m", "unfairness", "starved", "noisy", "gaps")

TOPIC = "recorded"

ROOT = Path(__file__).resolve().parents[2]


def planned(out: Path, batch: int) -> bool:
    return (out / "checkpoint" / "offsets" / str(batch)).exists()


def stepping(out: Path, batch: int) -> bool:
    return (out / "steps" / str(batch)).exists()


def sealed(out: Path, batch: int) -> bool:
    return (out / "steps" / f"{batch}.json").exists()


def writing(out: Path, batch: int) -> bool:
    """The first table of the batch is being written, where windows close."""
    return any((out / "tables" / "usage_10s").glob(f"**/batch={batch}"))


def half_written(out: Path, batch: int) -> bool:
    return any((out / "tables" / "unfairness").glob(f"date=*/batch={batch}"))


MOMENTS = (planned, stepping, sealed, writing, half_written)
"""When the driver is killed, in turns."""


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
        command = [sys.executable, "-m", "tests.pipeline.driver", str(out)]
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


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        produce_recorded(running, TOPIC)
        yield running


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    out = tmp_path_factory.mktemp("undisturbed")
    run = Run(spark, settings_of(out, broker.bootstrap, TOPIC))
    assert run.until_caught_up() is not None
    assert committed(out) > 4
    return run.engine


def rows(engine: Engine, name: str) -> list[str]:
    return sorted(map(str, engine.tables.read(name).collect()))


@pytest.mark.timeout(900)
def test_a_driver_killed_in_the_middle_of_batches_changes_no_row(
    spark: SparkSession, broker: Broker, undisturbed: Engine, tmp_path: Path
) -> None:
    out, in_the_middle = tmp_path / "killed", 0
    with drivers(out, broker) as following:
        while in_the_middle < KILLS:
            driver = following()
            driver.begin()
            # Every third driver may finish what its forerunner left.
            batch = committed(out) + (in_the_middle % 3 == 2)
            driver.until(MOMENTS[in_the_middle % len(MOMENTS)], batch)
            driver.kill()
            in_the_middle += committed(out) <= batch
    run = Run(spark, settings_of(out, broker.bootstrap, TOPIC))
    run.until_caught_up()
    for name in TABLES:
        assert rows(run.engine, name) == rows(undisturbed, name), name
    assert rows(run.engine, "usage_10s")
