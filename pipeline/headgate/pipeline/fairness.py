"""How a contended group was divided, against exact weighted max-min.

What was admitted in all is divided anew by what each agent attempted: the *fair*
amounts.  Used capacity is another question (see `violations`, `recommend`); this
one asks only who had it.

The level θ with Σ min(λ_j, w_j·θ) = total is the largest of
θ_k = (total − Σ_{i<k} λ_i) / Σ_{i≥k} w_i over agents in ascending order of λ/w:
θ_k grows while it is above λ_k/w_k and falls from there on.  So it is plain window
functions, without a Python step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from headgate.pipeline.schema import STARVED, UNFAIRNESS
from headgate.pipeline.usage import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STARVED_BELOW = 0.9
"""An agent is starved below this part of its fair amount: 10 % is what PIP-82 asks
of a division, and a window's edge blurs by less."""

STARVED_LEAST = 1.0
"""Units that must be lacking at least: less is rounding."""


def fair_amounts(usage: DataFrame, weights: DataFrame | None = None) -> DataFrame:
    """Return the agents of contended groups with their ``fair`` amount and ``level``.

    Contended: something was refused, and two agents or more wanted it.

    Args:
        usage: Rows of `schema.USAGE` of windows of one length.
        weights: Columns ``agent``, ``weight``; an agent that it lacks has 1.
    """
    group = Window.partitionBy("window_start", *KEYS)
    order = group.orderBy(f.col("attempted") / f.col("weight"), "agent")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    after = order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    agents = (
        usage.where(~f.col("displaced"))
        .groupBy("window_start", *KEYS, "agent")
        .agg(
            f.sum("attempted").alias("attempted"),
            f.sum("admitted").alias("admitted"),
            f.sum("refused").alias("refused"),
        )
        .withColumn("agents", f.count("agent").over(group))
        .withColumn("without", f.sum("refused").over(group))
        .where((f.col("without") > 0) & (f.col("agents") > 1))
        .drop("without", "refused")
    )
    if weights is None:
        agents = agents.withColumn("weight", f.lit(1.0))
    else:
        agents = agents.join(f.broadcast(weights), "agent", "left")
        agents = agents.fillna({"weight": 1.0})
    total = f.sum("admitted").over(group)
    smaller = f.coalesce(f.sum("attempted").over(before), f.lit(0.0))
    return (
        agents.withColumn("step", (total - smaller) / f.sum("weight").over(after))
        .withColumn("level", f.max("step").over(group))
        .withColumn("fair", f.least("attempted", f.col("weight") * f.col("level")))
        .drop("step")
    )


def unfairness(fair: DataFrame, window_s: float) -> DataFrame:
    """Return Jain's index and the distance from max-min of each contended group.

    Jain's index is that of admitted / fair: 1 when all have their amount, 1/n when
    one has all.  The distance is the part of all admitted units that would have to
    change hands.

    Args:
        fair: From `fair_amounts`.
        window_s: Length of the windows.
    """
    part = f.when(f.col("fair") > 0, f.col("admitted") / f.col("fair")).otherwise(1.0)
    moved = f.sum(f.greatest(f.col("fair") - f.col("admitted"), f.lit(0.0)))
    return (
        fair.withColumn("part", part)
        .groupBy("window_start", *KEYS)
        .agg(
            f.count("agent").alias("agents"),
            f.sum("attempted").alias("attempted"),
            f.sum("admitted").alias("admitted"),
            (
                f.sum("part")
                * f.sum("part")
                / (f.count("agent") * f.sum(f.col("part") * f.col("part")))
            ).alias("jain"),
            f.when(f.sum("fair") > 0, moved / f.sum("fair"))
            .otherwise(0.0)
            .alias("distance"),
            f.first("level").alias("level"),
        )
        .fillna({"jain": 1.0})
        .withColumn("window_s", f.lit(float(window_s)))
        .select(*UNFAIRNESS.names)
    )


def starved(fair: DataFrame, window_s: float) -> DataFrame:
    """Return the agents that got less than `STARVED_BELOW` of their fair amount."""
    return (
        fair.withColumn("lacking", f.col("fair") - f.col("admitted"))
        .where(
            (f.col("admitted") < STARVED_BELOW * f.col("fair"))
            & (f.col("lacking") >= STARVED_LEAST)
        )
        .withColumn("window_s", f.lit(float(window_s)))
        .select(*STARVED.names)
    )
