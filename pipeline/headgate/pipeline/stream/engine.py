"""The engine: a batch of messages in, one step, all tables written once.

Order within a batch, each part safe to run again: step → summary → tables →
alerts.  Spark's checkpoint says which messages a batch holds, the journal what
state it starts from; so a batch that was cut off anywhere is run again on the same
input and replaces what it had written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.configured.history import History
from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.counters.clock import reference_us
from headgate.pipeline.counters.incarnation import Times
from headgate.pipeline.counters.rows import KINDS
from headgate.pipeline.jobs.alerts import alerts, to_kafka, to_webhook
from headgate.pipeline.jobs.fairness import judged, starved, totals, unfairness
from headgate.pipeline.jobs.gaps import final_counters, gaps
from headgate.pipeline.jobs.noisy import noisy
from headgate.pipeline.jobs.usage import between, rolled_up, usage_of
from headgate.pipeline.jobs.violations import violations
from headgate.pipeline.settings import WINDOW_S, Settings
from headgate.pipeline.stream.batch_log import (
    Journal,
    JournalBroken,
    Loss,
    Range,
    Summary,
    follow,
)
from headgate.pipeline.stream.step import Rules, counters_of, routed, step
from headgate.pipeline.tables.parquet import OPEN_BATCH, Tables
from headgate.pipeline.tables.schema import DEAD_LETTERS, LOSSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


WINDOW_US = WINDOW_S * 1_000_000

ROLLED = (("usage_1m", "usage_10s", 60), ("usage_1h", "usage_1m", 3600))
"""Longer windows: table, what it is made of, length in seconds."""

COMPARING = frozenset({"violations", "unfairness", "starved"})
"""Jobs that need the agents of a group's window side by side."""

PAST_WINDOWS = 5
"""Minutes before that an agent's attempts are compared with (`noisy`)."""

COMPACT_EVERY = 24
"""Batches between two looks for small files."""

FOREVER_US = 1 << 61
"""A watermark that closes every window."""


class LostMessages(RuntimeError):
    """The topic gave up messages before they were read."""


class Engine:
    """Turns batches of messages into tables."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        tables: Tables,
        *,
        after: Callable[[Summary], None] = lambda summary: None,
    ) -> None:
        """Write to `tables`; `after` hears of each batch that is complete.

        Attributes:
            tables: The store.
            out: Folder of tables, state and checkpoint.
        """
        self.out = settings.out
        self._session = session
        self._settings = settings
        self.tables = tables
        self._journal = Journal(session, settings.out)
        self._history = History(settings.recorded)
        self._known: tuple[int, DataFrame] | None = None
        self._after = after

    def batch(self, messages: DataFrame, number: int) -> None:
        """Handle one batch; the function for ``foreachBatch``.

        Raises:
            LostMessages: Messages are gone and that is to be fatal.
            JournalBroken: The checkpoint and the folder don't belong together.
        """
        before = self._before(number)
        summary = self._journal.summary(number)
        if summary is None:
            summary = self._step(messages, before, number)
        if summary.losses and self._settings.lost_is_fatal:
            raise LostMessages(_lost(summary.losses))
        self.tables.discard_open()
        self._publish(before, summary, number)
        self._journal.purge(number)
        self._after(summary)
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            self.compact(number)

    def close_windows(self) -> Summary | None:
        """Write what open windows hold so far, as rows that the next batch replaces.

        For runs that end with the topic: the last windows would else wait for
        newer reports.  The state is not touched.
        """
        number = self._journal.newest()
        summary = self._journal.summary(number)
        if summary is None:
            return None
        nothing = self._session.createDataFrame([], _MESSAGES)
        times = replace(
            self._times(summary), watermark_us=FOREVER_US, silence_us=2 * FOREVER_US
        )
        rules = Rules(times=times, partitions=self._partitions)
        state = self._journal.read(number, "life")
        rows = step(routed(nothing, keyed=True), state, rules).persist()
        try:
            limits = self._limits(summary)
            usage = usage_of(rows.where("kind = 'usage'"), limits)
            self.tables.discard_open()
            self._windows(usage, limits, OPEN_BATCH)
            for name, source, seconds in ROLLED:
                begin_us = summary.watermark_us // (seconds * 10**6) * seconds * 10**6
                part = between(self.tables.read(source), begin_us, FOREVER_US)
                self.tables.write(name, rolled_up(part, seconds), OPEN_BATCH)
        finally:
            rows.unpersist()
        return summary

    def counters(self) -> DataFrame:
        """Return the agents' own counters, of lives that ended and that go on."""
        state = self._journal.read(self._journal.newest(), "life")
        ended = self.tables.read("counters")
        return ended.unionByName(final_counters(counters_of(state)))

    def compact(self, before: int) -> None:
        """Merge small files of batches before `before`."""
        for name in ("usage_10s", "usage_1m", "unfairness", "noisy"):
            self.tables.compact(name, before)

    @property
    def _partitions(self) -> int:
        cores = self._session.sparkContext.defaultParallelism
        return self._settings.partitions or 2 * cores

    def _before(self, number: int) -> Summary:
        """Return what is known before batch `number`."""
        if number == 0:
            return Summary(batch=-1, window_us=WINDOW_US)
        before = self._journal.summary(number - 1)
        if before is None:
            raise JournalBroken(
                f"{self._settings.out}: the checkpoint is at batch {number}, but step "
                f"{number - 1} is missing; were folders removed? Start a new --out."
            )
        return before

    def _times(self, before: Summary) -> Times:
        """Return the times that the batch after `before` goes by."""
        lateness_us = int(self._settings.lateness_s * 1e6)
        watermark_us = max(before.watermark_us, before.reference_us - lateness_us)
        return Times(
            window_us=WINDOW_US,
            floor_us=before.floor_us,
            watermark_us=watermark_us,
            silence_us=int(self._settings.silence_s * 1e6),
            keep_us=int(self._settings.keep_s * 1e6),
        )

    def _step(self, messages: DataFrame, before: Summary, number: int) -> Summary:
        """Run the step of one batch and keep it."""
        settings, times = self._settings, self._times(before)
        rules = Rules(
            times=times, cluster=settings.cluster, partitions=self._partitions
        )
        state = self._journal.read(number - 1, "life")
        named = routed(messages, keyed=settings.keyed)
        self._journal.write(number, step(named, state, rules))
        summary = self._summarise(before, number, times.watermark_us)
        self._journal.seal(summary)
        return summary

    def _summarise(self, before: Summary, number: int, watermark_us: int) -> Summary:
        """Return what is known after a step."""
        rows = self._journal.read(number, *KINDS)
        counts = rows.groupBy("kind").agg(f.count("*").alias("rows")).collect()
        heard = (
            self._journal.read(number, "life")
            .where("fresh")
            .groupBy("agent")
            .agg(f.max("heard_us").alias("heard_us"))
            .collect()
        )
        read = self._journal.read(number, "offset", "decoded").collect()
        ranges = [
            Range(r["topic"], r["partition"], r["offset"], r["last_offset"])
            for r in read
            if r["kind"] == "offset"
        ]
        offsets, losses = follow(before.offsets, ranges)
        return Summary(
            batch=number,
            window_us=WINDOW_US,
            reference_us=reference_us(
                before.reference_us, [row["heard_us"] for row in heard]
            ),
            watermark_us=watermark_us,
            offsets=offsets,
            kinds={row["kind"]: row["rows"] for row in counts},
            revision=max(self._history.newest, 0),
            rows=sum(r["messages"] for r in read if r["kind"] == "decoded"),
            messages=sum(r["messages"] for r in read if r["kind"] == "offset"),
            # Files come in the order of their age, which need not be that of offsets.
            losses=losses if self._settings.bootstrap else [],
        )

    def _limits(self, summary: Summary) -> DataFrame:
        """Return the limits of all revisions that were known when the step ran."""
        if self._known is None or self._known[0] != summary.revision:
            history = self._history.read()
            known = [c for c in history if c.revision <= summary.revision]
            self._known = summary.revision, limits_frame(self._session, known)
        return self._known[1]

    def _publish(self, before: Summary, summary: Summary, number: int) -> None:
        """Write all tables of one batch."""
        self._side_tables(summary, number)
        if summary.kinds.get("usage"):
            limits = self._limits(summary)
            usage = usage_of(self._journal.read(number, "usage"), limits)
            self._windows(usage, limits, number)
        for name, source, seconds in ROLLED:
            self._roll_up(name, source, seconds, before, summary)

    def _side_tables(self, summary: Summary, number: int) -> None:
        """Write what is rare: dead letters, losses, gaps, ended lives."""
        if summary.kinds.get("dead"):
            dead = self._journal.read(number, "dead")
            self.tables.write("dead_letters", _dead_letters(dead), number)
        if summary.losses:
            self.tables.write("losses", self._losses(summary), number)
        if summary.kinds.get("gap") or summary.kinds.get("healed"):
            ends = self._journal.read(number, "gap", "healed")
            found = gaps(ends, self._limits(summary), self._settings.silence_s)
            self.tables.write("gaps", found, number)
        if summary.kinds.get("ended"):
            ended = self._journal.read(number, "ended")
            self.tables.write("counters", final_counters(ended), number)

    def _windows(self, usage: DataFrame, limits: DataFrame, number: int) -> None:
        """Write the tables of closed windows."""
        self.tables.write("usage_10s", usage, number)
        # Read back: a few columns of a table cost less than decoding and joining anew.
        usage = self.tables.read("usage_10s", batch=number)
        self._compare(usage, limits, number)
        if number != OPEN_BATCH:
            self._alert(number)

    def _compare(self, usage: DataFrame, limits: DataFrame, number: int) -> None:
        """Write what comes of bringing together the agents of each group."""
        jobs = COMPARING.intersection(self._settings.jobs)
        if not jobs:
            return
        found = judged(usage, WINDOW_S).persist()
        if "violations" in jobs:
            over = violations(usage, totals(found), limits, WINDOW_S)
            self.tables.write("violations", over, number)
        if "unfairness" in jobs:
            self.tables.write("unfairness", unfairness(found), number)
        if "starved" in jobs:
            self.tables.write("starved", starved(found), number)
        found.unpersist()

    def _alert(self, number: int) -> None:
        """Tell of this batch's violations and starved agents."""
        settings = self._settings
        if not (settings.alert_topic or settings.webhook):
            return
        found = alerts(
            self.tables.read("violations", batch=number),
            self.tables.read("starved", batch=number),
        ).persist()
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
        self, name: str, source: str, seconds: int, before: Summary, now: Summary
    ) -> None:
        """Write the longer windows that this batch completed."""
        length_us = seconds * 1_000_000
        begin_us = before.watermark_us // length_us * length_us
        end_us = now.watermark_us // length_us * length_us
        if end_us <= begin_us:
            return
        shorter = self.tables.read(source)
        longer = rolled_up(between(shorter, begin_us, end_us), seconds)
        self.tables.write(name, longer, now.batch)
        if name == "usage_1m" and "noisy" in self._settings.jobs:
            minutes = self.tables.read(name)
            found = noisy(
                between(minutes, begin_us, end_us),
                between(minutes, begin_us - PAST_WINDOWS * length_us, end_us),
                window_s=seconds,
                past_windows=PAST_WINDOWS,
            )
            self.tables.write("noisy", found, now.batch)

    def _losses(self, summary: Summary) -> DataFrame:
        rows = [
            (o.topic, o.partition, o.expected, o.found, o.messages)
            for o in summary.losses
        ]
        schema = "topic string, partition int, expected_offset long, "
        schema += "found_offset long, messages long"
        noticed = f.timestamp_micros(f.lit(summary.reference_us)).alias("noticed")
        frame = self._session.createDataFrame(rows, schema)
        return frame.select(noticed, "*").select(*LOSSES.names)


_MESSAGES = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)
"""The columns of Spark's Kafka source."""


def _dead_letters(step_rows: DataFrame) -> DataFrame:
    return step_rows.select(
        f.timestamp_micros("broker_us").alias("received"),
        "topic",
        "partition",
        "offset",
        "reason",
        "payload",
    ).select(*DEAD_LETTERS.names)


def _lost(losses: list[Loss]) -> str:
    """Return a sentence on lost messages."""
    total = sum(loss.messages for loss in losses)
    first = losses[0]
    return (
        f"{total} messages were gone before they were read, the first at offset "
        f"{first.expected} of {first.topic}/{first.partition}: the topic's retention "
        "is shorter than the pipeline's lag. Totals stay right as far as later "
        "reports carry them. Go on with --lost-is continue."
    )
