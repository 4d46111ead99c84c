"""What an agent keeps of its own buckets."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator import Counted, Keys
from headgate.coordinator.demand.local_buckets import LocalBuckets


def follow(costs: list[float], size: int) -> list[float]:
    """Return the cost that is gone by after each look at which requests came.

    Args:
        costs: Mean cost of late, look by look.
        size: Buckets; of a few each is counted by itself.
    """
    ids = np.arange(1, size + 1)
    keys = Keys(("bytes",), np.zeros(size, dtype=np.int64), ids)
    own, admitted, seen = LocalBuckets(keys, {}, {}, 0.0), np.zeros(size), list[float]()
    for cost in costs:
        admitted[0] += cost
        own.count(
            Counted(
                keys,
                np.zeros(size),
                admitted.copy(),
                np.zeros(size),
                np.full(size, cost),
                np.ones(size, dtype=np.int64),
            )
        )
        assert own.cost[1:].tolist() == [1.0] * (size - 1)
        seen.append(float(own.cost[0]))
    return seen


@pytest.mark.parametrize("size", [2, 9])
def test_one_dear_request_does_not_change_how_a_quota_is_kept(size: int) -> None:
    # One of 600 among requests of 40, as a mean of late shows it.
    late = [40.0 + 168.0 * 0.7**i for i in range(12)]
    seen = follow([40.0] * 60 + late, size)
    assert seen[0] == 40.0
    assert max(seen) < 55.0


@pytest.mark.parametrize("size", [2, 9])
def test_requests_that_stay_dear_are_taken_for_it(size: int) -> None:
    seen = follow([40.0] * 60 + [400.0] * 150, size)
    assert seen[-1] == pytest.approx(400.0, rel=0.1)


def test_few_and_many_are_counted_alike() -> None:
    costs = [3.0, 9.0, 4.0, 27.0] * 30
    assert follow(costs, 2) == follow(costs, 9)


@pytest.mark.parametrize("told", [False, True])
def test_one_dear_request_of_a_child_is_not_its_parents_cost_for_ever(
    told: bool,
) -> None:
    ids = np.array([1, 2] if told else [2])
    keys = Keys(("bytes",), np.zeros(len(ids), dtype=np.int64), ids)
    own = LocalBuckets(keys, {("bytes", 2): [("bytes", 1)]}, {}, 0.0)
    parent, child = own.at["bytes", 1], own.at["bytes", 2]
    admitted, zeros = np.zeros(len(ids)), np.zeros(len(ids))
    subjects = np.ones(len(ids), dtype=np.int64)
    for cost in [600.0] + [1.0] * 200:
        admitted[child] += cost
        costs = np.where(np.arange(len(ids)) == child, cost, 1.0)
        own.count(Counted(keys, zeros, admitted.copy(), zeros, costs, subjects))
        assert own.cost[parent] == own.cost[child]
    assert own.cost[parent] < 15.0


@pytest.mark.parametrize("others", [1, 30])
@pytest.mark.parametrize("told", [False, True])
def test_a_parents_cost_is_that_of_those_who_ask_lately(
    told: bool, others: int
) -> None:
    """Not of own callers that never asked, nor of a child that asked once."""
    children = range(2, 3 + others)
    ids = np.array([1, *children] if told else children)
    keys = Keys(("bytes",), np.zeros(len(ids), dtype=np.int64), ids)
    above = {("bytes", child): [("bytes", 1)] for child in children}
    own = LocalBuckets(keys, above, {}, 0.0)
    parent, once = own.at["bytes", 1], own.at["bytes", 2]
    ask = ids > 2
    admitted, zeros = np.zeros(len(ids)), np.zeros(len(ids))
    subjects = np.ones(len(ids), dtype=np.int64)
    costs, seen = np.where(ask, 0.05, 1.0), list[float]()
    costs[once] = 60.0
    for look in range(2000):
        admitted[ask] += 5.0 / others
        admitted[once] += 60.0 if look == 100 else 0.0
        own.count(Counted(keys, zeros, admitted.copy(), zeros, costs, subjects))
        own.look(0.05 * (look + 1))
        own.add_up()
        seen.append(float(own.cost[parent]))
    assert seen[99] == pytest.approx(0.05)
    assert max(seen[100:105]) == pytest.approx(60.0)
    assert seen[-1] == pytest.approx(0.05)
