"""Windows in which a group was admitted more than its limit allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.configured.limits_frame import allowed_within, limited
from headgate.pipeline.jobs.usage import WINDOW
from headgate.pipeline.tables.schema import VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAKERS = 5
"""Agents named in a violation: those that took most."""


def exceeded(totals: DataFrame, limits: DataFrame, window_s: float) -> DataFrame:
    """Return the totals whose admitted units exceed rate · window + burst.

    Displaced units are left out: when they were used is not known.

    Args:
        totals: From `fairness.totals`, of windows of `window_s` seconds.
        limits: From `configured.limits_frame`.
        window_s: Length of the windows.
    """
    return (
        limited(totals, limits)
        .withColumn("allowed", allowed_within(f.lit(float(window_s))))
        .where(f.col("admitted") > f.col("allowed"))
        .drop("revision_first", "revision_last")
    )


def violations(usage: DataFrame, over: DataFrame, window_s: float) -> DataFrame:
    """Return windows that exceed their limit, with names and the largest users.

    Args:
        usage: Rows of `schema.USAGE`, windows of `window_s` seconds.
        over: Of the same, from `exceeded`: few.
        window_s: Length of the windows.
    """
    return (
        over.join(_who(usage, over), [*WINDOW])
        .withColumn("window_s", f.lit(float(window_s)))
        .withColumn("excess", f.col("admitted") - f.col("allowed"))
        .select(*VIOLATIONS.names)
    )


def _who(usage: DataFrame, over: DataFrame) -> DataFrame:
    """Return names and takers of the groups and windows in `over`."""
    taker = f.struct(f.col("agent"), f.col("admitted"))
    # Sorted by amount, then name, so that equal amounts have a fixed order.
    order = f.struct(-f.col("admitted"), f.col("agent"), taker.alias("taker"))
    return (
        usage.where(~f.col("displaced") & (f.col("admitted") > 0))
        .join(f.broadcast(over.select(*WINDOW)), [*WINDOW])
        .groupBy(*WINDOW)
        .agg(
            f.max_by("group", "revision_last").alias("group"),
            f.max_by("tenant", "revision_last").alias("tenant"),
            f.count_distinct("agent").alias("agents"),
            f.slice(f.sort_array(f.collect_list(order)), 1, TAKERS).alias("ordered"),
        )
        .withColumn("takers", f.col("ordered.taker"))
        .drop("ordered")
    )
