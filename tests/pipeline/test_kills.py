"""kill -9 of the driver again and again, while another process reads all tables.

The topic holds what a made-up cluster sent, with all that can happen to reports; in the
end each table holds row for row what plain Python says that it must.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType
from tests.pipeline.rigs.brokers import Stamped, bus, produce
from tests.pipeline.rigs.driver import (
    BATCH_MESSAGES,
    HISTORY,
    KEEP_S,
    LATENESS_S,
    SILENCE_S,
    settings_of,
)
from tests.pipeline.rigs.generated import generated, write_history
from tests.pipeline.rigs.recording import Message
from tests.pipeline.rigs.runs import run_of
from tests.pipeline.rigs.truth import differing, truth_of
from tools.kafka_broker import Broker

from headgate.agent.bus.kafka.topic import ensure_topic
from headgate.pipeline.batch_jobs import run_bill
from headgate.pipeline.stream.maintenance import day_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pyspark.sql import DataFrame, SparkSession
    from tests.pipeline.rigs.truth import Row

KILLS = int(os.environ.get("HEADGATE_KILLS", "4"))
"""How often the driver is killed: each costs Spark's start and a batch or two, some
eight seconds of a core."""

SEED = int(os.environ.get("HEADGATE_SEED", "5"))
"""Of the recording, and of the moments of the kills."""

PATIENCE_S = 400.0
"""For a driver to start and get to its next batch on a busy machine."""

LATER_S = 2.0
"""A kill is up to so long after the moment that was waited for."""

TOPIC = "generated"

ROOT = Path(__file__).resolve().parents[2]


def planned(out: Path, batch: int) -> bool:
    return (out / "checkpoint" / "offsets" / str(batch)).exists()


def half_written(out: Path, batch: int) -> bool:
    """The step stands, and a table was written just now."""
    step = out / "steps" / "_delta_log" / f"{batch:020}.json"
    if not step.exists():
        return False
    logs = (out / "tables").glob("*/_delta_log/*.json")
    return any(log.stat().st_mtime >= step.stat().st_mtime for log in logs)


def committed(out: Path) -> int:
    """Return how many batches are complete."""
    return len(list((out / "checkpoint" / "commits").glob("[0-9]*")))


def data_files(out: Path) -> int:
    return len(list((out / "tables" / "usage_10s").glob("date=*/*.parquet")))


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
            bufsize=0,
            start_new_session=True,
        )

    def begin(self, word: str = "") -> None:
        """Wait until it has started, and let it work."""
        self._hear("ready")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    def until(self, moment: Callable[[Path, int], bool], batch: int) -> None:
        """Wait for a moment of a batch, or for the end of that batch."""
        end_s = time.monotonic() + PATIENCE_S
        while not moment(self._out, batch) and committed(self._out) <= batch:
            assert self.process.poll() is None, "the driver ended by itself"
            assert time.monotonic() < end_s, f"{moment.__name__} of batch {batch}"
            time.sleep(0.003)

    def until_compacting(self) -> None:
        """Wait for a file that a compaction has begun to write and not committed."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            self._hear("upkeep")
            before = data_files(self._out)
            while not self._says(0.003):
                if data_files(self._out) > before:
                    return
                assert time.monotonic() < end_s, "no compaction"
            self._hear("kept")  # there was nothing to merge yet

    def _says(self, within_s: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], within_s)[0])

    def _hear(self, word: str) -> None:
        """Wait for a word, which must be the next."""
        assert self._says(PATIENCE_S), f"waited for {word!r}"
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n".encode()

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
def reading(out: Path) -> Generator[Callable[[], tuple[int, int]]]:
    """Let a process read all tables; give a function that ends it.

    It returns how often they were read, and how many rows were there at last.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.rigs.reader", str(out)],
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


def kill_again_and_again(out: Path, broker: Broker, random: Random) -> None:
    """Let drivers go on one after the other, each until it is killed."""
    with drivers(out, broker) as following:
        for number in range(KILLS):
            driver = following()
            if number % KILLS == 1:
                driver.begin("upkeep")
                driver.until_compacting()
            else:
                driver.begin()
                driver.until((half_written, planned)[number % 2], committed(out))
                time.sleep(random.uniform(0, LATER_S) if number else 0)
            driver.kill()


def rows(frame: DataFrame) -> list[Row]:
    """Return the rows of a table as the truth has them."""
    columns = [
        f.unix_micros(field.name).alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else f.col(field.name)
        for field in frame.schema.fields
    ]
    found = [row.asDict(recursive=True) for row in frame.select(*columns).collect()]
    for row in found:
        row.pop("topic", None)
        if "payload" in row:
            row["payload"] = bytes(row["payload"])
        if "takers" in row:
            row["takers"] = [(t["agent"], t["admitted"]) for t in row["takers"]]
    return found


def without_reasons(some: list[Row]) -> tuple[list[Row], dict[object, str]]:
    """Return dead letters without their reasons, and the reasons by offset."""
    return (
        [{k: v for k, v in row.items() if k != "reason"} for row in some],
        {row["offset"]: str(row["reason"]) for row in some},
    )


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_killed_drivers_leave_the_truth_to_the_row_and_readers_see_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    sys.stdout.write(f"HEADGATE_SEED={SEED}\n")  # shown when this fails
    out, sent = tmp_path / "out", generated(SEED)
    write_history(tmp_path / HISTORY)
    with Broker(tmp_path / "kafka") as broker, reading(out) as ended:
        ensure_topic(bus(broker, TOPIC), Stamped())
        produce(broker, TOPIC, [Message(each.second, each.value) for each in sent])
        kill_again_and_again(out, broker, Random(SEED))
        settings = settings_of(out, broker.bootstrap, TOPIC)
        run = run_of(spark, settings)
        last = run.until_caught_up()
        assert last is not None
        run.engine.tables.compact("usage_1m", day_of(0))  # a reader is at it
        assert "equal to the agents' own counters" in run_bill(spark, settings)
        rounds, rows_read = ended()
    assert last.offsets == {f"{TOPIC}/0": len(sent)}
    truth = truth_of(
        sent,
        BATCH_MESSAGES,
        lateness_s=LATENESS_S,
        silence_s=SILENCE_S,
        keep_s=KEEP_S,
    )
    found = {name: rows(run.engine.tables.read(name)) for name in (*truth, "losses")}
    assert not found.pop("losses")
    letters, reasons = without_reasons(found["dead_letters"])
    expected, words = without_reasons(truth["dead_letters"])
    found["dead_letters"], truth["dead_letters"] = letters, expected
    assert {at: word for at, word in words.items() if word not in reasons[at]} == {}
    for name, table in truth.items():
        assert table, name
        assert differing(found[name], table) == [], name
    assert rounds > 10
    assert rows_read > 1_000
