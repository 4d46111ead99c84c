"""Dispatch throttling: Pulsar's own examples, by number."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.unit.limiter.making import Clock

from headgate.agent.dispatch import (
    LEVELS,
    Dispatcher,
    DispatchOptions,
    Level,
    MessagesPerEntry,
    RatePolicy,
    RateThrottle,
    SubscribeThrottle,
    winning_policy,
)
from headgate.coordinator.configuration import InvalidConfiguration

TEN = RatePolicy(messages=10)


def dispatcher(
    *policies: RatePolicy, options: DispatchOptions | None = None
) -> tuple[Dispatcher, Clock]:
    clock = Clock(0.0)
    throttles = [RateThrottle(policy, clock.now) for policy in policies]
    return Dispatcher(throttles, clock=clock, options=options), clock


def test_dispatch_over_delivery_is_owed_11_then_9() -> None:
    reader, clock = dispatcher(TEN)
    reader.delivered(1, messages=11, size=1)
    assert reader.entries_to_read(100) == 0
    clock.now = 1.0
    assert reader.entries_to_read(100) == 9


def test_dispatch_over_delivery_of_30_at_10_means_two_empty_periods() -> None:
    reader, clock = dispatcher(TEN)
    reader.delivered(1, messages=30, size=1)
    for now in (0.5, 1.0, 1.5, 2.0):
        clock.now = now
        assert reader.entries_to_read(100) == 0
    clock.now = 3.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_the_period_is_as_long_as_the_policy_says() -> None:
    reader, clock = dispatcher(RatePolicy(messages=10, period_s=5))
    reader.delivered(1, messages=10, size=1)
    clock.now = 2.5
    assert reader.entries_to_read(100) == 5
    clock.now = 5.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_messages_and_bytes_and_every_level_must_admit() -> None:
    reader, clock = dispatcher(RatePolicy(messages=100), RatePolicy(bytes=1_000))
    reader.delivered(5, messages=5, size=2_000)
    assert reader.entries_to_read(100) == 0
    assert reader.delay_s() == pytest.approx(1.001)
    clock.now = 1.5
    assert reader.entries_to_read(200) == 100


def test_dispatch_topic_policy_wins_over_namespace_over_broker() -> None:
    policies = {
        level: RatePolicy(messages=rank) for rank, level in enumerate(LEVELS, 1)
    }
    for size in (1, 2, 3):
        for chosen in combinations(LEVELS, size):
            given: dict[Level, RatePolicy] = {
                level: policies[level] for level in chosen
            }
            assert winning_policy(given) == given[min(chosen, key=LEVELS.index)]
    assert winning_policy({}) is None


def test_dispatch_two_partitions_at_10_make_20() -> None:
    clock = Clock(0.0)
    readers = [Dispatcher([RateThrottle(TEN, 0.0)], clock=clock) for _ in range(2)]
    assert sum(reader.entries_to_read(100) for reader in readers) == 20


def test_dispatch_relative_to_the_publish_rate_adds_to_it() -> None:
    throttle = RateThrottle(RatePolicy(messages=10, relative_to_publish_rate=True), 0.0)
    throttle.set_policy_at(0.0, throttle.policy, published_messages=50.0)
    throttle.charge_at(0.0, throttle.available_at(0.0)[0], 0.0)
    assert throttle.available_at(1.0)[0] == pytest.approx(60.0)


def test_dispatch_precise_flow_control_reads_2_entries_at_an_average_of_6() -> None:
    options = DispatchOptions(precise_flow_control=True)
    reader, _ = dispatcher(TEN, options=options)
    assert reader.entries_to_read(100) == 10  # at first an entry is one message
    reader.entries.note_dispatched(6)
    assert reader.entries_to_read(100) == 2
    reader.entries.note_published(3)
    assert reader.entries_to_read(100) == 4  # what was published goes first


def test_dispatch_an_average_follows_what_is_published() -> None:
    entries = MessagesPerEntry()
    assert entries.average == 1.0
    for _ in range(100):
        entries.note_published(20)
    assert entries.average == pytest.approx(20.0)


def test_dispatch_a_batch_counts_as_one_by_option() -> None:
    reader, _ = dispatcher(TEN, options=DispatchOptions(on_batch_message=True))
    reader.delivered(4, messages=400, size=1)
    assert reader.entries_to_read(100) == 6


def test_dispatch_precise_and_on_batch_message_are_refused_together() -> None:
    with pytest.raises(InvalidConfiguration, match="not together"):
        DispatchOptions(precise_flow_control=True, on_batch_message=True)


def test_dispatch_without_backlog_there_is_no_throttling_but_by_option() -> None:
    reader, _ = dispatcher(TEN)
    reader.delivered(50, messages=50, size=1, backlog=False)
    assert reader.entries_to_read(100, backlog=False) == 100
    assert reader.entries_to_read(100) == 10
    reader, _ = dispatcher(TEN, options=DispatchOptions(on_non_backlog_consumer=True))
    reader.delivered(50, messages=50, size=1, backlog=False)
    assert reader.entries_to_read(100, backlog=False) == 0


def test_dispatch_seek_and_redelivery_count_again() -> None:
    reader, clock = dispatcher(TEN)
    reader.delivered(5, messages=5, size=1)
    reader.delivered(5, messages=5, size=1)  # the same five, after a seek
    assert reader.entries_to_read(100) == 0
    clock.now = 1.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_a_consumer_reads_no_more_than_it_asked_for() -> None:
    reader, _ = dispatcher(TEN)
    assert reader.entries_to_read(100, permits=3) == 3


def test_dispatch_a_rate_of_zero_delivers_nothing_and_none_everything() -> None:
    reader, clock = dispatcher(RatePolicy(messages=0))
    clock.now = 1e6
    assert reader.entries_to_read(100) == 0
    reader, _ = dispatcher(RatePolicy())
    assert reader.entries_to_read(100) == 100


@pytest.mark.parametrize(
    "given", [{"messages": -1}, {"bytes": float("nan")}, {"period_s": 0}]
)
def test_dispatch_a_policy_that_is_none_is_one_clear_error(
    given: dict[str, float],
) -> None:
    with pytest.raises(InvalidConfiguration, match=next(iter(given))):
        RatePolicy(**given)  # type: ignore[arg-type]  # floats by name


def test_dispatch_subscribe_rate_holds_per_consumer_and_period() -> None:
    clock = Clock()
    throttle = SubscribeThrottle(per_consumer=2, period_s=30, clock=clock)
    delays = [throttle.try_subscribe("c1") for _ in range(3)]
    assert delays == [0.0, 0.0, 15.0]
    assert throttle.try_subscribe("c2") == 0.0
    clock.now += 15.0
    assert throttle.try_subscribe("c1") == 0.0
