"""Writes the rows of one step to the tables of its batch, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.jobs.alerts import alerts, to_kafka, to_webhook
from headgate.pipeline.jobs.fairness import judged, starved, totals, unfairness
from headgate.pipeline.jobs.gaps import final_counters, gaps
from headgate.pipeline.jobs.noisy import noisy
from headgate.pipeline.jobs.usage import rolled_up, usage_of
from headgate.pipeline.jobs.violations import exceeded, violations
from headgate.pipeline.settings import WINDOW_S
from headgate.pipeline.tables.schema import DEAD_LETTERS, LOSSES, VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.settings import PipelineSettings
    from headgate.pipeline.stream.batch_log import BatchLog, BatchSummary
    from headgate.pipeline.tables.store import TableStore

ROLLED = (("usage_1m", "usage_10s", 60), ("usage_1h", "usage_1m", 3600))
"""Longer windows: table, the table it is made from, length in seconds."""

COMPARING = frozenset({"violations", "unfairness", "starved"})
"""Jobs that need the agents of a group's window side by side."""

PAST_WINDOWS = 5
"""Preceding minutes that an agent's attempts are compared with (`noisy`)."""


class Publisher:
    """Writes the tables of batches whose step is written."""

    def __init__(
        self,
        session: SparkSession,
        settings: PipelineSettings,
        store: TableStore,
        steps: BatchLog,
    ) -> None:
        """Read steps from `steps` and write to `store`."""
        self._session = session
        self._settings = settings
        self._store = store
        self._steps = steps

    def publish(
        self, before: BatchSummary, now: BatchSummary, limits: DataFrame
    ) -> None:
        """Write all tables of one batch; repeating it after a crash changes nothing.

        Args:
            before: What was known before the batch.
            now: What is known after its step.
            limits: From `configured.limits_frame`.
        """
        self._side_tables(now, limits)
        if now.kinds.get("usage"):
            self._windows(now, limits)
        for name, source, seconds in ROLLED:
            self._roll_up(name, source, seconds, before, now)

    def _side_tables(self, now: BatchSummary, limits: DataFrame) -> None:
        """Write the rare rows: dead letters, losses, gaps, ended lives."""
        if now.kinds.get("dead"):
            dead = self._steps.read("dead")
            self._store.append("dead_letters", _dead_letters(dead), now.batch)
        if now.losses:
            self._store.append("losses", self._losses(now), now.batch)
        if now.kinds.get("gap") or now.kinds.get("healed"):
            ends = self._steps.read("gap", "healed")
            found = gaps(ends, limits, self._settings.silence_s)
            self._store.append("gaps", found, now.batch)
        if now.kinds.get("ended"):
            ended = final_counters(self._steps.read("ended"))
            self._store.append("counters", ended, now.batch)

    def _windows(self, now: BatchSummary, limits: DataFrame) -> None:
        """Write usage, and the tables that compare the agents of a group."""
        usage = usage_of(self._steps.read("usage"), limits)
        jobs = COMPARING.intersection(self._settings.jobs)
        if not jobs:
            self._store.append("usage_10s", usage, now.batch)
            return
        usage = usage.persist()
        found = judged(usage, WINDOW_S).persist()
        try:
            self._store.append("usage_10s", usage, now.batch)
            counts = {
                row["kind"]: row["count"]
                for row in found.groupBy("kind").count().collect()
            }
            over = self._session.createDataFrame([], VIOLATIONS)
            if "violations" in jobs and counts.get("total"):
                above = exceeded(totals(found), limits, WINDOW_S)
                # Checked first: Spark abandons a join when one side is empty.  If a job
                # of the other side is submitted after that, its plan is never freed.
                if not above.isEmpty():
                    over = violations(usage, above, WINDOW_S).persist()
                    self._store.append("violations", over, now.batch)
            if "unfairness" in jobs and counts.get("unfair"):
                self._store.append("unfairness", unfairness(found), now.batch)
            poor = starved(found)
            if "starved" in jobs and counts.get("starved"):
                self._store.append("starved", poor, now.batch)
            if "starved" not in jobs:
                poor = poor.limit(0)
            self._alert(over, poor)
            over.unpersist()
        finally:
            found.unpersist()
            usage.unpersist()

    def _alert(self, over: DataFrame, poor: DataFrame) -> None:
        """Send alerts about this batch's violations and starved agents."""
        settings = self._settings
        if not (settings.alert_topic or settings.webhook):
            return
        found = alerts(over, poor).persist()
        try:
            if settings.alert_topic and not found.isEmpty():
                options = {"kafka.bootstrap.servers": settings.bootstrap}
                options |= settings.kafka_options
                to_kafka(found, settings.alert_topic, options)
            if settings.webhook:
                to_webhook(found, settings.webhook)
        finally:
            found.unpersist()

    def _roll_up(
        self,
        name: str,
        source: str,
        seconds: int,
        before: BatchSummary,
        now: BatchSummary,
    ) -> None:
        """Write the longer windows that this batch completed."""
        length_us = seconds * 1_000_000
        begin_us = before.watermark_us // length_us * length_us
        end_us = now.watermark_us // length_us * length_us
        if end_us <= begin_us or self._store.version(source) < 0:
            return
        shorter = self._store.read(source, begin_us=begin_us, end_us=end_us)
        self._store.append(name, rolled_up(shorter, seconds), now.batch)
        if name == "usage_1m" and "noisy" in self._settings.jobs:
            past_us = begin_us - PAST_WINDOWS * length_us
            found = noisy(
                self._store.read(name, begin_us=begin_us, end_us=end_us),
                self._store.read(name, begin_us=past_us, end_us=end_us),
                window_s=seconds,
                past_windows=PAST_WINDOWS,
            )
            self._store.append("noisy", found, now.batch)

    def _losses(self, now: BatchSummary) -> DataFrame:
        rows = [
            (o.topic, o.partition, o.expected, o.found, o.messages) for o in now.losses
        ]
        schema = "topic string, partition int, expected_offset long, "
        schema += "found_offset long, messages long"
        noticed = f.timestamp_micros(f.lit(now.reference_us)).alias("noticed")
        frame = self._session.createDataFrame(rows, schema)
        return frame.select(noticed, "*").select(*LOSSES.names)


def _dead_letters(step_rows: DataFrame) -> DataFrame:
    return step_rows.select(
        f.timestamp_micros("broker_us").alias("received"),
        "topic",
        "partition",
        "offset",
        "reason",
        "payload",
    ).select(*DEAD_LETTERS.names)
