"""Recorded clusters through the whole pipeline, against what the callers were told."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as f
from rich.console import Console
from tests.pipeline.rigs import recording as rec
from tests.pipeline.rigs.runs import engine_of, folder_of, known_usage, run_of
from tests.pipeline.rigs.small import SMALL

from headgate.agent.wire.checksum import sealed, stripped
from headgate.coordinator import Limit
from headgate.pipeline.batch_jobs import (
    history_of,
    run_bill,
    run_invoices,
    run_periods,
    run_recommend,
    summary_of,
    what_if_of,
)
from headgate.pipeline.invoicing.plans import prices_of
from headgate.pipeline.jobs.bill import bill, differences, unhealed
from headgate.pipeline.report.html_report import print_summary, write_page
from headgate.pipeline.settings import PipelineSettings, WrongSettings
from headgate.pipeline.stream.jars import connector_jars
from headgate.pipeline.stream.metrics import PipelineMetrics
from headgate.pipeline.stream.progress import Progress
from headgate.pipeline.stream.run import StreamRun
from headgate.pipeline.stream.session import SUBMIT, THREADS, log_option
from headgate.pipeline.tables.filesystem import uri_of
from headgate.pipeline.tables.jvm import java
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headgate.pipeline.stream.engine import StreamEngine
    from headgate.simulation.world.record import SimulationRun

BATCHES = 4

PATIENCE_S = 60.0
"""For a batch, on a busy machine."""

SUBMIT_S = 400.0
"""For all that spark-submit is told to do: half a minute on an idle machine."""

CRASHED_UNTIL_S = 25.0
"""When the killed agent's second life begins, as the recording says."""

TABLES = ("usage_10s", "usage_1m", "violations", "unfairness", "starved", "noisy")

GARBAGE = (b"", b"\xff\xfe garbage", b"x" * 5000)


@pytest.fixture(scope="module")
def simulated() -> SimulationRun:
    return rec.simulated()


@pytest.fixture(scope="module")
def messages(simulated: SimulationRun) -> list[rec.Message]:
    """20 % of the reports lost, some doubled or late, one clock an hour ahead."""
    found = rec.messages_of(simulated, lost=0.2, doubled=0.05, stale=0.05, skew_s=3600)
    for place, garbage in enumerate(GARBAGE, start=1):
        found.insert(50 * place, rec.Message(found[50 * place].second, garbage))
    # A field that this version doesn't know, as a later version would write it.
    newer = bytes([15 << 3 | 2, 0x82, 0x01]) + b"n" * 130
    found[10] = replace(found[10], value=sealed(stripped(found[10].value) + newer))
    return found


@pytest.fixture(scope="module")
def source(
    messages: list[rec.Message], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    rec.write_files(messages, folder, batches=BATCHES)
    return folder


def settings_for(out: Path, source: Path, **more: object) -> PipelineSettings:
    plain = PipelineSettings(
        out=uri_of(str(out)),
        files=str(source),
        max_files=1,
        lateness_s=10,
        silence_s=8,
        partitions=2,
    )
    return replace(plain, **more)  # type: ignore[arg-type]  # names are checked there


def rows(engine: StreamEngine, name: str) -> list[str]:
    """All rows of a table as text, in order."""
    return sorted(map(str, engine.tables.read(name).collect()))


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> StreamEngine:
    run = run_of(spark, settings_for(tmp_path_factory.mktemp("undisturbed"), source))
    assert run.until_caught_up() is not None
    return run.engine


def by_agent(usage: DataFrame) -> dict[str, tuple[float, float]]:
    sums = usage.groupBy("agent").sum("admitted", "refused").collect()
    return {row["agent"]: (row["sum(admitted)"], row["sum(refused)"]) for row in sums}


def test_totals_equal_what_the_callers_were_told_to_the_unit(
    undisturbed: StreamEngine, simulated: SimulationRun
) -> None:
    truth: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    told = rec.last_told(simulated)
    for place, life in enumerate(simulated.lives):
        published = told[life.agent, life.birth.incarnation]
        refused[life.agent] += round(published.report.rows[0].refused[0])
        # What the callers were told up to the moment of the last report that counts.
        times, units = simulated.admitted[0][published.index]
        own = times <= published.at_s
        if place >= simulated.scenario.agents:
            own &= times >= CRASHED_UNTIL_S
        truth[life.agent] += round(float(units[own].sum()))
    expected = {a: (float(truth[a]), float(refused[a])) for a in truth}
    usage = known_usage(undisturbed)
    assert by_agent(usage) == expected
    assert differences(usage, undisturbed.counters()).count() == 0
    (day,) = bill(usage, undisturbed.tables.read("gaps")).collect()
    assert day["admitted"] == sum(truth.values())


def test_longer_windows_are_those_that_closed_and_hold_the_same(
    undisturbed: StreamEngine,
) -> None:
    minutes = undisturbed.tables.read("usage_1m")
    end_s = max(row["window_start"].timestamp() for row in minutes.collect()) + 60
    closed = undisturbed.tables.read("usage_10s").where(
        f.unix_seconds("window_start") < end_s
    )
    assert by_agent(minutes) == by_agent(closed)


def test_windows_are_those_of_the_callers_within_a_report_interval(
    undisturbed: StreamEngine, simulated: SimulationRun
) -> None:
    truth: Counter[int] = Counter()
    for times, units in simulated.admitted[0]:
        for window in np.unique(np.floor(times / 10)).astype(int).tolist():
            inside = np.floor(times / 10) == window
            truth[window] += round(float(units[inside].sum()))
    usage = known_usage(undisturbed).where("not displaced")
    found = {
        (int(row["window_start"].timestamp()) - rec.EPOCH_S) // 10: row["sum(admitted)"]
        for row in usage.groupBy("window_start").sum("admitted").collect()
    }
    for window, total in truth.items():
        # 200/s: three seconds of it, for reports that were lost at an edge.
        assert abs(found.get(window, 0.0) - total) <= 600, (window, total, found)


def test_a_clock_an_hour_ahead_moves_no_window(undisturbed: StreamEngine) -> None:
    usage = known_usage(undisturbed)
    newest = max(row["window_start"] for row in usage.collect()).timestamp()
    assert newest < rec.EPOCH_S + 120


def test_what_is_no_report_is_kept_with_offset_and_reason(
    undisturbed: StreamEngine, messages: list[rec.Message]
) -> None:
    dead = undisturbed.tables.read("dead_letters").collect()
    found = {row["offset"]: bytes(row["payload"]) for row in dead}
    expected = {
        offset: message.value[:1024]
        for offset, message in enumerate(messages)
        if message.value in GARBAGE
    }
    assert found == expected
    assert all(row["reason"] for row in dead)


def test_a_killed_life_is_listed_as_a_gap(undisturbed: StreamEngine) -> None:
    listed = unhealed(undisturbed.tables.read("gaps")).collect()
    assert "agent-0" in {row["agent"] for row in listed}
    assert {row["healed"] for row in listed} == {False}


class Crash(RuntimeError):
    """The driver dies here."""


@contextmanager
def dying_at(write: int) -> Generator[None]:
    """Let the driver die before or after the n-th write of a table; 0: never."""
    left, append = write, TableStore.append

    def tick() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    def fragile(self: TableStore, name: str, frame: DataFrame, batch: int) -> None:
        tick()
        append(self, name, frame, batch)
        tick()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableStore, "append", fragile)
        yield


def test_a_driver_that_dies_anywhere_in_a_batch_changes_no_row(
    spark: SparkSession, source: Path, tmp_path: Path, undisturbed: StreamEngine
) -> None:
    settings = settings_for(tmp_path, source)
    frames = [
        spark.read.parquet(str(path)) for path in sorted(source.glob("*.parquet"))
    ]
    deaths = 0
    for number, frame in enumerate(frames):
        for write in (1, 2, 5, 6, 0) if number == 2 else (0,):
            with dying_at(write):
                try:
                    engine_of(spark, settings).batch(frame, number)
                except Crash:
                    deaths += 1
        if number == 1:  # provisional rows, which the next batch replaces
            engine_of(spark, settings).close_windows()
    assert deaths == 4
    engine = engine_of(spark, settings)
    engine.close_windows()
    for name in ("usage_10s", "usage_1m"):
        engine.tables.compact(name, date(2000, 1, 1))
    for name in (*TABLES, "usage_open", "gaps", "dead_letters"):
        assert rows(engine, name) == rows(undisturbed, name), name


class Overtaken(StreamRun):
    """The next batch begins while `stop` is at work, just before it tells Spark."""

    def __init__(self, spark: SparkSession, settings: PipelineSettings) -> None:
        self.working, self.overtaking = threading.Event(), threading.Event()
        super().__init__(spark, settings, history_of(spark, settings))

    def _batch(self, frame: DataFrame, number: int) -> None:
        if number:
            self.overtaking.set()
        super()._batch(frame, number)
        self.working.set()

    def _start(self, *, once: bool) -> StreamingQuery:
        query = super()._start(once=once)
        end = query.stop

        def late() -> None:
            assert self.overtaking.wait(PATIENCE_S)
            end()

        query.stop = late  # type: ignore[method-assign]
        return query


@pytest.mark.thorough
def test_a_stop_that_the_next_batch_overtakes_ends_the_stream(
    spark: SparkSession, source: Path, tmp_path: Path, undisturbed: StreamEngine
) -> None:
    settings = settings_for(tmp_path, source)
    run = Overtaken(spark, settings)
    at_work = threading.Thread(target=run.forever, daemon=True)
    at_work.start()
    assert run.working.wait(PATIENCE_S)
    run.stop()
    at_work.join(PATIENCE_S)
    assert not at_work.is_alive()
    last = run_of(spark, settings)
    last.until_caught_up()
    for name in ("usage_10s", "usage_open"):
        assert rows(last.engine, name) == rows(undisturbed, name), name


def test_a_run_tells_how_far_its_output_is_before_it_completes_a_batch(
    spark: SparkSession, source: Path, tmp_path: Path, undisturbed: StreamEngine
) -> None:
    def heard_until_s(out: Path) -> float | None:
        metrics = PipelineMetrics()
        progress = Progress(io.StringIO(), metrics)
        progress.watch(run_of(spark, settings_for(out, source)))
        name = "headgate_pipeline_heard_until_seconds"
        return metrics.registry.get_sample_value(name)

    newest = undisturbed.newest()
    assert newest is not None
    assert heard_until_s(folder_of(undisturbed.out)) == newest.reference_us / 1e6 > 0
    unheard = heard_until_s(tmp_path)
    assert unheard is not None
    assert isnan(unheard)


def test_the_notebook_runs_on_real_tables(
    undisturbed: StreamEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(__file__).resolve().parents[2] / "examples" / "pipeline.ipynb"
    cells = json.loads(path.read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    monkeypatch.setenv("HEADGATE_TABLES", str(folder_of(undisturbed.out)))
    monkeypatch.setenv("MPLBACKEND", "agg")
    scope: dict[str, object] = {}
    for cell in code:
        exec(compile(cell, path.name, "exec"), scope)  # a notebook is code to run
    assert "curve" in scope


def invoiced_as_billed(
    spark: SparkSession, engine: StreamEngine, source: Path, folder: Path
) -> None:
    """The invoice holds what the bill does; a month that goes on is open."""
    listed = prices_of(
        {
            "plans": [
                {
                    "name": "p", "currency": "EUR",
                    "prices": [{"dimension": "requests", "price": 2}],
                }
            ],
            "default": {"plan": "p", "time_zone": "Asia/Tokyo"},
        }
    )  # fmt: skip
    settings = settings_for(folder_of(engine.out), source)
    for _ in range(2):
        said = run_invoices(spark, settings, listed, folder / "invoices")
        assert "1 created, 0 unchanged" in said
    (file,) = (folder / "invoices").rglob("*.json")
    invoice = json.loads(file.read_text())
    assert (invoice["tenant"], invoice["status"]) == ("(group) #1", "open")
    admitted = sum(row["admitted"] for row in engine.tables.read("bill").collect())
    assert float(invoice["total"]) == 2 * admitted > 0
    assert engine.tables.read("invoices").count() == 1
    assert "0 calendar periods" in run_periods(spark, settings)


def test_the_report_of_a_recorded_cluster_is_a_page(
    spark: SparkSession, undisturbed: StreamEngine, source: Path, tmp_path: Path
) -> None:
    said = run_bill(spark, settings_for(folder_of(undisturbed.out), source))
    assert "equal to the agents' own counters" in said
    assert "signatures not verified" in said
    assert run_recommend(spark, settings_for(folder_of(undisturbed.out), source))
    invoiced_as_billed(spark, undisturbed, source, tmp_path)
    summary = summary_of(spark, settings_for(folder_of(undisturbed.out), source), None)
    assert summary.agents == 6
    assert summary.curves
    page = write_page(summary, tmp_path)
    assert page.stat().st_size > 10_000
    assert "Invoice lines (1)" in page.read_text()
    print_summary(summary, Console(file=io.StringIO()))
    settings = settings_for(folder_of(undisturbed.out), source)
    limit = Limit(dimension="requests", rate=100, burst=100)
    effect = what_if_of(spark, settings, group="#1", limit=limit, since_s=30)
    assert len(effect) == 6
    unused = replace(limit, dimension="bytes")
    with pytest.raises(WrongSettings, match="group '#1' used no 'bytes'"):
        what_if_of(spark, settings, group="#1", limit=unused, since_s=30)


MY_POOL = "spark.sql.shuffleExchange.maxThreadThreshold"
"""A setting of the pipeline's that spark-submit is given otherwise."""


def submitted(source: Path, out: Path, *words: str) -> subprocess.Popen[str]:
    """Start the stream by spark-submit; the process is Java's."""
    submit = Path(sys.executable).with_name("spark-submit")
    java = "spark.driver.extraJavaOptions"
    options = SMALL | {
        java: f"{SMALL[java]} {log_option()}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (out.parent / "events").as_uri(),
        "spark.driver.bindAddress": "127.0.0.1",
        # Executors fetch the jars from here: it must be the address that is bound.
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        MY_POOL: "7",
    }
    command = [str(submit), "--master", "local[1]", "--driver-memory", "512m"]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--jars", ",".join(map(str, connector_jars(kafka=False)))]
    command += [str(SUBMIT), "run", *words]
    return subprocess.Popen(
        [*command, "--files", str(source), "--out", str(out)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> list[str]:
    """Wait for the end; return its lines.  Nothing of Spark's log may be among them."""
    # spark-submit puts both streams of the driver on its own stdout.
    lines, errors = process.communicate(timeout=SUBMIT_S)
    assert not re.search("INFO|WARN |ERROR", lines + errors), lines + errors
    first, *rest = lines.splitlines()
    assert first == "starting Spark …", lines + errors
    return rest


def sigterm_in_the_first_batch(source: Path, out: Path) -> list[str]:
    """End a stream whose first step stands; return its lines."""
    with submitted(source, out, "usage") as java:
        try:
            end_s = time.monotonic() + SUBMIT_S
            while not (out / f"steps/_delta_log/{0:020}.json").exists():
                assert java.poll() is None, java.communicate()
                assert time.monotonic() < end_s, "no step"
                time.sleep(0.01)
            java.send_signal(signal.SIGTERM)
            lines = ended(java)
        finally:
            java.kill()
    assert java.returncode == 128 + signal.SIGTERM
    return lines


@pytest.mark.timeout(900)
def test_spark_submit_ends_in_order_and_goes_on_in_the_session_that_it_was_given(
    source: Path, simulated: SimulationRun, tmp_path: Path
) -> None:
    out, files, events = (tmp_path / name for name in ("out", "files", "events"))
    files.mkdir()
    events.mkdir()
    early, late = sorted(source.iterdir())[:2], sorted(source.iterdir())[2:]
    for path in early:
        shutil.copy2(path, files)
    *_, stopped = sigterm_in_the_first_batch(files, out)
    # The batch is finished, or left out by a machine that needs too long for it.
    assert stopped in {
        "stopped after batch 0; the next run continues from there",
        "stopped before the first batch; the next run continues from there",
    }
    for path in late:
        shutil.copy2(path, files)
    with submitted(files, out, "usage", "bill", "--once") as java:
        try:
            heading, *_, batch, last = ended(java)
        finally:
            java.kill()
    assert java.returncode == 0
    assert heading.split()[0] == "batch"
    assert batch.split()[0] == "1"
    assert last.startswith("bill: ")
    assert "equal to the agents' own counters" in last
    log = "".join(p.read_text() for p in events.glob("**/*") if p.is_file())
    assert '"spark.master":"local[1]"' in log
    for name, most in (THREADS | {MY_POOL: "7"}).items():
        assert f'"{name}":"{most}"' in log
    used: Counter[str] = Counter()
    for name in ("usage_10s", "usage_open"):
        table = DeltaTable(str(out / "tables" / name)).to_pyarrow_table()
        for row in table.select(["agent", "attempted"]).to_pylist():
            used[row["agent"]] += round(row["attempted"])
    truth: Counter[str] = Counter()
    for life, published in rec.last_told(simulated).items():
        told = published.report.rows[0]
        truth[life[0]] += round(told.refused[0] + told.admitted[0])
    assert used == truth


POOLS = {
    "spark.sql.broadcastExchange.maxThreadThreshold": "broadcast-exchange-",
    "spark.sql.shuffleExchange.maxThreadThreshold": "shuffle-exchange-",
    "spark.sql.resultQueryStage.maxThreadThreshold": "ResultQueryStageExecution-",
}
"""Settings, and what Spark calls the threads."""


def java_threads(spark: SparkSession) -> list[str]:
    """Return the names of Java's threads."""
    # Typed as Any: nothing is known of what Java returns.
    found: Any = java(spark, "java.lang.Thread.getAllStackTraces")
    return [str(thread.getName()) for thread in found().keySet()]


def test_queries_that_have_ended_leave_few_threads(spark: SparkSession) -> None:
    adaptive = spark.newSession()
    adaptive.conf.set("spark.sql.adaptive.enabled", "true")
    most = max(map(int, THREADS.values()))
    for number in range(most + 4):
        rests = (f.col("id") % 2).alias("id")
        few = adaptive.range(number, number + 3).groupBy(rests).count()
        adaptive.range(9).join(few.hint("broadcast"), "id").collect()
    running = java_threads(spark)
    for setting, name in POOLS.items():
        assert spark.conf.get(setting) == THREADS[setting]
        count = sum(thread.startswith(name) for thread in running)
        assert 0 < count <= int(THREADS[setting]), name
