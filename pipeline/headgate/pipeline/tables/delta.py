"""Delta tables, written by delta-rs: no jar, and any reader of Delta can read them.

A write carries (table, batch) as Delta's application transaction; one that is
already in the table's log is passed over.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import TableNotFoundError

from headgate.pipeline.tables.parquet import OPEN_BATCH, dated
from headgate.pipeline.tables.schema import TABLES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "headgate-pipeline"
"""Under this name the batch stands in the table's log."""

CHECKPOINT_HOOK = PostCommitHookProperties(
    create_checkpoint=True, cleanup_expired_logs=True
)
"""Delta folds its log every 10 commits by itself."""


class DeltaTables:
    """Tables in Delta format, partitioned by date."""

    def __init__(self, session: SparkSession, root: Path) -> None:
        """Keep tables under `root`, which is made if it is not there."""
        self._session = session
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, frame: DataFrame, batch: int) -> None:
        """See `tables.Tables.write`."""
        table = self._table(name)
        if batch != OPEN_BATCH and table is not None:
            done = table.transaction_version(APPLICATION)
            if done is not None and done >= batch:
                return
        rows = dated(frame, name, batch).toArrow()
        if not rows.num_rows:
            return
        commit = (
            CommitProperties()
            if batch == OPEN_BATCH
            else CommitProperties(app_transactions=[Transaction(APPLICATION, batch)])
        )
        write_deltalake(
            str(self._root / name),
            rows,
            mode="append",
            partition_by=["date", "batch"],
            commit_properties=commit,
            post_commithook_properties=CHECKPOINT_HOOK,
        )

    def replace(self, name: str, frame: DataFrame) -> None:
        """See `tables.Tables.replace`."""
        write_deltalake(
            str(self._root / name),
            dated(frame, name, 0).toArrow(),
            mode="overwrite",
            partition_by=["date", "batch"],
            post_commithook_properties=CHECKPOINT_HOOK,
        )

    def read(self, name: str, *, batch: int | None = None) -> DataFrame:
        """See `tables.Tables.read`."""
        table = self._table(name)
        columns = TABLES[name].names
        files = table.file_uris() if table is not None else []
        if batch is not None:
            files = [file for file in files if f"/batch={batch}/" in file]
        if not files:
            return self._session.createDataFrame([], TABLES[name])
        return self._session.read.schema(TABLES[name]).parquet(*files).select(*columns)

    def discard_open(self) -> None:
        """See `tables.Tables.discard_open`."""
        for folder in self._root.glob("*/_delta_log"):
            DeltaTable(str(folder.parent)).delete(f"batch = {OPEN_BATCH}")

    def compact(self, name: str, before: int) -> int:
        """See `tables.Tables.compact`."""
        table = self._table(name)
        if table is None:
            return 0
        files = len(table.file_uris())
        table.optimize.compact()
        return files - len(table.file_uris())

    def reading(self) -> AbstractContextManager[None]:
        """See `tables.Tables.reading`; files that a table gave up stay for a week."""
        return nullcontext()

    def _table(self, name: str) -> DeltaTable | None:
        """Return the table; None if nothing was ever written."""
        try:
            return DeltaTable(str(self._root / name))
        except TableNotFoundError:
            return None
