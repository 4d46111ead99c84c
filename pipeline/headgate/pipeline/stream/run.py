"""Starts the stream, keeps it going, says how far it is."""

from __future__ import annotations

import fcntl
import json
import logging
import re
import threading
import time
from typing import TYPE_CHECKING, TextIO

from pyspark.errors import StreamingQueryException

from headgate.pipeline.settings import WINDOW_S, Settings, WrongSettings
from headgate.pipeline.stream.engine import Engine
from headgate.pipeline.stream.source import messages
from headgate.pipeline.tables.parquet import ParquetTables, Tables, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headgate.pipeline.stream.batch_log import Summary

log = logging.getLogger("headgate.pipeline")

RETRIES = 5
"""Restarts of the stream after a failure of Kafka without a batch in between."""

PAUSE_S = 2.0
"""Before the first restart, doubled with each further one: a broker is back after
13 s with its default session timeout, the pauses add up to a minute."""

POLL_S = 1
"""How often the driver looks whether the stream still runs."""

FORMAT = 2
"""Of the steps in the output folder; those of another are not gone on with."""

_ANOTHER = (
    "give another --out, which reads anew what the topic still holds: bills of both "
    "folders overlap there"
)
"""What to do about a folder that can't be gone on with."""

STOP_S = 60.0
"""How long `stop` waits for the end of the running batch.  One that takes longer is
broken off, which costs nothing but its time: the next run does it again."""


class StreamFailed(RuntimeError):
    """The stream can't go on; says why in one sentence."""


def open_tables(session: SparkSession, settings: Settings) -> Tables:
    """Return the store that `settings` name, in its folder."""
    if settings.store == "delta":
        from headgate.pipeline.tables.delta import DeltaTables

        return DeltaTables(session, settings.tables)
    return ParquetTables(session, settings.tables)


class Run:
    """One run of the stream over the topic."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        *,
        after: Callable[[Summary], None] = lambda summary: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a run; `before` and `after` are called around each batch.

        Raises:
            WrongSettings: The folder was made with other settings, or another run
                works on it.
        """
        _check_folder(settings)
        self._lock = _locked(settings.out)
        self._session = session
        self._settings = settings
        self._before = before
        self._after = after
        self._failures = 0
        self._working = threading.Lock()
        self._stopped = False
        self.query: StreamingQuery | None = None
        tables = open_tables(session, settings)
        self.engine = Engine(session, settings, tables, after=self._done)

    def until_caught_up(self) -> Summary | None:
        """Read all that is there now, close the last windows, and return.

        Raises:
            StreamFailed: It can't go on.
        """
        try:
            self._keep_going(once=True)
            return self.engine.close_windows()
        finally:
            self.stop()

    def forever(self) -> None:
        """Read until interrupted.

        Raises:
            StreamFailed: It can't go on.
        """
        self._keep_going(once=False)

    def stop(self) -> None:
        """End the stream after the running batch, and let others into the folder."""
        free = self._working.acquire(timeout=STOP_S)
        self._stopped = True
        try:
            if self.query is not None:
                self.query.stop()
        finally:
            if free:
                self._working.release()
        self._lock.close()

    def _keep_going(self, *, once: bool) -> None:
        """Start the stream again after failures of Kafka, a bounded number of times."""
        while True:
            self.query = self._start(once=once)
            try:
                while not self.query.awaitTermination(POLL_S):
                    pass
                return
            except StreamingQueryException as error:
                self._failures += 1
                fatal = _fatal(error)
                if fatal or self._failures > RETRIES:
                    raise StreamFailed(fatal or _first_line(error)) from error
                pause_s = PAUSE_S * 2 ** (self._failures - 1)
                log.warning("%s; again in %g s", _first_line(error), pause_s)
                time.sleep(pause_s)

    def _start(self, *, once: bool) -> StreamingQuery:
        writer = (
            messages(self._session, self._settings)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self._settings.out / "checkpoint"))
            .queryName("headgate")
        )
        if once:
            return writer.trigger(availableNow=True).start()
        every = f"{self._settings.trigger_s} seconds"
        return writer.trigger(processingTime=every).start()

    def _batch(self, frame: DataFrame, number: int) -> None:
        with self._working:
            if self._stopped:  # never return: Spark would take it for done
                raise StreamFailed("stopped before the batch began")
            self._before()
            self.engine.batch(frame, number)

    def _done(self, summary: Summary) -> None:
        self._failures = 0
        self._after(summary)


def _locked(out: Path) -> TextIO:
    """Keep other runs out of the folder for as long as the result is open."""
    lock = (out / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise WrongSettings(f"{out}: another run works on it") from None
    return lock


def _check_folder(settings: Settings) -> None:
    """Refuse to go on in a folder that was made with other settings."""
    mark = settings.out / "pipeline.json"
    mine = {"format": FORMAT, "store": settings.store, "window_s": WINDOW_S}
    if not mark.exists():
        settings.out.mkdir(parents=True, exist_ok=True)
        write_whole(mark, json.dumps(mine))
        return
    found = json.loads(mark.read_text())
    for name, value in mine.items():
        if found.get(name) != value:
            raise WrongSettings(
                f"{settings.out}: made with {name} = {found.get(name)}, not {value}; "
                + _ANOTHER
            )
    if not (settings.out / "checkpoint").exists() and _has_steps(settings.out):
        raise WrongSettings(
            f"{settings.out}: its checkpoint is gone, so what was read is not known; "
            + _ANOTHER
        )


def _has_steps(out: Path) -> bool:
    return any((out / "steps").glob("*.json"))


def _fatal(error: StreamingQueryException) -> str:
    """Return what to tell of an error that a restart can't mend, else nothing."""
    text = str(error)
    said = re.search(r"(?:LostMessages|JournalBroken|StateUnreadable): ([^\n]+)", text)
    if said:
        return said[1]
    if "UnknownTopicOrPartition" in text:
        return "the topic does not exist"
    if "PythonException" in text or "Py4JException" in text:
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
