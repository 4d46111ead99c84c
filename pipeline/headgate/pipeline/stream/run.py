"""Starts the stream, keeps it going, and says how far it is."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no hints
from pyspark.errors import PySparkException, StreamingQueryException

from headgate.pipeline.stream.batch_log import BatchLog
from headgate.pipeline.stream.engine import StreamEngine
from headgate.pipeline.stream.kafka_topic import topic_id
from headgate.pipeline.stream.output_check import (
    check_checkpoint,
    check_cluster,
    check_tables,
    check_topic,
    written_by,
)
from headgate.pipeline.stream.source import messages
from headgate.pipeline.stream.spark_errors import is_passing, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headgate.pipeline.configured.history import ConfigurationHistory
    from headgate.pipeline.settings import PipelineSettings
    from headgate.pipeline.stream.batch_log import BatchSummary

log = logging.getLogger("headgate.pipeline")

RETRIES = 5
"""Restarts of the stream after a failure of Kafka without a batch in between."""

PAUSE_S = 2.0
"""Pause before the first restart, doubled with each further one: a broker is back
after 13 s with its default session timeout; the pauses add up to a minute."""

POLL_S = 1
"""Seconds between two checks whether the stream still runs."""

STOP_S = 60.0
"""How long `stop` waits for the running batch to end.  One that takes longer is
interrupted, which costs nothing but its time: the next run does it again."""


class StreamFailed(RuntimeError):
    """The stream can't go on; says why in one sentence."""


class StreamRun:
    """One run of the stream over the topic.

    Two runs on one output do no harm: both do the same batch, each table takes it
    once, and Spark ends the run that is second to commit the batch.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: PipelineSettings,
        history: ConfigurationHistory,
        *,
        after: Callable[[BatchSummary], None] = lambda summary: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a run; `before` and `after` are called around each batch.

        Raises:
            OutputIncomplete: Parts of the output are missing or don't match.
            StreamFailed: Kafka can't be reached, or has no such topic.
            WrongSettings: Another version wrote the output, or it is of another
                cluster.
        """
        self._session = session
        self._settings = settings
        self._before = before
        self._after = after
        self._failures = 0
        self._working = threading.Lock()
        self._ending = threading.Event()
        self.query: StreamingQuery | None = None
        topic = ""
        if settings.bootstrap:
            topic = _id_of_topic(session, settings)
        self.engine = StreamEngine(
            session, settings, history, topic_id=topic, after=self._done
        )
        steps = BatchLog(session, settings.steps)
        head = steps.head()
        kinds = steps.tally().kinds if head is not None else {}
        written = written_by(session, settings, head, kinds)
        check_tables(head, self.engine.tables, written)
        check_checkpoint(session, settings, head)
        check_topic(settings, head, topic)
        check_cluster(settings, head)

    def until_caught_up(self) -> BatchSummary | None:
        """Read everything in the topic now, close the last windows, and return.

        Returns:
            What is known afterwards; None if nothing was read, or after `end`.

        Raises:
            StreamFailed: It can't go on.
        """
        try:
            self._keep_going(once=True)
            return None if self._ending.is_set() else self.engine.close_windows()
        finally:
            self.stop()

    def forever(self) -> None:
        """Read until `end`, then finish the running batch.

        Raises:
            StreamFailed: It can't go on.
        """
        try:
            self._keep_going(once=False)
        finally:
            self.stop()

    def end(self) -> None:
        """Let the run return after the batch that is running; for signal handlers."""
        self._ending.set()

    def stop(self) -> None:
        """End the stream after the running batch."""
        self._ending.set()
        # Don't hold this lock while Spark stops: Spark waits for a batch that has
        # begun, and that batch would wait for the lock.
        if self._working.acquire(timeout=STOP_S):
            self._working.release()
        # The signal that ends this process may have ended Spark's as well.
        with suppress(Py4JError, PySparkException, ConnectionError):
            if self.query is not None:
                self.query.stop()

    def _keep_going(self, *, once: bool) -> None:
        """Restart the stream after failures of Kafka, a bounded number of times."""
        while not self._ending.is_set():
            self.query = self._start(once=once)
            try:
                while not self.query.awaitTermination(POLL_S):
                    if self._ending.is_set():
                        return
                return
            except StreamingQueryException as error:
                if self._ending.is_set():
                    return  # the batch was refused or interrupted: no failure
                self._failures += 1
                passing = self._settings.bootstrap and is_passing(error)
                if not passing or self._failures > RETRIES:
                    raise StreamFailed(said(error)) from error
                pause_s = PAUSE_S * 2 ** (self._failures - 1)
                log.warning("%s; retrying in %g s", said(error), pause_s)
                if self._ending.wait(pause_s):
                    return
            except (Py4JError, ConnectionError):
                if self._ending.is_set():
                    return  # the same signal has ended Spark's process
                raise

    def _start(self, *, once: bool) -> StreamingQuery:
        writer = (
            messages(self._session, self._settings)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", self._settings.checkpoint)
            .queryName("headgate")
        )
        if once:
            return writer.trigger(availableNow=True).start()
        every = f"{self._settings.trigger_s} seconds"
        return writer.trigger(processingTime=every).start()

    def _batch(self, frame: DataFrame, number: int) -> None:
        with self._working:
            if self._ending.is_set():  # don't return: Spark would commit it
                raise StreamFailed("stopped before the batch began")
            self._before()
            self.engine.batch(frame, number)

    def _done(self, summary: BatchSummary) -> None:
        self._failures = 0
        self._after(summary)


def _id_of_topic(session: SparkSession, settings: PipelineSettings) -> str:
    """Return the id of the run's topic; it shows when the topic was created again."""
    try:
        found = topic_id(
            session, settings.bootstrap, settings.topic, settings.kafka_options
        )
    except (Py4JError, PySparkException) as error:
        raise StreamFailed(f"topic {settings.topic}: {said(error)}") from error
    if not found:
        log.warning(
            "Kafka gives the topic %s no id: if it is deleted and re-created, "
            "the pipeline can't detect it",
            settings.topic,
        )
    return found
