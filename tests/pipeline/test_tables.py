"""Compaction of the Parquet tables: no row more, none less, whatever happens."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headgate.pipeline.tables import parquet as store
from headgate.pipeline.tables.parquet import COMPACT_AT, OPEN_BATCH, ParquetTables
from headgate.pipeline.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "losses"

START = datetime(2026, 3, 1, 23, 55, tzinfo=UTC)

SCHEMA = to_arrow_schema(TABLES[NAME], timezone="UTC")

BATCHES = COMPACT_AT + 6
"""On two days; those of the second are too few to be merged."""


def put(root: Path, batch: int, messages: int) -> None:
    """Write one batch of one row, as Spark lays it out."""
    noticed = START + timedelta(seconds=10 * batch)
    folder = root / NAME / f"date={noticed:%Y-%m-%d}" / f"batch={batch}"
    folder.mkdir(parents=True)
    row = {
        "noticed": noticed,
        "topic": "usage",
        "partition": 0,
        "expected_offset": batch,
        "found_offset": batch + messages,
        "messages": messages,
    }
    table = pa.Table.from_pylist([row], schema=SCHEMA)
    pq.write_table(table, folder / "part-0.parquet")  # pyright: ignore[reportUnknownMemberType]  # its stub is open


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for batch in (OPEN_BATCH, *range(BATCHES)):
        put(tmp_path, batch, 7 * batch + 9)
    return tmp_path


def rows(tables: ParquetTables) -> list[str]:
    return sorted(map(str, tables.read(NAME).collect()))


def folders(root: Path) -> int:
    return len(list((root / NAME).glob("date=*/batch=*")))


def test_compaction_changes_no_row_and_leaves_new_batches_alone(
    spark: SparkSession, root: Path
) -> None:
    tables = ParquetTables(spark, root)
    before = rows(tables)
    assert len(before) == BATCHES + 1
    assert tables.compact(NAME, COMPACT_AT + 2) == COMPACT_AT + 2
    assert rows(tables) == before
    assert folders(root) == 1 + 1 + 4  # merged, open, newer
    assert tables.compact(NAME, BATCHES) == 0
    assert tables.read(NAME, batch=BATCHES - 1).count() == 1
    tables.discard_open()
    assert len(rows(tables)) == BATCHES


def test_nobody_who_is_reading_loses_a_file(spark: SparkSession, root: Path) -> None:
    tables = ParquetTables(spark, root)
    with ParquetTables(spark, root).reading():
        planned = tables.read(NAME)
        files = planned.inputFiles()
        assert tables.compact(NAME, BATCHES) == 0
        assert planned.count() == BATCHES + 1
        assert planned.inputFiles() == files
    assert tables.compact(NAME, BATCHES) > 0
    assert tables.read(NAME).count() == BATCHES + 1


class Crash(RuntimeError):
    """The driver dies here."""


DEATHS = (0, 1, 2, COMPACT_AT // 2, COMPACT_AT, COMPACT_AT + 1)
"""Folders removed before it: none, some, all that there are before the exchange."""


@pytest.mark.parametrize("step", ["plan", "exchange", *DEATHS])
def test_a_crash_anywhere_in_a_compaction_costs_no_row(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, step: str | int
) -> None:
    tables = ParquetTables(spark, root)
    before = rows(tables)
    with monkeypatch.context() as fragile:
        if step == "plan":
            fragile.setattr(store, "write_whole", _die)
        elif step == "exchange":
            fragile.setattr(os, "replace", _dying_at(os.replace, 1))
        else:
            dying = _dying_at(shutil.rmtree, int(step) + 1)
            fragile.setattr(shutil, "rmtree", dying)
        with pytest.raises(Crash):
            tables.compact(NAME, COMPACT_AT + 2)
    again = ParquetTables(spark, root)
    assert rows(again) == before
    assert again.compact(NAME, COMPACT_AT + 2) in (0, COMPACT_AT + 2)
    assert rows(again) == before


def _die(*_: object) -> None:
    raise Crash


def _dying_at(call: Callable[..., object], after: int) -> Callable[..., object]:
    """Return a function that does what `call` does, and dies after so many times."""
    left = after

    def dying(*arguments: object, **named: object) -> object:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        return call(*arguments, **named)

    return dying
