"""Keeps the tables small: compaction, removal of old files, retired days.

The table format does all of it, between two batches and one table at a time, so that
no batch waits for long.  Readers go on with the files that they began with.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from headgate.pipeline.jobs.bill import bill, retired_sums
from headgate.pipeline.tables.schema import STREAMED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.pipeline.settings import PipelineSettings
    from headgate.pipeline.stream.batch_log import BatchLog, BatchSummary
    from headgate.pipeline.tables.store import TableStore

FINISHED = (*STREAMED, "bill")
"""Tables whose days are finished."""

EVERY = len(STREAMED) + 1 + len(FINISHED)
"""Batches between two looks at a table, for small files and for a day that has ended:
four minutes at 10 s.  The number of a batch says whose turn it is, so that runs of a
single batch (``--once``) come to all tables as well."""

CLUSTERED = frozenset({"usage_10s", "usage_1m", "usage_1h"})
"""Tables whose finished days are sorted by group."""


class Maintenance:
    """The upkeep of one output's tables."""

    def __init__(
        self, settings: PipelineSettings, store: TableStore, steps: BatchLog
    ) -> None:
        """Maintain the tables of `store`, and the `steps`."""
        self._settings = settings
        self._store = store
        self._steps = steps
        # A new process finishes the last day again: it can't tell if that was done.
        self._finished: dict[str, date] = {}

    def after_batch(self, now: BatchSummary) -> None:
        """Do the upkeep that is due after a batch, for at most one table."""
        if not now.watermark_us:
            return  # no window has been closed yet
        today = day_of(now.watermark_us)
        place = now.batch % EVERY
        if place < len(STREAMED):
            self.compact(STREAMED[place], today)
        elif place == len(STREAMED):
            self._steps.vacuum()
        else:
            name = FINISHED[place - len(STREAMED) - 1]
            if self._finished.get(name) != today and self._store.version(name) >= 0:
                self.finish_day(name, today)
                self._finished[name] = today

    def compact(self, name: str, today: date) -> None:
        """Merge what recent batches wrote."""
        if self._store.version(name) >= 0:
            self._store.compact(name, today - timedelta(days=1))

    def finish_day(self, name: str, today: date) -> None:
        """Sort the day that has ended, retire days, remove unneeded files."""
        if name in CLUSTERED:
            self._store.cluster(name, today - timedelta(days=1), "group_id")
        else:
            self._store.compact(name, today - timedelta(days=1))
        self.retire(name, today)
        self._store.vacuum(name)

    def retire(self, name: str, today: date) -> None:
        """Remove the days of a table that need not be kept any longer.

        Before usage is removed, its days are billed for good and its sums are kept,
        so that bills and their proof stay what they were.
        """
        days = self._settings.keep_days.get(name)
        if days is None:
            return
        first = today - timedelta(days=days)
        if name == "usage_10s":
            self._retire_usage(first)
        else:
            self._store.delete_before(name, first)

    def _retire_usage(self, first: date) -> None:
        settled = settled_until(self._store)
        begin_us, end_us = settled_us(self._store), _us_of(first)
        usage = self._store.read("usage_10s", begin_us=begin_us, end_us=end_us)
        if (settled is None or settled < first) and not usage.isEmpty():
            write_bill(
                self._store,
                self._store.read("usage_10s", begin_us=begin_us),
                settled,
            )
            # From this commit on nobody counts the days before, so it makes no
            # difference whether they are removed now or after a crash.
            sums, number = retired_sums(usage, end_us), (first - date(1970, 1, 1)).days
            self._store.append("retired", sums, number)
        self._store.delete_before("usage_10s", first)
        if self._store.version("gaps") >= 0:
            self._store.delete_before("gaps", first)


def settled_until(store: TableStore) -> date | None:
    """Return the day before which usage is retired and bills are final."""
    rows = store.read("retired").agg({"retired_until": "max"}).collect()
    newest: datetime | None = rows[0][0]
    return newest.date() if newest is not None else None


def settled_us(store: TableStore) -> int | None:
    """Return the start of the day of `settled_until`, microseconds."""
    settled = settled_until(store)
    return None if settled is None else _us_of(settled)


def write_bill(store: TableStore, usage: DataFrame, settled: date | None) -> None:
    """Write the bill of all days that are not final.

    Args:
        store: Holds the table, and the gaps.
        usage: All known usage except retired days.
        settled: From `settled_until`.
    """
    made = bill(usage, store.read("gaps"))
    store.replace_from("bill", made, settled)


def day_of(moment_us: int) -> date:
    """Return the day (UTC) of a moment, microseconds since the epoch."""
    return datetime.fromtimestamp(moment_us / 1e6, UTC).date()


def _us_of(day: date) -> int:
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return round(moment.timestamp()) * 1_000_000
