"""Which limits should be changed: what days of demand say about each group.

One pass over a group's demand, a row per window, all agents together.  A limit r
*would have refused* the fraction Σ max(0, demand − r·window) / Σ demand: the burst is
ignored, so the figures are on the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from headgate.coordinator.config.template_values import VALUES_FROM
from headgate.pipeline.configured.limits_frame import limited
from headgate.pipeline.jobs.usage import KEYS
from headgate.pipeline.tables.schema import RECOMMENDATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Floats = NDArray[np.float64]

PARTS = (0.001, 0.01, 0.05)
"""Fractions of the demand that a recommended limit would have refused."""

NEVER_NEAR = 0.5
"""A group whose busiest window is below this fraction of its limit is never near."""

NEAR = 0.95
"""A window above this fraction of the limit is at the limit; so is one above
`NEVER_NEAR` in which something was refused."""

ALWAYS_AT = 0.9
"""A group that is at its limit in this fraction of its windows is always at it."""

HOURS = 168
"""Hours of a week, Monday 00:00 UTC first."""


def recommend(usage: DataFrame, limits: DataFrame, window_s: float) -> DataFrame:
    """Return a row for each group and dimension that was used.

    Args:
        usage: Rows of `schema.USAGE`, windows of `window_s` seconds over some days.
        limits: From `configured.limits_frame`; the newest counts.
        window_s: Length of the windows.
    """
    demand = (
        usage.where(~f.col("displaced"))
        .groupBy("window_start", *KEYS)
        .agg(
            f.sum("attempted").alias("attempted"),
            f.sum("admitted").alias("admitted"),
            f.max("revision_last").alias("revision_last"),
        )
        .withColumn("revision_first", f.col("revision_last"))
        .withColumn("second", f.unix_seconds("window_start"))
    )
    known = limited(demand, limits)
    schema = RECOMMENDATIONS

    def advise(series: pa.Table) -> pa.Table:
        return _advice(series, window_s)

    return (
        known.groupBy("group_id", "dimension")
        .applyInArrow(  # pyright: ignore[reportUnknownMemberType]  # pyspark's own hint
            advise, schema
        )
        .select(*schema.names)
    )


def _advice(series: pa.Table, window_s: float) -> pa.Table:
    """Return one row of advice from one group's series of windows."""
    order = np.argsort(series.column("second").to_numpy(), kind="stable")
    series = series.take(order.tolist())
    rate = _floats(series, "attempted") / window_s
    admitted = _floats(series, "admitted") / window_s
    second: NDArray[np.int64] = series.column("second").to_numpy()
    last: dict[str, object] = series.slice(len(rate) - 1).to_pylist()[0]
    known = _floats(series, "rate_per_s")[-1]
    # A calendar limit lets any rate through until its amount is used up.
    limit = np.inf if np.isnan(known) or last["period"] else float(known)
    period = last["period"]
    refusing = [limit_refusing(rate, part) for part in PARTS]
    peak_hour, seasonality = season(rate, second)
    pressed = (rate > admitted) & (admitted >= NEVER_NEAR * limit)
    near = float(np.mean((admitted >= NEAR * limit) | pressed))
    peak, offered = float(rate.max()), float(rate.sum())
    of_template = int(last["group_id"]) >= VALUES_FROM  # type: ignore[call-overload]  # a column of int64
    advice: dict[str, object] = {
        **{name: last[name] for name in KEYS},
        "made": (int(second[-1]) + round(window_s)) * 1_000_000,
        "rate_per_s": limit if np.isfinite(limit) else None,
        "windows": len(rate),
        "mean_per_s": float(rate.mean()),
        "peak_per_s": peak,
        "refusing_0_1": refusing[0],
        "refusing_1": refusing[1],
        "refusing_5": refusing[2],
        "refused_part": max(1.0 - float(admitted.sum()) / offered, 0.0)
        if offered
        else 0.0,
        "peak_hour": peak_hour,
        "seasonality": seasonality,
        "near_part": near,
        "verdict": f"{last['burst']:,.10g} a {period}: see the table periods"
        if period
        else verdict(
            limit=limit, peak=peak, near=near, at=refusing[1], of_template=of_template
        ),
    }
    return pa.Table.from_pylist([advice], schema=_ARROW)


_ARROW = to_arrow_schema(RECOMMENDATIONS, timezone="UTC")


def _floats(series: pa.Table, name: str) -> Floats:
    """Return a column as ``float64``, null as NaN."""
    column: Floats = series.column(name).to_numpy().astype(np.float64)
    return column


def limit_refusing(rate: Floats, part: float) -> float:
    """Return the least limit that refuses at most `part` of the demand.

    Args:
        rate: ``float64[N]`` demand of each window, units/s.
        part: Between 0 and 1.
    """
    ordered = np.sort(rate)[::-1]
    above = np.cumsum(ordered)
    target = part * above[-1] if len(above) else 0.0
    if target <= 0:
        return float(ordered[0]) if len(ordered) else 0.0
    # If the k largest are above the limit, Σ (demand − r) = target for this r.
    k = np.arange(1, len(ordered) + 1)
    candidate = (above - target) / k
    following = np.append(ordered[1:], 0.0)
    fits = candidate >= following
    return float(max(candidate[int(np.argmax(fits))], 0.0))


def season(rate: Floats, second: NDArray[np.int64]) -> tuple[int, float]:
    """Return the busiest hour of the week, and how much of the variance it explains.

    Hour 0 is Monday 00:00 UTC.  The second figure is R² of the means by hour of
    the week: 1 when the demand is a function of it, about 0 when it is not, and 0 for
    less than a day, which says nothing.
    """
    hour = (second // 3600 + 72) % HOURS  # 1 January 1970 was a Thursday
    count = np.bincount(hour, minlength=HOURS)
    total = np.bincount(hour, rate, minlength=HOURS)
    mean = np.divide(total, count, out=np.zeros(HOURS), where=count > 0)
    spread = float(((rate - rate.mean()) ** 2).sum())
    if np.count_nonzero(count) < 24 or spread == 0:
        return int(mean.argmax()), 0.0
    rest = float(((rate - mean[hour]) ** 2).sum())
    return int(mean.argmax()), 1.0 - rest / spread


def verdict(
    *, limit: float, peak: float, near: float, at: float, of_template: bool
) -> str:
    """Return a sentence on a group's limit.

    Args:
        limit: In force, units/s; infinite if there is none.
        peak: Demand of the busiest window, units/s.
        near: Part of the windows at the limit.
        at: The limit that would refuse 1 % of the demand.
        of_template: It is a single value of a template, which reports don't name.
    """
    if np.isinf(limit):
        known = "a value of a template group" if of_template else "no limit"
        return f"{known}; {at:.6g}/s would refuse 1 % of the demand"
    if near >= ALWAYS_AT:
        return f"always at its limit; {at:.6g}/s would refuse 1 % of the demand"
    if peak < NEVER_NEAR * limit:
        return f"never near its limit: {peak / limit:.0%} at most"
    if near > 0:
        return f"at its limit in {near:.0%} of the windows"
    return "fits"
