"""The tables take a batch once; compaction loses no row, retiring changes no bill."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as f
from tests.pipeline.rigs.generated import Told, encoded
from tests.pipeline.rigs.runs import engine_of

from headgate.pipeline.counters.rows import STEP_SCHEMA
from headgate.pipeline.jobs.bill import differences
from headgate.pipeline.settings import WINDOW_S, PipelineSettings
from headgate.pipeline.stream.batch_log import BatchLog, BatchSummary
from headgate.pipeline.stream.maintenance import (
    EVERY,
    FINISHED,
    Maintenance,
    settled_until,
    write_bill,
)
from headgate.pipeline.stream.source import MESSAGES
from headgate.pipeline.tables.schema import COUNTERS, LOSSES, PERIODS, USAGE
from headgate.pipeline.tables.store import TableStore, dated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAME = "losses"

START = datetime(2026, 3, 1, 23, 55, tzinfo=UTC)

BATCHES = 6


def losses(spark: SparkSession, batch: int) -> DataFrame:
    """One row a batch; batches are two minutes apart and pass midnight."""
    noticed = START + timedelta(minutes=2 * batch)
    row = (noticed, "usage", 0, batch, 2 * batch + 1, batch + 1)
    return spark.createDataFrame([row], LOSSES)


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> TableStore:
    tables = TableStore(spark, tmp_path.as_uri())
    for batch in range(BATCHES):
        tables.append(NAME, losses(spark, batch), batch)
    return tables


def rows(tables: TableStore) -> list[str]:
    return sorted(map(str, tables.read(NAME).collect()))


def test_a_batch_that_is_written_again_is_there_once(
    spark: SparkSession, store: TableStore
) -> None:
    before = rows(store)
    assert len(before) == BATCHES
    for batch in (0, BATCHES - 1):
        store.append(NAME, losses(spark, batch), batch)
    assert rows(store) == before
    assert store.read(NAME, upto_batch=2).count() == 3


class Stage(Protocol):
    """A tuple of Scala's: the plan, its code, the sizes of its classes."""

    def productElement(self, number: int, /) -> str: ...


class Stages(Protocol):
    def apply(self, number: int, /) -> Stage: ...

    def size(self) -> int: ...


def generated_code(frame: DataFrame) -> list[str]:
    """What Spark compiles to make the rows of `frame`."""
    execution = attrgetter("_jdf")(frame).queryExecution()
    stages: Stages = execution.debug().codegenToSeq()
    return [stages.apply(n).productElement(1) for n in range(stages.size())]


@pytest.fixture
def compiling(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with Spark's compiler, which the other tests do without."""
    wanted = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield spark
    for name, usual in before.items():
        spark.conf.set(name, str(usual))


def test_the_number_of_a_batch_is_no_part_of_the_code_that_spark_generates(
    compiling: SparkSession,
) -> None:
    nothing = (f.lit(None).cast(x.dataType).alias(x.name) for x in LOSSES.fields)
    frame = compiling.range(0, 4, 1, 4).select(*nothing)
    seventh, other = (dated(frame, NAME, batch) for batch in (7, 1_000_000_007))
    code = generated_code(seventh)
    assert code
    assert code == generated_code(other)
    assert [row["batch"] for row in seventh.collect()] == [7] * 4


def test_compaction_changes_no_row_and_takes_no_file_from_a_reader(
    store: TableStore, tmp_path: Path
) -> None:
    before = rows(store)
    planned = store.read(NAME)
    files = planned.inputFiles()
    assert len(files) == BATCHES
    store.compact(NAME, date(2000, 1, 1))
    store.vacuum(NAME)
    assert planned.count() == BATCHES  # of the files that it began with
    assert rows(store) == before
    independent = DeltaTable(str(tmp_path / NAME))
    assert len(independent.file_uris()) == 2  # one a day
    assert independent.to_pyarrow_table().num_rows == BATCHES


def test_tables_are_parted_by_day_and_skip_files_by_microseconds(
    store: TableStore, tmp_path: Path
) -> None:
    table = DeltaTable(str(tmp_path / NAME))
    assert table.metadata().partition_columns == ["date"]
    kinds = {field.name: str(field.type) for field in table.schema().fields}
    assert "timestamp" in kinds["noticed"]
    stored = table.to_pyarrow_table().column("noticed").type
    assert str(stored) == "timestamp[us, tz=UTC]"
    middle_us = round((START + timedelta(minutes=6)).timestamp() * 1e6)
    assert len(store.read(NAME, begin_us=middle_us).inputFiles()) == BATCHES - 3
    assert store.read(NAME, end_us=middle_us).count() == 3


def usage(spark: SparkSession, *days: tuple[int, str, float]) -> DataFrame:
    """Rows of days after the 1st of March, by agent, with units admitted."""
    rows = [
        (
            datetime(2026, 3, 1 + day, 12, tzinfo=UTC), 1, "gold", "acme", "requests",
            agent, admitted, admitted, 0.0, False, 1, 1.0, 1, 1,
        )
        for day, agent, admitted in days
    ]  # fmt: skip
    return spark.createDataFrame(rows, USAGE)


def test_bills_and_their_proof_are_the_same_after_days_were_retired(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, tmp_path.as_uri())
    used = [(0, "a", 0.1), (0, "b", 7.0), (1, "a", 0.2), (5, "a", 0.4), (9, "b", 1.0)]
    store.append("usage_10s", usage(spark, *used), 0)
    write_bill(store, store.read("usage_10s"), None)
    before = sorted(map(str, store.read("bill").collect()))
    settings = PipelineSettings(
        out=tmp_path.as_uri(), files="f", keep_days={"usage_10s": 4}
    )
    upkeep = Maintenance(settings, store, BatchLog(spark, f"{tmp_path.as_uri()}/s"))
    for today in (date(2026, 3, 10), date(2026, 3, 11), date(2026, 3, 11)):
        upkeep.retire("usage_10s", today)
        write_bill(store, store.read("usage_10s"), settled_until(store))
        assert sorted(map(str, store.read("bill").collect())) == before
    assert store.read("usage_10s").count() == 1
    assert settled_until(store) == date(2026, 3, 7)
    counted = spark.createDataFrame(
        [
            (START, 1, "requests", "a", 1, 9, 0.0, 0.7),
            (START, 1, "requests", "b", 1, 9, 0.0, 8.0),
        ],
        COUNTERS,
    )
    columns = ("agent", "group_id", "dimension", "admitted", "refused")
    known = store.read("usage_10s").select(*columns)
    whole = known.unionByName(store.read("retired").select(*columns))
    assert differences(whole, counted).count() == 0
    assert differences(known, counted).count() == 2


def test_a_write_that_retires_is_done_once_though_it_was_cut_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(spark, tmp_path.as_uri())
    store.append("usage_10s", usage(spark, (0, "a", 3.0), (9, "a", 1.0)), 0)
    settings = PipelineSettings(
        out=tmp_path.as_uri(), files="f", keep_days={"usage_10s": 4}
    )
    upkeep = Maintenance(settings, store, BatchLog(spark, f"{tmp_path.as_uri()}/s"))

    def die(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as fragile:
        fragile.setattr(TableStore, "delete_before", die)
        with pytest.raises(InterruptedError):
            upkeep.retire("usage_10s", date(2026, 3, 11))
    assert settled_until(store) == date(2026, 3, 7)
    upkeep.retire("usage_10s", date(2026, 3, 11))
    kept = store.read("usage_10s").agg(f.sum("admitted")).collect()[0][0]
    retired = store.read("retired").agg(f.sum("admitted")).collect()[0][0]
    assert (kept, retired) == (1.0, 3.0)


def test_periods_that_began_before_retired_days_stay_as_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, tmp_path.as_uri())

    def months(used: float) -> DataFrame:
        starts = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4))
        rows = [
            (
                start, start + timedelta(days=30), "month", "UTC", 1, "gold", "acme",
                "requests", 100.0, used, 0.0, used / 100, 0.0,
            )
            for start in starts
        ]  # fmt: skip
        return spark.createDataFrame(rows, PERIODS)

    def used() -> list[float]:
        found = store.read("periods").orderBy("period_start").collect()
        return [row["admitted"] for row in found]

    middle = date(2026, 3, 10)
    store.replace_from("periods", months(7.0), middle)
    assert used() == [7.0]  # the month that lost days was never complete
    store.replace_from("periods", months(8.0), None)
    store.replace_from("periods", months(9.0), middle)
    assert used() == [8.0, 9.0]


@pytest.mark.thorough
def test_days_are_retired_though_each_run_ends_after_one_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, f"{tmp_path.as_uri()}/tables")
    steps = BatchLog(spark, f"{tmp_path.as_uri()}/steps")
    store.append("usage_10s", usage(spark, (0, "a", 3.0), (9, "a", 1.0)), 0)
    noon = datetime(2026, 3, 11, 12, tzinfo=UTC)
    before = BatchSummary(
        batch=0,
        window_us=WINDOW_S * 1_000_000,
        watermark_us=round(noon.timestamp()) * 1_000_000,
    )
    steps.write(before, spark.createDataFrame([], STEP_SCHEMA))
    settings = PipelineSettings(
        out=tmp_path.as_uri(), files="f", keep_days={"usage_10s": 4}
    )
    for batch in range(100, 100 + EVERY):
        run = Maintenance(settings, store, steps)
        run.after_batch(replace(before, batch=batch))
    assert [row["admitted"] for row in store.read("usage_10s").collect()] == [1.0]
    assert settled_until(store) == date(2026, 3, 7)


def test_a_process_finishes_the_day_of_each_table_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[tuple[str, date]] = []

    def finish(_: Maintenance, name: str, today: date) -> None:
        finished.append((name, today))

    def ignore(*_: object) -> int:
        """Leave the tables as they are; each has one commit."""
        return 0

    monkeypatch.setattr(Maintenance, "finish_day", finish)
    monkeypatch.setattr(Maintenance, "compact", ignore)
    monkeypatch.setattr(BatchLog, "vacuum", ignore)
    monkeypatch.setattr(TableStore, "version", ignore)
    run = Maintenance(
        PipelineSettings(out=tmp_path.as_uri(), files="f"),
        TableStore(spark, f"{tmp_path.as_uri()}/tables"),
        BatchLog(spark, f"{tmp_path.as_uri()}/steps"),
    )
    days = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (11, 12)]
    for place, noon in enumerate(days):
        watermark_us = round(noon.timestamp()) * 1_000_000
        now = BatchSummary(window_us=WINDOW_S * 1_000_000, watermark_us=watermark_us)
        for batch in range(2 * place * EVERY, 2 * (place + 1) * EVERY):
            run.after_batch(replace(now, batch=batch))
    expected = [(name, noon.date()) for noon in days for name in FINISHED]
    assert finished == expected


BEGIN_S = 1_760_000_400  # a full minute

EVERY_S = 10


def reports(spark: SparkSession, begin_s: int, end_s: int) -> DataFrame:
    """What one agent reports every ten seconds: ten units a second."""
    rows: list[tuple[object, ...]] = []
    for second in range(begin_s, end_s, EVERY_S):
        sequence = 1 + second // EVERY_S
        told = Told(
            agent="a",
            life=1,
            sequence=sequence,
            at_ms=1000 * (BEGIN_S + second),
            revision=1,
            weight=1.0,
            leave=False,
            held=0,
            counted={"requests": {1: (Fraction(0), Fraction(10 * second))}},
        )
        moment = datetime.fromtimestamp(BEGIN_S + second, UTC)
        rows.append((None, encoded(told), "usage", 0, sequence, moment, 0))
    return spark.createDataFrame(rows, MESSAGES)


@pytest.mark.thorough
def test_a_run_that_waits_for_less_closes_only_what_its_own_batches_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    def settings(lateness_s: float) -> PipelineSettings:
        return PipelineSettings(
            out=tmp_path.as_uri(), files="f", partitions=1, lateness_s=lateness_s
        )

    first = engine_of(spark, settings(60.0))
    first.batch(reports(spark, 0, 110), 0)
    first.batch(reports(spark, 110, 140), 1)
    second = engine_of(spark, settings(10.0))
    newest = second.newest()
    assert newest is not None
    assert newest.watermark_us == (BEGIN_S + 100 - 60) * 1_000_000
    second.batch(reports(spark, 140, 200), 2)
    tables = second.tables
    closed_us = (BEGIN_S + 120) * 1_000_000
    shorter = tables.read("usage_10s", end_us=closed_us)
    total = f.sum("admitted")
    (minutes,) = tables.read("usage_1m").agg(total, f.count("*")).collect()
    assert tuple(minutes) == (shorter.agg(total).collect()[0][0], 2)
