"""The yardstick and the requests that come again."""

from math import inf

import numpy as np
import pytest

from headgate.agent.bucket.bucket import Bucket
from headgate.simulation.measure.reference_bucket import (
    ReferenceBucket,
    central_admissions,
)
from headgate.simulation.world.arrivals import AgentArrivals
from headgate.simulation.world.bucket_replay import BucketReplay


def arrivals(
    times: list[float], *, cost: float = 1.0, retry: bool = False
) -> AgentArrivals:
    count = len(times)
    return AgentArrivals(np.array(times), np.full(count, cost), np.full(count, retry))


def test_the_central_bucket_is_full_at_first_and_then_keeps_to_the_rate() -> None:
    times = np.arange(0, 10, 0.001).tolist()
    at, units = central_admissions(
        ((0.0, 100.0, 50.0),), [arrivals(times)], [[]], may_owe=True
    )
    assert units.sum() == pytest.approx(50 + 100 * 10, abs=2)
    assert units[at < 0.05].sum() == 50


def test_a_bucket_that_owes_admits_what_exceeds_its_burst_and_pays_later() -> None:
    bucket = ReferenceBucket(((0.0, 5.0, 500.0),), may_owe=True)
    assert bucket.try_acquire_at(0.0, 560.0) == 0.0  # KIP-599: level −60
    assert bucket.try_acquire_at(11.9, 1.0) > 0
    assert bucket.try_acquire_at(12.1, 1.0) == 0.0


def test_a_bucket_that_may_not_owe_refuses_what_it_does_not_hold() -> None:
    bucket = ReferenceBucket(((0.0, 5.0, 10.0),), may_owe=False)
    assert bucket.try_acquire_at(0.0, 11.0) > 0
    assert bucket.try_acquire_at(0.0, 10.0) == 0.0
    assert bucket.try_acquire_at(0.1, 1.0) > 0


def test_rate_changes_apply_at_once() -> None:
    limits = ((0.0, 10.0, 10.0), (1.0, 0.0, 0.0), (2.0, inf, inf), (3.0, 4.0, 4.0))
    bucket = ReferenceBucket(limits, may_owe=True)
    assert bucket.try_acquire_at(1.5, 1.0) > 0  # a rate of 0 lets nothing through
    assert bucket.try_acquire_at(2.5, 1e9) == 0.0
    admitted = sum(bucket.try_acquire_at(3.0, 1.0) == 0.0 for _ in range(100))
    assert admitted == 5  # full again, and it may owe


def test_two_agents_retries_meet_one_bucket_in_order_of_time() -> None:
    # Each second one token; both ask at 0 and come again until they are served.
    both = [arrivals([0.0, 0.0], retry=True), arrivals([0.0], retry=True)]
    at, units = central_admissions(((0.0, 1.0, 1.0),), both, [[], []], may_owe=False)
    assert units.sum() == 3
    assert at == pytest.approx([0.0, 1.0, 2.0], abs=0.051)


def test_a_retry_gives_up_when_it_is_five_seconds_old() -> None:
    stream = BucketReplay(arrivals([0.0], retry=True), [])
    asked: list[float] = []

    def refuse(now: float, cost: float) -> float:
        asked.append(now)
        return cost

    stream.advance(inf, refuse)
    assert len(asked) == 101
    assert asked[-1] == pytest.approx(5.0)
    assert stream.next_s == inf


def test_retries_while_the_process_is_gone_are_lost() -> None:
    stream = BucketReplay(arrivals([0.9], retry=True), [(1.0, 2.0)])
    asked: list[float] = []

    def refuse(now: float, cost: float) -> float:
        asked.append(now)
        return cost

    stream.advance(inf, refuse)
    assert asked == pytest.approx([0.9, 0.95])


def test_a_stream_stops_before_the_time_it_is_told() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=10.0)
    stream = BucketReplay(arrivals([0.1, 0.2, 0.3]), [])
    stream.advance(0.2, bucket.try_acquire_at)
    assert stream.admitted_s == [0.1]
    assert stream.next_s == 0.2
    stream.advance(inf, bucket.try_acquire_at)
    assert stream.admitted_s == [0.1, 0.2, 0.3]
