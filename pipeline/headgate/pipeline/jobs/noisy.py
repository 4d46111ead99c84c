"""Which agents attempt most in a group, and whether that is more than usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import KEYS, exact_sum
from headgate.pipeline.tables.schema import NOISY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOP = 5
"""Most agents listed per group and window."""


def noisy(
    usage: DataFrame, past: DataFrame, *, window_s: float, past_windows: int
) -> DataFrame:
    """Return the top talkers of each group and window, by attempts per weight.

    Args:
        usage: Rows of `schema.USAGE`.
        past: The same, beginning `past_windows` windows before the first: the mean
            of the windows before is what an agent usually attempts.  A window without
            a row counts as 0 after the agent's first row; an agent without any rows
            has no usual amount.
        window_s: Length of the windows.
        past_windows: How many windows before count.
    """
    talkers = _top_talkers(usage)
    usual = _with_usual(talkers, past, window_s=window_s, past_windows=past_windows)
    return (
        usual.withColumn(
            "change", f.when(f.col("usual") > 0, f.col("attempted") / f.col("usual"))
        )
        .withColumn("window_s", f.lit(float(window_s)))
        .select(*NOISY.names)
    )


def _top_talkers(usage: DataFrame) -> DataFrame:
    """Return the `TOP` agents of each group and window, with rank and part."""
    group = Window.partitionBy("window_start", *KEYS)
    ranked = group.orderBy((f.col("attempted") / f.col("weight")).desc(), "agent")
    return (
        usage.groupBy("window_start", *KEYS, "agent")
        .agg(
            f.max_by("weight", "revision_last").alias("weight"),
            exact_sum("attempted"),
            exact_sum("admitted"),
        )
        .withColumn("part", f.col("attempted") / f.sum("attempted").over(group))
        .withColumn("rank", f.row_number().over(ranked).cast("long"))
        .where(f.col("rank") <= TOP)
    )


def _with_usual(
    talkers: DataFrame, past: DataFrame, *, window_s: float, past_windows: int
) -> DataFrame:
    """Return `talkers` with the mean of what each attempted in the windows before."""
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
    # An agent that started a minute ago was not silent in the four minutes before.
    born = earlier.groupBy(f.col("_agent").alias("agent")).agg(
        f.min("_then").alias("_born")
    )
    lived_s = f.unix_seconds("window_start") - f.col("_born")
    lived = f.least(lived_s / window_s, f.lit(float(past_windows)))
    return (
        talkers.join(born, "agent", "left")
        .withColumn("_lived", f.when(lived > 0, lived))
        .join(earlier, own, "left")
        .groupBy(*talkers.columns, "_lived")
        .agg(
            (f.coalesce(f.sum("_attempted"), f.lit(0.0)) / f.col("_lived")).alias(
                "usual"
            )
        )
    )
