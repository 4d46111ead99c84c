"""The limits' metrics for OpenTelemetry, with bounded cardinality.

::

    observe_limits(agent, metrics.get_meter("my-service"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from headgate.agent.integrations.series import COUNTERS, GAUGES, MOST_SERIES, series_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headgate.agent.integrations.sources import UsageSource


def observe_limits(
    source: UsageSource, meter: Meter, *, most_series: int = MOST_SERIES
) -> None:
    """Make a meter observe the limits of an agent.

    Args:
        source: The agent.
        meter: The service's meter.
        most_series: Number of limits, the busiest, with attributes of their own.
    """

    def callback(field: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            series = series_of(source.usage(), most=most_series)
            for (group, dimension, scope), usage in series.items():
                yield Observation(
                    float(getattr(usage, field)),
                    {"group": group, "dimension": dimension, "scope": scope},
                )

        return observe

    for field, help_ in GAUGES.items():
        name = f"headgate.limit.{field}"
        meter.create_observable_gauge(name, [callback(field)], description=help_)
    for field, help_ in COUNTERS.items():
        name = f"headgate.limit.{field}"
        meter.create_observable_counter(name, [callback(field)], description=help_)
