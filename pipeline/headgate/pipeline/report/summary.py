"""A readable summary of the last hours, for people.

Computed from the tables, by Spark; small by construction (`LISTED` rows of each
kind), so that it can be drawn and printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from headgate.pipeline.configured.limits_frame import limited
from headgate.pipeline.jobs.recommend import recommend
from headgate.pipeline.jobs.usage import exact_sum
from headgate.pipeline.settings import WINDOW_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.pipeline.tables.store import TableStore

LISTED = 20
"""Rows of each list: what fits on a page."""

DRAWN = 12
"""Groups that are drawn: those with violations first, then the busiest."""

_DAY_S = 86_400.0

POINTS = 2_000
"""Windows drawn at most for a group: twice the pixels of a plot."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One group's use against its limit.

    Attributes:
        group: Its name.
        dimension: What is counted.
        at_s: Starts of the windows, seconds since the epoch.
        attempted: Units/s.
        admitted: Units/s.
        limit: Units/s; None where there is no limit.
    """

    group: str
    dimension: str
    at_s: list[float]
    attempted: list[float]
    admitted: list[float]
    limit: list[float | None]


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """The contents of the report.

    Attributes:
        begin_s: First window, seconds since the epoch; 0 without data.
        end_s: End of the last one.
        agents: Agents that used something.
        groups: Groups that were used.
        units: Units attempted and admitted, by dimension.
        curves: The most interesting groups.
        lists: Tables by title: violations, starved, noisy, gaps …
        counts: Rows of each in all.
        verified: The signatures of all reports were verified.
    """

    begin_s: float
    end_s: float
    agents: int
    groups: int
    units: dict[str, tuple[float, float]]
    curves: list[Curve]
    lists: dict[str, list[Row]]
    counts: dict[str, int]
    verified: bool = False


_ORDER = {
    "violations": (["excess"], "window_start"),
    "unfairness": (["distance"], "window_start"),
    "starved": (["lacking"], "window_start"),
    "noisy": (["attempted"], "window_start"),
    "gaps": (["heard"], "heard"),
    "losses": (["noticed"], "noticed"),
    "dead_letters": (["received"], "received"),
}
"""The column that a list is sorted by, largest first, and its column of time."""


def summarise(
    tables: TableStore, limits: DataFrame, since_s: float | None
) -> UsageSummary:
    """Return the summary of the last `since_s` seconds before the newest window.

    Args:
        tables: Of the pipeline.
        limits: From `configured.limits_frame`.
        since_s: How far to look back; None for everything.
    """
    # A run that ends with the topic has put its open windows into `usage_open`.
    usage = tables.read("usage_10s").unionByName(tables.read("usage_open"))
    newest = usage.agg(f.max(f.unix_seconds("window_start")).alias("end")).first()
    if newest is None or newest["end"] is None:
        return UsageSummary(0.0, 0.0, 0, 0, {}, [], {}, {})
    end_s = float(newest["end"]) + WINDOW_S
    begin_s = end_s - since_s if since_s is not None else 0.0
    usage = _since(usage, "window_start", begin_s).persist()
    try:
        return _summary(tables, limits, usage, (begin_s, end_s))
    finally:
        usage.unpersist()


def _summary(
    tables: TableStore, limits: DataFrame, usage: DataFrame, span: tuple[float, float]
) -> UsageSummary:
    totals = usage.agg(
        f.min(f.unix_seconds("window_start")).alias("begin"),
        f.count_distinct("agent").alias("agents"),
        f.count_distinct("group_id").alias("groups"),
    ).collect()[0]
    sums = usage.groupBy("dimension").agg(exact_sum("attempted"), exact_sum("admitted"))
    units = {
        row["dimension"]: (row["attempted"], row["admitted"])
        for row in sums.orderBy("dimension").collect()
    }
    lists: dict[str, list[Row]] = {}
    counts: dict[str, int] = {}
    if tables.version("bill") >= 0:
        bill = _since(tables.read("bill"), "day", span[0] - _DAY_S)
        counts["bill"] = bill.count()
        lists["bill"] = _readable(bill.orderBy(f.col("day").desc(), "tenant"))
    if tables.version("invoices") >= 0:
        invoices = tables.read("invoices")
        counts["invoices"] = invoices.count()
        newest = (f.col("month").desc(), "tenant", "line")
        lists["invoices"] = [*map(_priced, _readable(invoices.orderBy(*newest)))]
    for name, (order, time) in _ORDER.items():
        rows = _since(tables.read(name), time, span[0])
        counts[name] = rows.count()
        lists[name] = _readable(rows.orderBy(*(f.col(c).desc() for c in order)))
    advice = recommend(usage, limits, WINDOW_S).persist()
    counts["recommendations"] = advice.count()
    lists["recommendations"] = _readable(
        advice.orderBy(f.col("near_part").desc(), f.col("peak_per_s").desc())
    )
    advice.unpersist()
    return UsageSummary(
        float(totals["begin"]),
        span[1],
        totals["agents"],
        totals["groups"],
        units,
        _curves(usage, limits, lists["violations"]),
        lists,
        counts,
    )


def _readable(rows: DataFrame) -> list[Row]:
    """Return the first rows; times as text in UTC, whatever this machine's zone."""
    columns = [
        f.date_format(field.name, "yyyy-MM-dd HH:mm:ss").alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else f.col(field.name)
        for field in rows.schema.fields
    ]
    return rows.limit(LISTED).select(*columns).head(LISTED)


def _priced(line: Row) -> Row:
    """Return an invoice's line with the decimals of its currency, and of its price."""
    shown = line.asDict()
    if line["line"] is not None:
        shown["amount"] = line["amount"].quantize(Decimal(1).scaleb(-line["decimals"]))
        shown["price"] = line["price"].normalize()
    return Row(**shown)


def _since(rows: DataFrame, time: str, begin_s: float) -> DataFrame:
    """Return the rows from `begin_s` on."""
    return rows.where(f.col(time) >= f.timestamp_seconds(f.lit(begin_s)))


def _curves(usage: DataFrame, limits: DataFrame, violated: list[Row]) -> list[Curve]:
    """Return the curves of the groups worth a look."""
    busiest = (
        usage.groupBy("group_id", "dimension")
        .agg(f.sum("attempted").alias("attempted"))
        .orderBy(f.col("attempted").desc(), "group_id")
        .head(DRAWN)
    )
    chosen = dict.fromkeys(
        (row["group_id"], row["dimension"]) for row in [*violated, *busiest]
    )
    curves: list[Curve] = []
    for group_id, dimension in list(chosen)[:DRAWN]:
        one = usage.where(
            (f.col("group_id") == group_id) & (f.col("dimension") == dimension)
        )
        curves.append(_curve(one.where(~f.col("displaced")), limits))
    return [curve for curve in curves if curve.at_s]


def _curve(usage: DataFrame, limits: DataFrame) -> Curve:
    """Return the curve of one group and dimension."""
    windows = usage.groupBy("window_start", "group_id", "dimension").agg(
        f.max("group").alias("group"),
        f.sum("attempted").alias("attempted"),
        f.sum("admitted").alias("admitted"),
        f.min("revision_first").alias("revision_first"),
        f.max("revision_last").alias("revision_last"),
    )
    rows = (
        limited(windows, limits)
        .withColumn("at", f.unix_seconds("window_start"))
        .orderBy(f.col("at").desc())
        .head(POINTS)
    )[::-1]
    return Curve(
        rows[0]["group"] if rows else "",
        rows[0]["dimension"] if rows else "",
        [float(row["at"]) for row in rows],
        [row["attempted"] / WINDOW_S for row in rows],
        [row["admitted"] / WINDOW_S for row in rows],
        [None if row["period"] else row["rate_per_s"] for row in rows],
    )
