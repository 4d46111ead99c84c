"""What the source proposals ask beyond buckets and modes, by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.unit.limiter.making import Clock, group, make

from headgate.agent.bucket import Bucket
from headgate.agent.kafka_quota import burst_units, throttle_time_ms
from headgate.agent.notices import Notice, NoticeBoard
from headgate.agent.split import TopicSplit, parts_of
from headgate.coordinator.configuration import Limit

if TYPE_CHECKING:
    from headgate.agent.split import How


def test_kip599_the_burst_is_rate_times_samples_times_window() -> None:
    assert burst_units(5, samples=100, window_s=1) == 500
    assert burst_units(5) == 55  # Kafka's defaults, 11 samples of 1 s


def test_kip599_throttle_time_is_the_longer_of_request_and_controller() -> None:
    assert throttle_time_ms(0.5, 12.0) == 12_000
    assert throttle_time_ms(0.5, 12.0, waited_s=11.8) == 500
    assert throttle_time_ms(0.0, 12.0, waited_s=20.0) == 0


@pytest.mark.parametrize("dimension", ["subscribes", "unloads", "replication_bytes"])
def test_pip322_any_dimension_can_be_limited_by_name(dimension: str) -> None:
    limit = Limit(dimension=dimension, rate=1, burst=1, scope="node")
    enforcer, _ = make(group(limit), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    outcomes = [bool(limiter.try_acquire(**{dimension: 1.0})) for _ in range(3)]
    assert outcomes == [True, True, False]


def test_pip322_reads_on_demand_are_consistent_within_a_lull() -> None:
    bucket = Bucket(0.0, rate=1_000.0, capacity=1_000.0, level=100.0)
    for _ in range(5):
        bucket.try_acquire_at(0.0, 10.0)
    assert bucket.level_at(0.0) == 50.0
    assert bucket.level_at(0.0005) == 50.5
    assert bucket.admitted == 50.0


def test_pip82_a_share_is_split_evenly_over_the_topics() -> None:
    assert parts_of(90, {"a": 10, "b": 0, "c": 80}, "even") == {
        "a": 30,
        "b": 30,
        "c": 30,
    }


def test_pip82_a_share_is_split_in_proportion_to_use() -> None:
    parts = parts_of(100, {"a": 80, "b": 20}, "proportional")
    assert sum(parts.values()) == pytest.approx(100)
    assert parts["a"] == pytest.approx(5 + 90 * 0.8)
    assert parts_of(100, {"a": 0, "b": 0}, "proportional") == {"a": 50, "b": 50}
    assert parts_of(100, {}, "proportional") == {}


@pytest.mark.parametrize(("how", "least"), [("even", 48), ("proportional", 85)])
def test_pip82_a_busy_topic_gets_its_part_of_the_share(how: How, least: int) -> None:
    clock = Clock(0.0)
    split = TopicSplit(lambda: 100.0, how=how, clock=clock)
    split.add("busy")
    split.add("quiet")
    admitted = 0
    for step in range(2_000):
        clock.now = step / 200
        admitted += split.try_acquire("busy") == 0.0
        if step % 40 == 0:
            split.try_acquire("quiet")
    assert least <= admitted / 10 <= least + 12
    assert sum(split.parts().values()) == pytest.approx(100.0)
    split.remove("quiet")
    assert split.parts() == {"busy": pytest.approx(100.0)}


def test_ably_receivers_are_told_once_a_second_of_what_was_refused() -> None:
    enforcer, clock = make(group(), acme=1)
    told: list[Notice] = []
    board = NoticeBoard(enforcer.limiter(tenant="acme"), told.append, clock=clock)
    for _ in range(100):
        board.try_acquire(requests=1)
        clock.now += 0.01
    board.tell_due(clock.now + 1.0)
    assert sum(notice.requests for notice in told) == 100 - 15
    assert len(told) == 2
    assert told[0].subject == "tenant acme"
    assert told[0].limit is not None
    assert told[0].limit.group == "gold"


def test_ably_a_channel_that_fails_stops_no_sender(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, clock = make(group(), acme=1)

    def fails(_: Notice) -> None:
        raise OSError("channel down")

    board = NoticeBoard(enforcer.limiter(tenant="acme"), fails, clock=clock)
    board.try_acquire(requests=100)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert not board.try_acquire(requests=1)
            clock.now += 1.0
    assert board.failed == 3
    assert len(caplog.records) == 1
