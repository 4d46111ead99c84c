"""The limits that were configured, revision by revision, as a frame to join.

Reports say which revision their sender used, so usage is joined to the names and
limits of that revision, whatever they are today.  Rows are ranges of revisions:
``from_revision`` ≤ r < ``until_revision``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import (
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.coordinator.config.configuration import Configuration, Group

END = (1 << 63) - 1
"""End of the range of the newest state."""

LIMITS = StructType(
    [
        StructField("group_id", LongType()),
        StructField("group", StringType()),
        StructField("tenant", StringType()),
        StructField("dimension", StringType()),
        StructField("rate_per_s", DoubleType()),
        StructField("burst", DoubleType()),
        StructField("period", StringType()),
        StructField("time_zone", StringType()),
        StructField("from_revision", LongType()),
        StructField("until_revision", LongType()),
    ]
)
"""One range of revisions of one group's limit.  A row without a dimension stands for
the group itself; an infinite rate refuses nothing.  With a calendar ``period``,
``burst`` units may pass in each, and almost nothing is refilled meanwhile."""

SHORTEST_PERIOD_S = {
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 82_800.0,
    "week": 601_200.0,
    "month": 2_415_600.0,
    "year": 31_536_000.0,
}
"""Shortest length of each calendar period, an hour less where clocks go forward."""

_Row = tuple[
    int, str, str, "str | None", "float | None", "float | None", "str | None", str
]


def limits_frame(session: SparkSession, history: Sequence[Configuration]) -> DataFrame:
    """Return the limits of all revisions, rows of `LIMITS`.

    The oldest known state stands for those before it as well: a report may be based
    on a revision that was never seen here.
    """
    open_rows: dict[tuple[int, str | None], tuple[_Row, int]] = {}
    rows: list[tuple[object, ...]] = []
    for n, configuration in enumerate(history):
        begin = configuration.revision if n else 0
        fresh = {(row[0], row[3]): row for row in _rows(configuration)}
        for key in [k for k, (row, _) in open_rows.items() if fresh.get(k) != row]:
            row, since = open_rows.pop(key)
            if key[1] is None and key not in fresh:
                # A deleted group keeps its name, because late reports need it.
                open_rows[key] = (row, since)
                continue
            rows.append((*row, since, begin))
        for key, row in fresh.items():
            open_rows.setdefault(key, (row, begin))
    rows += [(*row, since, END) for row, since in open_rows.values()]
    return session.createDataFrame(rows, LIMITS)


def named(usage: DataFrame, limits: DataFrame) -> DataFrame:
    """Add ``group`` and ``tenant`` as they were; ``#7`` for an unknown group."""
    names = limits.where(f.col("dimension").isNull()).select(
        f.col("group_id").alias("_id"),
        "group",
        "tenant",
        "from_revision",
        "until_revision",
    )
    then = (
        (f.col("group_id") == f.col("_id"))
        & (f.col("from_revision") <= f.col("revision_last"))
        & (f.col("revision_last") < f.col("until_revision"))
    )
    unknown = f.concat(f.lit("#"), f.col("group_id").cast("string"))
    return (
        usage.join(f.broadcast(names), then, "left")
        .withColumn("group", f.coalesce("group", unknown))
        .drop("_id", "from_revision", "until_revision")
    )


def limited(grouped: DataFrame, limits: DataFrame) -> DataFrame:
    """Add ``rate_per_s``, ``burst`` and ``period`` in force, null where there is none.

    If the limit changed between ``revision_first`` and ``revision_last``, the widest
    counts: nobody is accused of what was allowed a moment before.
    """
    keys = grouped.columns
    ranges = limits.where(f.col("dimension").isNotNull()).select(
        f.col("group_id").alias("_id"),
        f.col("dimension").alias("_dimension"),
        "rate_per_s",
        "burst",
        "period",
        "from_revision",
        "until_revision",
    )
    then = (
        (f.col("group_id") == f.col("_id"))
        & (f.col("dimension") == f.col("_dimension"))
        & (f.col("from_revision") <= f.col("revision_last"))
        & (f.col("until_revision") > f.col("revision_first"))
    )
    return (
        grouped.join(f.broadcast(ranges), then, "left")
        .groupBy(*keys)
        .agg(
            f.max("rate_per_s").alias("rate_per_s"),
            f.max("burst").alias("burst"),
            f.max("period").alias("period"),
        )
    )


def allowed_within(seconds: Column) -> Column:
    """Return the units that limits from `limited` allow within some time.

    A calendar limit allows its amount again after each boundary, and reports don't
    tell on which side of a boundary units were used.
    """
    shortest = f.create_map(
        *(f.lit(item) for pair in SHORTEST_PERIOD_S.items() for item in pair)
    )
    begun = f.ceil(seconds / shortest[f.col("period")])
    times = f.when(f.col("period").isNull(), 1).otherwise(1 + begun)
    return f.col("rate_per_s") * seconds + f.col("burst") * times


def _rows(configuration: Configuration) -> Iterable[_Row]:
    """Yield a row for each group and each of its cluster-wide limits."""
    tenants = _tenants(configuration)
    for group in configuration.groups:
        tenant = ", ".join(sorted(tenants.get(group.id, set())))
        yield group.id, group.name, tenant, None, None, None, None, ""
        yield from _limit_rows(group, tenant)


def _limit_rows(group: Group, tenant: str) -> Iterable[_Row]:
    for limit in group.limits:
        if limit.scope == "cluster":
            head = (group.id, group.name, tenant, limit.dimension)
            amounts = float(limit.rate_per_s), float(limit.burst)
            yield *head, *amounts, limit.period, limit.time_zone


def _tenants(configuration: Configuration) -> dict[int, set[str]]:
    """Return the tenants whose subjects are attached to each group.

    A namespace ``acme/orders`` belongs to tenant ``acme``; several tenants that
    share a group are billed together, because no report tells them apart.
    """
    found: dict[int, set[str]] = {}
    for attachment in configuration.attachments:
        for kind, name in attachment.subject:
            if name and kind in ("tenant", "namespace", "topic"):
                tenant = name.removeprefix("persistent://").split("/")[0]
                found.setdefault(attachment.group, set()).add(tenant)
    return found
