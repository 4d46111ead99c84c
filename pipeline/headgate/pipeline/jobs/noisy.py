"""Who talks most in a group, and whether they talk more than they usually do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import KEYS
from headgate.pipeline.tables.schema import NOISY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOP = 5
"""Agents that are listed for a group and window."""


def noisy(
    usage: DataFrame, past: DataFrame, *, window_s: float, past_windows: int
) -> DataFrame:
    """Return the top talkers of each group and window.

    Args:
        usage: Rows of `schema.USAGE`.
        past: The same, from `past_windows` windows before the first on: the mean of
            the windows before is what an agent usually attempts; a window without
            a row counts as 0.
        window_s: Length of the windows.
        past_windows: How many windows before count.
    """
    group = Window.partitionBy("window_start", *KEYS)
    ranked = group.orderBy(f.col("attempted").desc(), "agent")
    talkers = (
        usage.groupBy("window_start", *KEYS, "agent")
        .agg(f.sum("attempted").alias("attempted"), f.sum("admitted").alias("admitted"))
        .withColumn("part", f.col("attempted") / f.sum("attempted").over(group))
        .withColumn("rank", f.row_number().over(ranked).cast("long"))
        .where(f.col("rank") <= TOP)
    )
    earlier = past.select(
        f.unix_seconds("window_start").alias("_then"),
        f.col("group_id").alias("_id"),
        f.col("dimension").alias("_dimension"),
        f.col("agent").alias("_agent"),
        f.col("attempted").alias("_attempted"),
    )
    age_s = f.unix_seconds("window_start") - f.col("_then")
    own = (
        (f.col("group_id") == f.col("_id"))
        & (f.col("dimension") == f.col("_dimension"))
        & (f.col("agent") == f.col("_agent"))
        & (age_s > 0)
        & (age_s <= window_s * past_windows)
    )
    return (
        talkers.join(earlier, own, "left")
        .groupBy(*talkers.columns)
        .agg((f.sum("_attempted") / past_windows).alias("usual"))
        .withColumn("change", f.col("attempted") / f.col("usual"))
        .withColumn("window_s", f.lit(float(window_s)))
        .select(*NOISY.names)
    )
