"""What-if replays recorded demand through the real ledgers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.coordinator import Group, Limit
from headgate.pipeline.jobs.whatif import replay, what_if
from headgate.pipeline.tables.schema import USAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def group(rate: float) -> Group:
    return Group(
        id=1,
        name="gold",
        limits=(Limit(dimension="requests", rate=rate, burst=rate),),
    )


def test_a_lower_limit_admits_what_a_central_bucket_would() -> None:
    demand = np.full((4, 3), 1000.0)  # 100/s each
    then = replay(demand, group(150), "requests", 10.0)
    assert then.admitted.sum() == pytest.approx(150 * 40 + 150, rel=0.03)
    assert (then.admitted + then.refused).sum() == pytest.approx(demand.sum(), abs=12)


def test_a_wide_limit_refuses_nobody() -> None:
    demand = np.full((3, 3), 500.0)
    then = replay(demand, group(1000), "requests", 10.0)
    assert then.refused.sum() <= 0.01 * demand.sum()


def test_the_light_agent_keeps_its_part_and_the_heavy_one_is_cut() -> None:
    demand = np.tile([200.0, 4000.0], (4, 1))
    then = replay(demand, group(100), "requests", 10.0)
    assert then.admitted[0] >= 0.9 * demand[:, 0].sum()
    assert then.admitted[1] == pytest.approx(80 * 40, rel=0.1)


def test_the_effect_is_told_for_each_agent(spark: SparkSession) -> None:
    start = 1_760_000_400
    rows = [
        (
            datetime.fromtimestamp(start + 10 * k, UTC), 1, "gold", "acme", "requests",
            agent, 500.0, 500.0, 0.0, False, 1, 1.0, 1, 1,
        )
        for k in range(3)
        for agent in ("a", "b")
    ]  # fmt: skip
    found = what_if(spark.createDataFrame(rows, USAGE), group(40), 10.0).collect()
    assert {row["agent"]: row["admitted"] for row in found} == {"a": 1500, "b": 1500}
    total = sum(row["admitted_then"] for row in found)
    assert total == pytest.approx(40 * 30 + 40, rel=0.05)
