"""Where the results go: tables that take each batch once.

A batch may be written again after a crash, with the same rows; a store must then
hold them once.  `ParquetTables` keeps a batch in a partition of its own
(``date=…/batch=…``), which writing again replaces.  Any reader of Parquet can read
the folder.  `headgate.pipeline.tables.delta` does the same with Delta's transactions.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from headgate.pipeline.tables.schema import TABLES, TIME_COLUMN

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

OPEN_BATCH = -1
"""The batch of rows whose windows are still open when a bounded run ends: they are
replaced as soon as there is more."""

COMPACT_AT = 24
"""Batches of one day after which they are merged into one: a day of 10 s batches
is 8,640 folders otherwise."""

_JOURNAL = "_compaction.json"

_LOCK = "_reading"


class Tables(Protocol):
    """A store of tables, each of which takes a batch exactly once."""

    def write(self, name: str, frame: DataFrame, batch: int) -> None:
        """Put the rows of one batch; again after a crash, with the same rows.

        Args:
            name: A key of `schema.TABLES`.
            frame: Rows with exactly that table's columns.
            batch: Number of the batch, or `OPEN_BATCH`.
        """
        ...

    def replace(self, name: str, frame: DataFrame) -> None:
        """Put rows in place of all that the table held: for what is recomputed."""
        ...

    def read(self, name: str, *, batch: int | None = None) -> DataFrame:
        """Return the rows, without the partition columns; none if none came yet.

        Args:
            name: A key of `schema.TABLES`.
            batch: Only of this batch, which was written last.
        """
        ...

    def discard_open(self) -> None:
        """Remove the rows of `OPEN_BATCH` from all tables."""
        ...

    def compact(self, name: str, before: int) -> int:
        """Merge small files of batches before `before`; return how many went.

        Does nothing while somebody is `reading`.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which no file is taken away from under a reader."""
        ...


def dated(frame: DataFrame, name: str, batch: int) -> DataFrame:
    """Return `frame` with the partition columns ``date`` and ``batch``."""
    columns = [field.name for field in TABLES[name].fields]
    day = f.date_format(f.col(TIME_COLUMN.get(name, "window_start")), "yyyy-MM-dd")
    return frame.select(*columns, day.alias("date"), f.lit(batch).alias("batch"))


class ParquetTables:
    """Tables as folders of Parquet files, partitioned by date and batch."""

    def __init__(self, session: SparkSession, root: Path) -> None:
        """Keep tables under `root`, which is made if it is not there."""
        self._session = session
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        for journal in root.glob(f"*/{_JOURNAL}"):
            _finish(journal)

    def write(self, name: str, frame: DataFrame, batch: int) -> None:
        """See `Tables.write`."""
        # Overwriting is by partition: only those of this batch are replaced.
        dated(frame, name, batch).write.mode("overwrite").option(
            "partitionOverwriteMode", "dynamic"
        ).partitionBy("date", "batch").parquet(str(self._root / name))

    def replace(self, name: str, frame: DataFrame) -> None:
        """See `Tables.replace`."""
        dated(frame, name, 0).write.mode("overwrite").option(
            "partitionOverwriteMode", "static"
        ).partitionBy("date", "batch").parquet(str(self._root / name))

    def read(self, name: str, *, batch: int | None = None) -> DataFrame:
        """See `Tables.read`."""
        folder = self._root / name
        if not any(folder.glob("date=*")):
            return self._session.createDataFrame([], TABLES[name])
        columns = [field.name for field in TABLES[name].fields]
        return (
            self._session.read.schema(StructType([*TABLES[name].fields, *_PARTITIONS]))
            .parquet(str(folder))
            .where("true" if batch is None else f"batch = {batch}")
            .select(*columns)
        )

    def discard_open(self) -> None:
        """See `Tables.discard_open`."""
        for folder in self._root.glob(f"*/date=*/batch={OPEN_BATCH}"):
            shutil.rmtree(folder)

    def compact(self, name: str, before: int) -> int:
        """See `Tables.compact`; safe against a crash at any moment."""
        merged = 0
        for day in sorted((self._root / name).glob("date=*")):
            old = [p for p in _batches(day) if 0 <= _number(p) < before]
            if len(old) >= COMPACT_AT and self._merge(day, old):
                merged += len(old)
        return merged

    @contextmanager
    def reading(self) -> Generator[None]:
        """See `Tables.reading`; good for all processes of one machine."""
        with (self._root / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield

    def _merge(self, day: Path, old: list[Path]) -> bool:
        """Replace the folders `old` of one day by one, named as the last of them.

        Readers are kept out for as long as folders are exchanged; if there are any,
        it is put off.
        """
        scratch = day / "_merging"
        shutil.rmtree(scratch, ignore_errors=True)
        frames = self._session.read.parquet(*map(str, old))
        frames.coalesce(1).write.parquet(str(scratch))
        with (self._root / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                shutil.rmtree(scratch)
                return False
            # From here on the merge will be finished, by us or by the next start.
            journal = day.parent / _JOURNAL
            plan = {"day": day.name, "old": [p.name for p in old], "new": old[-1].name}
            write_whole(journal, json.dumps(plan))
            _finish(journal)
        return True


_PARTITIONS = (StructField("date", StringType()), StructField("batch", IntegerType()))


def _batches(day: Path) -> Iterator[Path]:
    """Yield the folders of a day's batches in order."""
    yield from sorted(day.glob("batch=*"), key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("batch="))


def _finish(journal: Path) -> None:
    """Do what a compaction planned; may be done again at any point."""
    plan = json.loads(journal.read_text())
    day = journal.parent / plan["day"]
    scratch, new = day / "_merging", day / plan["new"]
    if scratch.exists():
        for name in plan["old"]:
            shutil.rmtree(day / name, ignore_errors=True)
        os.replace(scratch, new)
    journal.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or none."""
    scratch = path.with_name(f".{path.name}.tmp")
    with scratch.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(scratch, path)
