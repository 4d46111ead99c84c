"""Usage as tables: of closed windows, and of longer windows made of shorter ones."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.configured.limits_frame import named
from headgate.pipeline.counters.rows import ONCE, USED_SCHEMA, used_rows
from headgate.pipeline.tables.schema import USAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEYS = ("group_id", "group", "tenant", "dimension")
"""Columns that name a group in one dimension, in every table."""


WINDOW = ("window_start", "group_id", "dimension")
"""Columns that identify a group's window; names may change within one."""

_LARGE = 1 << 32
"""Whole units are added up in two sums: of multiples of this, and of the rest."""

_MOST_LARGE = 2.0**53
"""From here on a sum of doubles that are whole is no longer exact."""

_THOUSANDTH = Decimal("0.001")


def usage_of(step: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the usage of the windows that a step closed.

    Args:
        step: Rows of kind ``usage``.
        limits: From `configured.limits_frame`.
    """
    used = step.select(*ONCE, "payload").mapInArrow(used_rows, USED_SCHEMA)
    rows = used.select(
        f.timestamp_micros("window_us").alias("window_start"),
        "group_id",
        "dimension",
        "agent",
        "attempted",
        "admitted",
        "refused",
        "displaced",
        "subjects",
        "weight",
        "revision_first",
        "revision_last",
    )
    return named(rows, limits).select(*USAGE.names)


def rolled_up(usage: DataFrame, seconds: int) -> DataFrame:
    """Return usage in windows of `seconds`, a multiple of the windows it has."""
    length = f.lit(seconds)
    start = f.timestamp_seconds(
        f.floor(f.unix_seconds("window_start") / length) * length
    )
    sums = (exact_sum(name) for name in ("attempted", "admitted", "refused"))
    return (
        usage.withColumn("window_start", start)
        .groupBy("window_start", *KEYS, "agent", "displaced")
        .agg(
            *sums,
            f.max("subjects").alias("subjects"),
            f.max_by("weight", "revision_last").alias("weight"),
            f.min("revision_first").alias("revision_first"),
            f.max("revision_last").alias("revision_last"),
        )
        .select(*USAGE.names)
    )


def owner() -> Column:
    """Return who pays: the tenant, or ``(group) name`` for a group without one."""
    return f.when(f.length("tenant") > 0, f.col("tenant")).otherwise(
        f.concat(f.lit("(group) "), f.col("group"))
    )


def exact_sum(name: str) -> Column:
    """Return the sum of a column of amounts, equal to the last bit in any order.

    Amounts are whole thousandths (`schema`), but as doubles their sum depends on the
    order of its terms.  So each is taken apart into whole numbers, whose sums are
    exact, and what these make together is rounded once, to the nearest double.  That
    holds up to 2⁸⁵ units, as much as four billion counters of 2⁵³.  A larger sum is
    rounded at each term, because one that overflowed would end the stream for ever.
    """
    units = f.col(name)
    whole = f.rint(units)
    thousandths = f.sum(f.rint((units - whole) * 1000).cast("long"))
    large = f.rint(whole / _LARGE)
    small = f.sum((whole - large * _LARGE).cast("long"))
    larges = f.sum(large)
    exact = larges.cast("decimal(16,0)") * _LARGE + small + thousandths * _THOUSANDTH
    rounded = f.when(larges < _MOST_LARGE, exact.cast("double"))
    return rounded.otherwise(larges * float(_LARGE)).alias(name)
