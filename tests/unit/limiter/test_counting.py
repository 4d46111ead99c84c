"""What is told of buckets at rest is what a look at each of them would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.agent.counting import Columns
from headgate.agent.registry import Registry
from headgate.coordinator import Group, Limit

if TYPE_CHECKING:
    from headgate.agent.bucket import Bucket

LIMIT = Limit(dimension="requests", rate=100.0, burst=10.0)
GROUPS = {i: Group(id=i, name=f"g{i}", limits=(LIMIT,)) for i in (1, 2, 3)}


def disturb(bucket: Bucket, random: np.random.Generator, now: float) -> None:
    """Do to a bucket what callers and the coordinator do."""
    cost = float(random.integers(0, 4))
    match int(random.integers(7)):
        case 0:
            bucket.try_acquire_at(now, cost)
        case 1:
            bucket.charge_at(now, cost)
        case 2:
            bucket.give_back(min(cost, bucket.admitted))
        case 3:
            bucket.count_refused(cost)
        case 4:
            capacity = float(random.choice([0.0, 5.0, 10.0]))
            bucket.set_ceiling_at(now, ceiling=100.0, capacity=capacity)
        case 5:
            bucket.set_ceiling_at(now, ceiling=50.0, capacity=10.0, probability=0.5)
        case _:
            pass


@pytest.mark.parametrize("seed", range(30))
def test_what_is_told_is_what_a_look_at_each_bucket_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    registry, now = Registry(seed), 0.0
    registry.follow(GROUPS, now)
    locals_ = [registry.get(g, "requests", "cluster", now) for g in GROUPS.values()]
    columns = Columns([local for local in locals_ if local is not None], None)
    buckets = columns.buckets
    uses = {1: 1, 2: 1, 3: 1}
    most = np.zeros((2, 3))
    for _ in range(200):
        now += float(random.choice([0.0, 0.025, 1.0]))
        if random.random() < 0.5:
            disturb(buckets[int(random.integers(3))], random, now)
        if random.random() < 0.05:
            uses[int(random.integers(1, 4))] += 1
        counted = columns.counted(now, uses)
        seen = [[b.admitted for b in buckets], [b.refused for b in buckets]]
        most = np.maximum(most, seen)
        assert counted.admitted.tolist() == most[0].tolist()
        assert counted.refused.tolist() == most[1].tolist()
        assert counted.held.tolist() == [b.held_at(now) for b in buckets]
        assert counted.subjects.tolist() == [uses[g] for g in (1, 2, 3)]
    for bucket in buckets:
        bucket.set_ceiling_at(now, ceiling=100.0, capacity=10.0)
    full = columns.counted(now + 10.0, uses)
    # All are full and at rest: there is nothing new to say.
    assert columns.counted(now + 11.0, uses) is full
    buckets[1].try_acquire_at(now + 12.0, 3.0)
    assert columns.counted(now + 12.0, uses).held.tolist() == [10.0, 7.0, 10.0]
