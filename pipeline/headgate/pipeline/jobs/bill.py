"""Totals per tenant and day, and the proof that they are the agents' own.

Every unit of an agent's counters is in exactly one row of usage, or still in an
open window; `differences` compares the two sums, group by group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import exact_sum, owner
from headgate.pipeline.tables.schema import BILL, RETIRED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOLERANCE = 1e-3
"""Units by which sums may differ: the finest step of a counter that isn't whole.
Counters that are whole agree to the unit."""


def bill(usage: DataFrame, gaps: DataFrame) -> DataFrame:
    """Return the totals of each tenant, dimension and day (UTC).

    Args:
        usage: Rows of `schema.USAGE`, each window once.
        gaps: Rows of `schema.GAPS`; those that did not heal bound what is missing,
            null where there is no bound.
    """
    keys = ["day", "tenant", "dimension"]
    totals = (
        usage.withColumn("tenant", owner())
        .withColumn("day", f.date_trunc("day", "window_start"))
        .groupBy(*keys)
        .agg(
            f.count_distinct("group_id").alias("groups"),
            exact_sum("attempted"),
            exact_sum("admitted"),
            exact_sum("refused"),
        )
    )
    bounds = (
        unhealed(gaps)
        .withColumn("tenant", owner())
        .withColumn("day", f.date_trunc("day", "heard"))
        .groupBy(*keys)
        .agg(
            f.sum("bound").alias("gap_bound"),
            f.max(f.col("bound").isNull()).alias("unbounded"),
        )
    )
    bound = f.when(f.col("unbounded"), None).otherwise(
        f.coalesce("gap_bound", f.lit(0.0))
    )
    return (
        totals.join(bounds, keys, "left")
        .withColumn(
            "gap_bound", f.when(f.col("unbounded").isNull(), 0.0).otherwise(bound)
        )
        .select(*BILL.names)
    )


def retired_sums(usage: DataFrame, until_us: int) -> DataFrame:
    """Return the sums of usage that is about to be removed, rows of `schema.RETIRED`.

    Args:
        usage: Rows of `schema.USAGE`, all before `until_us`.
        until_us: Start of the oldest day that is kept, microseconds.
    """
    return (
        usage.groupBy("group_id", "dimension", "agent")
        .agg(exact_sum("refused"), exact_sum("admitted"))
        .withColumn("retired_until", f.timestamp_micros(f.lit(until_us)))
        .select(*RETIRED.names)
    )


def unhealed(gaps: DataFrame) -> DataFrame:
    """Return the gaps of lives that were not heard from again."""
    life = ["agent", "incarnation", "group_id", "dimension"]
    last = gaps.groupBy(*life).agg(
        f.max(f.struct("heard", ~f.col("healed"))).alias("last")
    )
    still = last.where(f.col("last.col2")).select(
        *life, f.col("last.heard").alias("heard")
    )
    return gaps.where(~f.col("healed")).join(still, [*life, "heard"])


def differences(usage: DataFrame, counters: DataFrame) -> DataFrame:
    """Return where usage and the agents' own counters differ: no rows if all is well.

    Args:
        usage: Rows with ``agent``, ``group_id``, ``dimension``, ``admitted`` and
            ``refused``: each window once, open and retired ones included.
        counters: Rows of `schema.COUNTERS`: the last counters of every life.
    """
    keys = ["agent", "group_id", "dimension"]
    counted = (
        counters.groupBy(*keys)
        .agg(exact_sum("admitted"), exact_sum("refused"))
        .withColumnsRenamed(
            {"admitted": "counted_admitted", "refused": "counted_refused"}
        )
    )
    used = usage.groupBy(*keys).agg(exact_sum("admitted"), exact_sum("refused"))
    both = counted.join(used, keys, "full").fillna(0.0)
    return both.where(
        (f.abs(f.col("counted_admitted") - f.col("admitted")) > TOLERANCE)
        | (f.abs(f.col("counted_refused") - f.col("refused")) > TOLERANCE)
    )
