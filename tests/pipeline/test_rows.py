"""Rows that a step leaves behind, and what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.counters.counters import Part
from headgate.pipeline.counters.rows import RowBuilder
from headgate.pipeline.jobs.usage import usage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_760_000_400


def part_of(window_s: int, units: dict[int, tuple[float, float, int]]) -> Part:
    """Refused, admitted and subjects by group."""
    groups = np.array(sorted(units), np.int64)
    refused, admitted, subjects = zip(*(units[g] for g in sorted(units)), strict=True)
    return Part(
        (START + window_s) * 1_000_000,
        bool(window_s),
        3,
        7,
        2.0,
        groups,
        np.array(refused, np.float64),
        np.array(admitted, np.float64),
        np.array(subjects, np.int64),
    )


def test_packed_usage_is_a_row_for_each_group(spark: SparkSession) -> None:
    builder = RowBuilder()
    builder.usage("a", "requests", part_of(0, {5: (1.5, 2, 1), 2**40: (0, 7, 3)}))
    builder.usage("b", "bytes", part_of(10, {5: (0, 2.0**53, 1)}))
    table = pa.Table.from_batches(list(builder.rest()))
    assert table.num_rows == 2
    step = spark.createDataFrame(table)
    found = usage_of(step, limits_frame(spark, []))
    assert sorted(
        (
            row["window_start"].timestamp() - START,
            row["agent"],
            row["dimension"],
            row["group_id"],
            row["attempted"],
            row["admitted"],
            row["refused"],
            row["displaced"],
            row["subjects"],
            row["weight"],
            row["revision_first"],
            row["revision_last"],
        )
        for row in found.collect()
    ) == [
        (0, "a", "requests", 5, 3.5, 2, 1.5, False, 1, 2, 3, 7),
        (0, "a", "requests", 2**40, 7, 7, 0, False, 3, 2, 3, 7),
        (10, "b", "bytes", 5, 2.0**53, 2.0**53, 0, True, 1, 2, 3, 7),
    ]
