"""How much lives that ended without goodbye may have used unreported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.configured.limits_frame import allowed_within, limited, named
from headgate.pipeline.tables.schema import COUNTERS, GAPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def gaps(step: DataFrame, limits: DataFrame, silence_s: float) -> DataFrame:
    """Return the gaps that a step found, and those that healed.

    The bound: the tokens that the agent held, a full bucket, and the whole rate
    from when the row was last reported for as long as the agent may have gone on
    (until its next life began, else until it was presumed dead).  Null where there is
    no limit.

    Args:
        step: Rows of kind ``gap`` and ``healed``.
        limits: From `configured.limits_frame`.
        silence_s: Silence after which an agent is presumed dead.
    """
    rows = step.select(
        f.timestamp_micros("heard_us").alias("heard"),
        ((f.col("heard_us") - f.col("window_us")) / 1e6).alias("untold_s"),
        f.when(f.col("until_us") > 0, f.timestamp_micros("until_us")).alias("until"),
        "group_id",
        "dimension",
        "agent",
        "incarnation",
        "sequence",
        f.greatest("held", f.lit(0.0)).alias("held"),
        (f.col("kind") == "healed").alias("healed"),
        f.col("revision_last").alias("revision_first"),
        "revision_last",
    )
    known = limited(named(rows, limits), limits)
    apart_s = (f.unix_micros("until") - f.unix_micros("heard")) / 1e6
    alive_s = f.coalesce(f.least(apart_s, f.lit(silence_s)), f.lit(silence_s))
    apart_from_told_s = f.col("untold_s") + alive_s
    bound = f.col("held") + allowed_within(apart_from_told_s)
    return known.withColumn("bound", f.when(bound < float("inf"), bound)).select(
        *GAPS.names
    )


def final_counters(step: DataFrame) -> DataFrame:
    """Return the last counters of lives, rows of kind ``ended``."""
    return step.select(
        f.timestamp_micros("heard_us").alias("heard"),
        "group_id",
        "dimension",
        "agent",
        "incarnation",
        "sequence",
        "refused",
        "admitted",
    ).select(*COUNTERS.names)
