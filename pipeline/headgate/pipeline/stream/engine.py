"""The engine: a batch of messages in, one step, all tables written once.

The order within a batch is step → tables → alerts, and each part is safe to repeat.
Spark's checkpoint says which messages a batch holds, the newest step which state it
starts from; a batch that was interrupted anywhere is run again on the same input, and
every table skips what it has already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.counters.evidence import ClosedLives
from headgate.pipeline.counters.incarnation import Times
from headgate.pipeline.jobs.gaps import final_counters
from headgate.pipeline.jobs.usage import usage_of
from headgate.pipeline.settings import WINDOW_S, OutputIncomplete, PipelineSettings
from headgate.pipeline.stream.batch_log import ANOTHER, BatchLog, BatchSummary, Loss
from headgate.pipeline.stream.maintenance import Maintenance
from headgate.pipeline.stream.publish import Publisher
from headgate.pipeline.stream.source import MESSAGES
from headgate.pipeline.stream.step import Rules, clusters_of, counters_of, routed, step
from headgate.pipeline.tables.schema import STREAMED
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.configured.history import ConfigurationHistory

WINDOW_US = WINDOW_S * 1_000_000

FOREVER_US = 1 << 61
"""A watermark that closes every window."""


class LostMessages(RuntimeError):
    """The topic dropped messages before they were read."""


class MixedClusters(RuntimeError):
    """The topic carries several clusters, and none was chosen."""


@dataclass(slots=True)
class _Known:
    """What the driver remembers from batch to batch; read again after a start."""

    head: BatchSummary | None = None
    summary: BatchSummary | None = None
    closed: ClosedLives | None = None
    limits: tuple[int, DataFrame] | None = None
    may_have_open: bool = True


class StreamEngine:
    """Turns batches of messages into tables.

    Attributes:
        tables: The store.
        out: URI of tables, state and checkpoint.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: PipelineSettings,
        history: ConfigurationHistory,
        *,
        topic_id: str = "",
        after: Callable[[BatchSummary], None] = lambda summary: None,
    ) -> None:
        """Write to the output named in `settings`.

        Args:
            session: With Delta's extension; see `stream.session`.
            settings: Of the run.
            history: Names and limits, revision by revision.
            topic_id: Kafka's id of the topic, kept with the state.
            after: Called after each complete batch.
        """
        self.out = settings.out
        self.tables = TableStore(session, settings.tables)
        self._session = session
        self._settings = settings
        self._history = history
        self._topic_id = topic_id
        self._after = after
        self._steps = BatchLog(session, settings.steps)
        self._publisher = Publisher(session, settings, self.tables, self._steps)
        self._maintenance = Maintenance(settings, self.tables, self._steps)
        self._known = _Known()

    def batch(self, messages: DataFrame, number: int) -> None:
        """Handle one batch; the function for ``foreachBatch``.

        Raises:
            LostMessages: Messages are gone, and that is fatal by the settings.
            MixedClusters: There are reports of several clusters, and none was chosen.
            OutputIncomplete: The checkpoint and the state don't belong together.
        """
        head = self._head_of(messages, number)
        now = self._summary(head)
        if now.losses and (self._settings.lost_is_fatal or _is_anew(now.losses)):
            raise LostMessages(_lost(now.losses))
        self._drop_open(now)
        self._publisher.publish(head, now, self._limits(now))
        self._remember_closed(now)
        self._known.summary = now
        self._after(now)
        self._maintenance.after_batch(now)

    def pin(self) -> BatchSummary | None:
        """Read the state as it is now, whatever a concurrent run adds to it.

        Returns:
            What was known before the newest step; None before the first.
        """
        self._steps.pin()
        return self._steps.head()

    def is_published(self) -> bool:
        """Whether the usage of the newest step is in its table."""
        head = self._steps.head()
        if head is None or not self._steps.tally().kinds.get("usage"):
            return True
        return self.tables.version("usage_10s") > head.versions["usage_10s"]

    def newest(self) -> BatchSummary | None:
        """Return what is known after the newest step; None before the first."""
        head = self._steps.head()
        return None if head is None else self._summary(head)

    def close_windows(self) -> BatchSummary | None:
        """Write what open windows hold so far to the table ``usage_open``.

        For runs that end with the topic: otherwise the last windows would wait for
        newer reports.  The state is not touched; the next batch empties the table.
        """
        summary = self.newest()
        if summary is not None:
            self._known.may_have_open = True
            self.tables.replace("usage_open", self.open_usage(summary), summary.batch)
        return summary

    def open_usage(self, summary: BatchSummary) -> DataFrame:
        """Return what open windows hold so far."""
        nothing = self._session.createDataFrame([], MESSAGES)
        times = replace(
            self._times(summary), watermark_us=FOREVER_US, silence_us=2 * FOREVER_US
        )
        rules = Rules(times=times, partitions=self._partitions)
        rows = step(routed(nothing, keyed=True), self._steps.read("life"), rules)
        return usage_of(rows.where("kind = 'usage'"), self._limits(summary))

    def counters(self, upto_batch: int | None = None) -> DataFrame:
        """Return the agents' own counters, of ended and of current lives."""
        ended = self.tables.read("counters", upto_batch=upto_batch)
        alive = counters_of(self._steps.read("life"))
        return ended.unionByName(final_counters(alive))

    @property
    def _partitions(self) -> int:
        cores = self._session.sparkContext.defaultParallelism
        return self._settings.partitions or 2 * cores

    def _head_of(self, messages: DataFrame, number: int) -> BatchSummary:
        """Return what was known before batch `number`, whose step is then written."""
        head = self._known.head or self._steps.head()
        if head is None and number == 0:
            before = BatchSummary(window_us=WINDOW_US)
        elif head is not None and head.batch == number:
            return head  # written before a crash or failure: only to be published
        elif head is not None and head.batch == number - 1:
            before = self._known.summary or self._summary(head)
        else:
            there = "missing" if head is None else f"at batch {head.batch}"
            raise OutputIncomplete(
                f"{self.out}: the checkpoint is at batch {number}, but the state is "
                f"{there}; restore both from one backup, or {ANOTHER}"
            )
        self._known.head = self._step(messages, before, number)
        return self._known.head

    def _times(self, before: BatchSummary) -> Times:
        """Return the times that apply to the batch after `before`."""
        lateness_us = int(self._settings.lateness_s * 1e6)
        watermark_us = max(before.watermark_us, before.reference_us - lateness_us)
        return Times(
            window_us=WINDOW_US,
            floor_us=before.floor_us,
            watermark_us=watermark_us,
            silence_us=int(self._settings.silence_s * 1e6),
            keep_us=int(self._settings.keep_s * 1e6),
        )

    def _step(
        self, messages: DataFrame, before: BatchSummary, number: int
    ) -> BatchSummary:
        """Run the step of one batch and keep it; return its head."""
        settings = self._settings
        named = routed(messages, keyed=settings.keyed)
        cluster = settings.cluster or before.cluster or _only_cluster(named)
        times = self._times(before)
        rules = Rules(
            times=times,
            cluster=cluster,
            report_keys=settings.report_keys,
            closed=self._closed(),
            partitions=self._partitions,
        )
        head = replace(
            before,
            batch=number,
            closed_us=times.watermark_us,
            cluster=cluster,
            topic_id=self._topic_id or before.topic_id,
            verified=before.verified and bool(settings.report_keys),
            revision=max(self._history.newest, 0),
            versions={name: self.tables.version(name) for name in STREAMED},
        )
        self._steps.write(head, step(named, self._steps.read("life"), rules))
        return head

    def _summary(self, head: BatchSummary) -> BatchSummary:
        """Return what is known after the newest step."""
        after = head.after(self._steps.tally(), ordered=bool(self._settings.bootstrap))
        # Steps of earlier versions don't say it.
        closed_us = head.closed_us or self._times(head).watermark_us
        return replace(after, watermark_us=closed_us)

    def _closed(self) -> ClosedLives:
        """Return the lives whose counters are final."""
        if self._known.closed is None:
            lives = self.tables.read("counters").select("agent", "incarnation")
            found = [(row[0], row[1]) for row in lives.distinct().collect()]
            self._known.closed = ClosedLives.of(found)
        return self._known.closed

    def _remember_closed(self, now: BatchSummary) -> None:
        """Add the lives that ended in this batch."""
        if now.kinds.get("ended") and self._known.closed is not None:
            lives = self._steps.read("ended").select("agent", "incarnation")
            found = [(row[0], row[1]) for row in lives.distinct().collect()]
            self._known.closed = self._known.closed.joined(ClosedLives.of(found))

    def _drop_open(self, now: BatchSummary) -> None:
        """Empty the table of provisional rows, which would now be counted twice."""
        if self._known.may_have_open and self.tables.version("usage_open") >= 0:
            empty = self.tables.read("usage_open").limit(0)
            self.tables.replace("usage_open", empty, now.batch)
        self._known.may_have_open = False

    def _limits(self, summary: BatchSummary) -> DataFrame:
        """Return the limits of all revisions that were known when the step ran."""
        known = self._known.limits
        if known is None or known[0] != summary.revision:
            history = self._history.read()
            seen = [c for c in history if c.revision <= summary.revision]
            known = summary.revision, limits_frame(self._session, seen)
            self._known.limits = known
        return known[1]


def _only_cluster(messages: DataFrame) -> str:
    """Return the cluster whose reports these are; empty if none can be read.

    Raises:
        MixedClusters: They belong to several.
    """
    found = clusters_of(messages)
    if len(found) > 1:
        names = ", ".join(map(repr, found))
        raise MixedClusters(
            f"the topic carries reports of the clusters {names}: choose one with "
            "--cluster, and give each its own --out"
        )
    return found[0] if found else ""


def _is_anew(losses: list[Loss]) -> bool:
    """Whether offsets went back, which happens only if the topic is another one."""
    return any(loss.messages < 0 for loss in losses)


def _lost(losses: list[Loss]) -> str:
    """Return a sentence on lost messages."""
    first = next((loss for loss in losses if loss.messages < 0), losses[0])
    place = f"{first.topic}/{first.partition}"
    if first.messages < 0:
        return (
            f"the topic {first.topic} was deleted and re-created: offset {first.found} "
            f"of {place} came after {first.expected}; {ANOTHER}"
        )
    total = sum(loss.messages for loss in losses)
    return (
        f"{total} messages were deleted before they were read, the first at offset "
        f"{first.expected} of {place}: the topic's retention is shorter than the "
        "pipeline's lag. Totals stay correct as far as later reports include them. "
        "To go on, use --lost-is continue."
    )
