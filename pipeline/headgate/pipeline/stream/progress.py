"""The progress shown while the stream runs: one line per batch."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.pipeline.stream.batch_log import BatchSummary

    Offsets = Mapping[str, Mapping[str, int]]
    from headgate.pipeline.stream.metrics import PipelineMetrics
    from headgate.pipeline.stream.run import StreamRun

HEADER_EVERY = 20
"""Lines between two headings."""


class Progress:
    """Writes rate, lag and the last window of each batch.

    Attributes:
        batch: Number of the last one; None before the first of this run.
    """

    def __init__(self, stream: TextIO, metrics: PipelineMetrics | None = None) -> None:
        """Write to `stream`, and pass each batch to `metrics`."""
        self._stream = stream
        self._metrics = metrics
        self._run: StreamRun | None = None
        self._lines = 0
        self.batch: int | None = None
        self._last_s = time.monotonic()

    def watch(self, run: StreamRun) -> None:
        """Take the lag from this run, and begin where its output ends."""
        self._run = run
        if self._metrics is not None:
            self._metrics.resume(run.engine.newest())

    def show(self, summary: BatchSummary) -> None:
        """Write the line of a batch that is complete."""
        self.batch = summary.batch
        now_s = time.monotonic()
        took_s, self._last_s = now_s - self._last_s, now_s
        if self._lines % HEADER_EVERY == 0:
            self._stream.write(_line("batch", "messages", "rows/s", "lag", "closed to"))
        self._lines += 1
        behind = _behind(self._run, summary) if self._run else None
        if self._metrics is not None:
            self._metrics.observe(summary, took_s, behind)
        closed_us = summary.floor_us
        closed = datetime.fromtimestamp(closed_us / 1e6, UTC) if closed_us else None
        text = _line(
            str(summary.batch),
            f"{summary.messages:,}",
            f"{summary.rows / max(took_s, 1e-3):,.0f}",
            f"{behind:,}" if behind is not None else _age(summary),
            f"{closed:%Y-%m-%d %H:%M:%S}" if closed else "–",
        )
        self._stream.write(text)
        for loss in summary.losses:
            self._stream.write(
                f"  {loss.messages:,} messages of {loss.topic}/{loss.partition} were "
                f"deleted before they were read (from offset {loss.expected})\n"
            )
        if summary.kinds.get("dead"):
            self._stream.write(f"  {summary.kinds['dead']:,} dead letters\n")
        self._stream.flush()


def _age(summary: BatchSummary) -> str:
    """Return how old the newest reports are; a dash before the first one."""
    if not summary.reference_us:
        return "–"
    return f"{max(time.time() - summary.reference_us / 1e6, 0.0):,.0f} s"


def _behind(run: StreamRun, summary: BatchSummary) -> int | None:
    """Return the lag after a batch, as `waiting` does."""
    query = run.query
    progress = query.lastProgress if query is not None else None
    return waiting(progress.json, summary.offsets) if progress is not None else None


def waiting(progress: str, offsets: Mapping[str, int]) -> int | None:
    """Return how many messages of all partitions are known to be still unread.

    Spark tells the ends of the partitions when it commits a batch, and it commits one
    only after this is asked.  So these ends are from when the former batch began, and
    what has arrived in the time of two batches since then is not counted.

    Args:
        progress: Spark's, in JSON, of the newest batch that it has committed.
        offsets: Next offset by ``topic/partition`` after the batch that follows.

    Returns:
        What was unread when the former batch began, less what both have read; None if
        the source isn't Kafka.
    """
    (source,) = json.loads(progress)["sources"]
    ends: Offsets | None = source.get("latestOffset")
    begun: Offsets = source.get("endOffset") or {}
    if not ends or not source["description"].startswith("Kafka"):
        return None
    count = 0
    for topic, partitions in ends.items():
        for partition, newest in partitions.items():
            upto = begun.get(topic, {}).get(partition, 0)
            read = offsets.get(f"{topic}/{partition}", 0)
            count += max(newest - max(upto, read), 0)
    return count


def _line(*cells: str) -> str:
    batch, messages, rate, lag, closed = cells
    return f"{batch:>7} {messages:>11} {rate:>11} {lag:>9}  {closed}\n"
