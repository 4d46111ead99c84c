"""Runs that wait for late reports for different times go on with one output."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from tests.pipeline.rigs.generated import Told, encoded
from tests.pipeline.rigs.runs import engine_of

from headgate.pipeline.settings import PipelineSettings
from headgate.pipeline.stream.source import MESSAGES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

BEGIN_S = 1_760_000_400  # a full minute

EVERY_S = 10


def reports(spark: SparkSession, begin_s: int, end_s: int) -> DataFrame:
    """What one agent reports every ten seconds: ten units a second."""
    rows: list[tuple[object, ...]] = []
    for second in range(begin_s, end_s, EVERY_S):
        sequence = 1 + second // EVERY_S
        told = Told(
            agent="a",
            life=1,
            sequence=sequence,
            at_ms=1000 * (BEGIN_S + second),
            revision=1,
            weight=1.0,
            leave=False,
            held=0,
            counted={"requests": {1: (Fraction(0), Fraction(10 * second))}},
        )
        moment = datetime.fromtimestamp(BEGIN_S + second, UTC)
        rows.append((None, encoded(told), "usage", 0, sequence, moment, 0))
    return spark.createDataFrame(rows, MESSAGES)


def test_a_run_that_waits_for_less_closes_only_what_its_own_batches_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    def settings(lateness_s: float) -> PipelineSettings:
        return PipelineSettings(
            out=tmp_path.as_uri(), files="f", partitions=1, lateness_s=lateness_s
        )

    first = engine_of(spark, settings(60.0))
    first.batch(reports(spark, 0, 110), 0)
    first.batch(reports(spark, 110, 140), 1)
    second = engine_of(spark, settings(10.0))
    newest = second.newest()
    assert newest is not None
    assert newest.watermark_us == (BEGIN_S + 100 - 60) * 1_000_000
    second.batch(reports(spark, 140, 200), 2)
    tables = second.tables
    closed_us = (BEGIN_S + 120) * 1_000_000
    shorter = tables.read("usage_10s", end_us=closed_us)
    total = f.sum("admitted")
    (minutes,) = tables.read("usage_1m").agg(total, f.count("*")).collect()
    assert tuple(minutes) == (shorter.agg(total).collect()[0][0], 2)
