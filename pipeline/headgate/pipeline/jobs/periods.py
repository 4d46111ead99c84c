"""How much of calendar limits was used, period by period.

A limit of a million a month is never exceeded within a window of ten seconds; whether
it was kept shows in the sum of the month, in the limit's own time zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import WINDOW, exact_sum
from headgate.pipeline.tables.schema import PERIODS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PERIOD = (
    "group_id", "dimension", "period", "time_zone", "period_start", "period_end",
)  # fmt: skip


def periods(usage: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the use of each calendar period, rows of `schema.PERIODS`.

    Usage within a report interval of a boundary may count towards the period on the
    other side of it, as in every window.

    Args:
        usage: Rows of `schema.USAGE`, each window once.
        limits: From `configured.limits_frame`.
    """
    windows = usage.groupBy(*WINDOW).agg(
        exact_sum("admitted"),
        exact_sum("refused"),
        f.min("revision_first").alias("revision_first"),
        f.max("revision_last").alias("revision_last"),
        f.max_by("group", "revision_last").alias("group"),
        f.max_by("tenant", "revision_last").alias("tenant"),
    )
    return (
        _limited_by_calendar(windows, limits)
        .withColumn("period_start", _start())
        .withColumn("period_end", _end())
        .groupBy(*_PERIOD)
        .agg(
            f.max_by("group", "revision_last").alias("group"),
            f.max_by("tenant", "revision_last").alias("tenant"),
            f.max("allowed").alias("allowed"),
            exact_sum("admitted"),
            exact_sum("refused"),
        )
        .withColumn(
            "used_part",
            f.when(f.col("allowed") > 0, f.col("admitted") / f.col("allowed")),
        )
        .withColumn(
            "excess", f.greatest(f.col("admitted") - f.col("allowed"), f.lit(0.0))
        )
        .select(*PERIODS.names)
    )


def _limited_by_calendar(windows: DataFrame, limits: DataFrame) -> DataFrame:
    """Add ``period``, ``time_zone`` and ``allowed``; the newest limit counts."""
    ranges = limits.where(f.col("period").isNotNull()).select(
        f.col("group_id").alias("_id"),
        f.col("dimension").alias("_dimension"),
        f.struct("from_revision", "period", "time_zone", "burst").alias("limit"),
        "until_revision",
    )
    then = (
        (f.col("group_id") == f.col("_id"))
        & (f.col("dimension") == f.col("_dimension"))
        & (f.col("limit.from_revision") <= f.col("revision_last"))
        & (f.col("until_revision") > f.col("revision_first"))
    )
    return (
        windows.join(f.broadcast(ranges), then)
        .groupBy(*windows.columns)
        .agg(f.max("limit").alias("limit"))
        .select(
            "*",
            "limit.period",
            "limit.time_zone",
            f.col("limit.burst").alias("allowed"),
        )
    )


def _start() -> Column:
    """Return when the period of a window began, in UTC."""
    local = f.from_utc_timestamp("window_start", f.col("time_zone"))
    begun = f.expr("date_trunc(period, from_utc_timestamp(window_start, time_zone))")
    # Hours and minutes keep their length when clocks are set back: the hour that comes
    # twice is two periods.  Days and longer periods begin at local midnight.
    into_us = f.unix_micros(local) - f.unix_micros(begun)
    short = f.timestamp_micros(f.unix_micros("window_start") - into_us)
    return f.when(f.col("period").isin("minute", "hour"), short).otherwise(
        f.to_utc_timestamp(begun, f.col("time_zone"))
    )


def _end() -> Column:
    """Return when the period that begins at ``period_start`` ends, in UTC."""
    end = f.lit(None).cast("timestamp")
    for period, length in (
        ("minute", f.make_interval(mins=f.lit(1))),
        ("hour", f.make_interval(hours=f.lit(1))),
    ):
        later = f.col("period_start") + length
        end = f.when(f.col("period") == period, later).otherwise(end)
    local = f.from_utc_timestamp("period_start", f.col("time_zone"))
    for period, length in (
        ("day", f.make_interval(days=f.lit(1))),
        ("week", f.make_interval(days=f.lit(7))),
        ("month", f.make_interval(months=f.lit(1))),
        ("year", f.make_interval(years=f.lit(1))),
    ):
        later = f.to_utc_timestamp(local + length, f.col("time_zone"))
        end = f.when(f.col("period") == period, later).otherwise(end)
    return end
