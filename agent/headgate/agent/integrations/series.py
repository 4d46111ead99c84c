"""Which limits get metric series of their own: the busiest; the rest share one.

A process may use thousands of groups; seven series for each would cost its monitoring
more than the limiter costs the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.bucket.local import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_SERIES = 200
"""Limits with labels of their own; with seven metrics each, 1,400 series."""

REST = "(other)"
"""Label of the sum of the others."""

GAUGES = {
    "rate": "Refill rate of the local bucket, units per second.",
    "share": "Rate allocated to this process, units per second.",
    "tokens": "Units in the local bucket; negative when in debt.",
}

COUNTERS = {
    "admitted": "Units admitted.",
    "refused": "Units refused.",
    "shadow_refused": "Units admitted only because the group is in shadow mode.",
    "throttle_s": "Seconds of delay given to refused and muted callers.",
}

Labels = tuple[str, str, str]
"""Group, dimension, scope."""


def series_of(usages: Iterable[Usage], *, most: int) -> dict[Labels, Usage]:
    """Return the busiest limits by labels, and the sum of the others.

    The busiest are those that have admitted and refused most since the start, so that
    limits don't come and go with every scrape.  When one of the rest becomes busy, the
    counters of the rest fall, which Prometheus treats as a restart.

    Args:
        usages: All limits of a process.
        most: Number of limits with labels of their own.
    """
    busiest = sorted(usages, key=lambda u: u.admitted + u.refused, reverse=True)
    series = {(u.group, u.dimension, str(u.scope)): u for u in busiest[:most]}
    for usage in busiest[most:]:
        labels = (REST, usage.dimension, str(usage.scope))
        before = series.get(labels)
        series[labels] = usage if before is None else _sum(before, usage)
    return series


def _sum(one: Usage, other: Usage) -> Usage:
    figures = {
        field: getattr(one, field) + getattr(other, field)
        for field in (*GAUGES, *COUNTERS)
    }
    return Usage(group=REST, dimension=one.dimension, scope=one.scope, **figures)
