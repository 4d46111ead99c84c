"""The limits' metrics for a Prometheus client, with bounded cardinality.

::

    prometheus_client.REGISTRY.register(LimitCollector(agent))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headgate.agent.integrations.series import COUNTERS, GAUGES, MOST_SERIES, series_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from headgate.agent.integrations.sources import UsageSource

LABELS = ("group", "dimension", "scope")


class LimitCollector(Collector):
    """Collects seven metrics for each limit: three gauges and four counters."""

    def __init__(self, source: UsageSource, *, most_series: int = MOST_SERIES) -> None:
        """Collect from an agent.

        Args:
            source: The agent.
            most_series: Number of limits, the busiest, with labels of their own.
        """
        self._source = source
        self._most = most_series

    def describe(self) -> Iterator[Metric]:
        """Describe nothing in advance: registering must not query the agent."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        series = series_of(self._source.usage(), most=self._most)
        for field, help_ in GAUGES.items():
            gauge = GaugeMetricFamily(f"headgate_limit_{field}", help_, labels=LABELS)
            for labels, usage in series.items():
                gauge.add_metric(labels, float(getattr(usage, field)))
            yield gauge
        for field, help_ in COUNTERS.items():
            counter = CounterMetricFamily(
                f"headgate_limit_{field}", help_, labels=LABELS
            )
            for labels, usage in series.items():
                counter.add_metric(labels, float(getattr(usage, field)))
            yield counter
