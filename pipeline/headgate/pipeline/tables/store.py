"""Delta tables, written by Spark's own connector; the format gives all guarantees.

A write carries the number of its batch as Delta's application transaction
(``txnAppId``, ``txnVersion``): if it is repeated after a crash it is skipped, so each
table takes a batch once.  Readers get the newest commit and change nothing; files that
compaction or retention replaces stay for a week for current readers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.tables.filesystem import child_names
from headgate.pipeline.tables.jvm import execute
from headgate.pipeline.tables.schema import BATCH, DATE, TABLES, TIME_COLUMN

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

APPLICATION = "headgate"
"""The name under which a table's log holds the number of the newest batch."""

_COMMIT = re.compile(r"(\d{20})\.json")


class TableStore:
    """The tables of one output, each under ``<root>/<name>``."""

    def __init__(self, session: SparkSession, root: str) -> None:
        """Keep tables under the URI `root`; nothing is written yet."""
        self._session = session
        self._root = root

    def uri(self, name: str) -> str:
        """Return where a table is."""
        return f"{self._root}/{name}"

    def version(self, name: str) -> int:
        """Return the number of the newest commit of a table; −1 if there is none."""
        return newest_commit(self._session, self.uri(name))

    def append(self, name: str, frame: DataFrame, batch: int) -> None:
        """Add the rows of one batch; repeating it after a crash changes nothing.

        Args:
            name: A key of `schema.TABLES`.
            frame: Rows with that table's columns.
            batch: Number of the batch, from 0.
        """
        writer = dated(frame, name, batch).write.format("delta").mode("append")
        writer.partitionBy(DATE).options(**transaction(batch)).save(self.uri(name))

    def replace(self, name: str, frame: DataFrame, batch: int = 0) -> None:
        """Replace all rows of a table, for tables that are recomputed."""
        writer = dated(frame, name, batch).write.format("delta").mode("overwrite")
        writer.partitionBy(DATE).save(self.uri(name))

    def replace_from(self, name: str, frame: DataFrame, first: date | None) -> None:
        """Replace the rows from the day `first` on; all rows if it is None.

        Rows of `frame` before `first` are left out, so that those in the table stay.
        """
        rows = dated(frame, name, 0)
        if first is not None:
            rows = rows.where(f.col(DATE) >= f.lit(first))
        writer = rows.write.format("delta").mode("overwrite").partitionBy(DATE)
        if first is not None:
            writer = writer.option("replaceWhere", f"{DATE} >= '{first}'")
        writer.save(self.uri(name))

    def read(
        self,
        name: str,
        *,
        begin_us: int | None = None,
        end_us: int | None = None,
        upto_batch: int | None = None,
    ) -> DataFrame:
        """Return the rows of a table; none if it has none yet.

        Args:
            name: A key of `schema.TABLES`.
            begin_us: Only rows whose time is this or later, microseconds.
            end_us: Only rows whose time is earlier.
            upto_batch: Only what batches up to this one wrote.
        """
        schema = TABLES[name]
        if self.version(name) < 0:
            return self._session.createDataFrame([], schema)
        rows = self._session.read.format("delta").load(self.uri(name))
        time = f.col(TIME_COLUMN.get(name, "window_start"))
        if begin_us is not None:
            begin = f.timestamp_micros(f.lit(begin_us))
            rows = rows.where((f.col(DATE) >= f.to_date(begin)) & (time >= begin))
        if end_us is not None:
            end = f.timestamp_micros(f.lit(end_us))
            rows = rows.where((f.col(DATE) <= f.to_date(end)) & (time < end))
        if upto_batch is not None:
            rows = rows.where(f.col(BATCH) <= upto_batch)
        return rows.select(*schema.names)

    def compact(self, name: str, since: date) -> None:
        """Merge the small files of the days from `since` on."""
        self._sql(f"OPTIMIZE {self._named(name)} WHERE {DATE} >= '{since}'")

    def cluster(self, name: str, day: date, column: str) -> None:
        """Merge the files of one day, putting rows with equal `column` together."""
        where = f"WHERE {DATE} = '{day}' ZORDER BY ({column})"
        self._sql(f"OPTIMIZE {self._named(name)} {where}")

    def vacuum(self, name: str) -> None:
        """Remove files that no commit needs any more and whose retention is over."""
        self._sql(f"VACUUM {self._named(name)}")

    def delete_before(self, name: str, day: date) -> None:
        """Remove the rows of all days before `day`: whole folders, without reading."""
        self._sql(f"DELETE FROM {self._named(name)} WHERE {DATE} < '{day}'")

    def _named(self, name: str) -> str:
        return f"delta.`{self.uri(name)}`"

    def _sql(self, statement: str) -> None:
        execute(self._session, statement)


def newest_commit(session: SparkSession, uri: str) -> int:
    """Return the number of the newest commit of a Delta table; −1 if there is none."""
    names = child_names(session, f"{uri}/_delta_log")
    found = [int(match[1]) for match in map(_COMMIT.fullmatch, names) if match]
    return max(found, default=-1)


def transaction(batch: int) -> dict[str, str]:
    """Return the options that make a write happen once per batch."""
    return {"txnAppId": APPLICATION, "txnVersion": str(batch)}


def dated(frame: DataFrame, name: str, batch: int) -> DataFrame:
    """Return `frame` with the number of its batch, and its day as the partition."""
    time = TIME_COLUMN.get(name, "window_start")
    return frame.select(
        *TABLES[name].names,
        _as_data(batch).alias(BATCH),
        f.to_date(time).alias(DATE),
    )


def _as_data(number: int) -> Column:
    """Return a column of one number that isn't part of the code Spark generates.

    A literal number is: each batch would compile the whole query again.  An array is
    passed to the code instead, and the id of a partition, which is never below 0,
    keeps Spark from looking up the entry while it plans.
    """
    entries = f.array(f.lit(number).cast("long"))
    return f.get(entries, f.least(f.spark_partition_id(), f.lit(0)))
