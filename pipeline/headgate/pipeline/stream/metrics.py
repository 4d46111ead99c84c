"""The pipeline's own Prometheus metrics: lag, batches, unusable messages."""

from __future__ import annotations

from contextlib import contextmanager
from math import nan
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    start_http_server,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from headgate.pipeline.stream.batch_log import BatchSummary

BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Buckets for a batch's time: from below to far above the usual trigger of 10 s."""


class PipelineMetrics:
    """Counts batches as they end.

    Attributes:
        registry: What is served.
    """

    def __init__(self) -> None:
        """Begin at zero, as every process does."""
        self.registry = CollectorRegistry()
        self._batches = Counter(
            "headgate_pipeline_batches", "Completed batches.",
            registry=self.registry,
        )  # fmt: skip
        self._messages = Counter(
            "headgate_pipeline_messages", "Messages read from the usage topic.",
            registry=self.registry,
        )  # fmt: skip
        self._rows = Counter(
            "headgate_pipeline_rows", "Rows (agent, group, dimension) of reports.",
            registry=self.registry,
        )  # fmt: skip
        self._dead = Counter(
            "headgate_pipeline_dead_letters", "Messages that could not be used.",
            registry=self.registry,
        )  # fmt: skip
        self._lost = Counter(
            "headgate_pipeline_lost_messages",
            "Messages deleted before they were read.",
            registry=self.registry,
        )  # fmt: skip
        self._gaps = Counter(
            "headgate_pipeline_gaps", "Lives that ended without a goodbye.",
            registry=self.registry,
        )  # fmt: skip
        self._batch_s = Histogram(
            "headgate_pipeline_batch_seconds",
            "Seconds from the end of one batch to the end of the next.",
            buckets=BUCKETS_S, registry=self.registry,
        )  # fmt: skip
        self._lag = Gauge(
            "headgate_pipeline_lag_messages",
            "Messages still to be read of those that the topic held when the batch "
            "before the newest began; NaN if the source doesn't say.",
            registry=self.registry,
        )
        self._heard = Gauge(
            "headgate_pipeline_heard_until_seconds",
            "Event time up to which all live agents were heard, s since the epoch.",
            registry=self.registry,
        )
        self._closed = Gauge(
            "headgate_pipeline_closed_until_seconds",
            "End of the newest closed window, s since the epoch.",
            registry=self.registry,
        )
        self._lag.set(nan)
        self._since(None)

    def resume(self, summary: BatchSummary | None) -> None:
        """Begin with the times that the output knows, before this run's first batch.

        A run that completes none must show how far behind it is.

        Args:
            summary: What is known after the newest step; None before the first.
        """
        self._since(summary)

    def observe(self, summary: BatchSummary, took_s: float, behind: int | None) -> None:
        """Take in a batch that is complete.

        Args:
            summary: What is known after it.
            took_s: Seconds since the one before.
            behind: From `progress.waiting`; None if the source doesn't say.
        """
        self._batches.inc()
        self._messages.inc(summary.messages)
        self._rows.inc(summary.rows)
        self._dead.inc(summary.kinds.get("dead", 0))
        self._lost.inc(sum(max(loss.messages, 0) for loss in summary.losses))
        self._gaps.inc(summary.kinds.get("gap", 0))
        self._batch_s.observe(took_s)
        self._lag.set(nan if behind is None else behind)
        self._since(summary)

    def _since(self, summary: BatchSummary | None) -> None:
        """Set the times; NaN is unknown, where 0 would be half a century of delay."""
        heard_us = summary.reference_us if summary is not None else 0
        closed_us = summary.floor_us if summary is not None else 0
        self._heard.set(heard_us / 1e6 if heard_us else nan)
        self._closed.set(closed_us / 1e6 if closed_us else nan)

    @contextmanager
    def served(self, port: int, host: str) -> Generator[int]:
        """Serve ``/metrics`` until the end of the block; give the port.

        Raises:
            OSError: The address is taken, or does not belong to this machine.
        """
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            place = f"metrics on {host}:{port}"
            raise OSError(error.errno, error.strerror, place) from None
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
