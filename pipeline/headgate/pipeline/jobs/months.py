"""Usage by tenant and calendar month, each in its own time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import exact_sum, owner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


def months(usage: DataFrame, zones: Mapping[str, str], default: str) -> DataFrame:
    """Return a row for each tenant, month and dimension.

    Its columns: ``tenant``, ``time_zone``, ``month`` (``2026-11``), ``begin_us`` and
    ``end_us`` (microseconds since the epoch), ``dimension``, ``admitted`` and
    ``attempted`` (units).  Usage within a report interval of midnight may count
    towards the month on the other side of it.

    Args:
        usage: Rows of `schema.USAGE`, each window once.
        zones: IANA name of a tenant's time zone, where it is not `default`.
        default: That of all other tenants.
    """
    named = usage.withColumn("tenant", owner())
    if zones:
        session = usage.sparkSession
        known = session.createDataFrame([*zones.items()], "tenant string, zone string")
        named = named.join(f.broadcast(known), "tenant", "left")
        zone = f.coalesce("zone", f.lit(default))
    else:
        zone = f.lit(default)
    local = f.date_trunc("month", f.from_utc_timestamp("window_start", zone))
    return (
        named.select("*", zone.alias("time_zone"), local.alias("local"))
        .groupBy("tenant", "time_zone", "local", "dimension")
        .agg(exact_sum("admitted"), exact_sum("attempted"))
        .select(
            "tenant",
            "time_zone",
            "dimension",
            "admitted",
            "attempted",
            f.date_format("local", "yyyy-MM").alias("month"),
            f.unix_micros(f.to_utc_timestamp("local", f.col("time_zone"))).alias(
                "begin_us"
            ),
            f.unix_micros(
                f.to_utc_timestamp(
                    f.col("local") + f.make_interval(months=f.lit(1)),
                    f.col("time_zone"),
                )
            ).alias("end_us"),
        )
    )
