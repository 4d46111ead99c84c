"""Dispatch throttling: Pulsar's own examples, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import Clock

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import InvalidCost
from headgate.agent.follow.policies import DispatchOptions, Policies, RatePolicy
from headgate.agent.limiter.dispatch import EntryAverages, SubscribeThrottle
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    InvalidConfiguration,
    Limit,
)

if TYPE_CHECKING:
    from headgate.agent.follow.policies import Kind
    from headgate.agent.limiter.dispatch import Dispatcher

TEN = RatePolicy(messages=10)
TOPIC = "acme/orders/new"


def reading(
    *policies: RatePolicy, options: DispatchOptions | None = None
) -> tuple[Dispatcher, Clock]:
    """Read one subscription under policies of its topic and of itself."""
    kinds: tuple[Kind, ...] = ("dispatch", "subscription_dispatch")
    given = Policies(
        topic={TOPIC: dict(zip(kinds, policies, strict=False))},
        options=options or DispatchOptions(),
    )
    enforcer, clock = enforcing(given)
    limiter = enforcer.limiter(topic=TOPIC, subscription="billing")
    return enforcer.dispatcher(limiter), clock


def enforcing(policies: Policies) -> tuple[Enforcer, Clock]:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    enforcer.configure(Configuration(), clock.now, policies)
    return enforcer, clock


def test_dispatch_over_delivery_is_owed_11_then_9() -> None:
    reader, clock = reading(TEN)
    reader.delivered(1, messages=11, size=1)
    assert reader.entries_to_read(100) == 0
    clock.now = 1.0
    assert reader.entries_to_read(100) == 9


def test_dispatch_over_delivery_of_30_at_10_means_two_empty_periods() -> None:
    reader, clock = reading(TEN)
    reader.delivered(1, messages=30, size=1)
    for now in (0.5, 1.0, 1.5, 2.0):
        clock.now = now
        assert reader.entries_to_read(100) == 0
    clock.now = 3.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_over_delivery_of_300_at_10_means_29_empty_periods() -> None:
    reader, clock = reading(TEN)
    reader.delivered(1, messages=300, size=1)
    for period in range(1, 30):
        clock.now = float(period)
        assert reader.entries_to_read(100) == 0
    clock.now = 30.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_bytes_become_entries_of_the_average_size() -> None:
    reader, _ = reading(RatePolicy(bytes=1_000))
    assert reader.entries_to_read(100) == 1  # nothing is known yet
    reader.published(1, messages=4, size=400)
    assert reader.entries_to_read(100) == 2


def test_dispatch_the_size_of_what_was_published_goes_before_that_of_dispatch() -> None:
    reader, clock = reading(RatePolicy(bytes=1_000))
    reader.delivered(2, messages=2, size=1_000)
    clock.now = 1.0
    assert reader.entries_to_read(100) == 2  # two of 500 were dispatched
    reader.published(5, messages=5, size=500)
    assert reader.entries_to_read(100) == 10


def test_dispatch_an_entry_above_the_rate_is_read_alone_and_owed() -> None:
    reader, clock = reading(RatePolicy(bytes=1_000))
    reader.published(1, messages=1, size=2_500)
    assert reader.entries_to_read(100) == 1
    reader.delivered(1, messages=1, size=2_500)
    clock.now = 1.0
    assert reader.entries_to_read(100) == 0
    clock.now = 2.0
    assert reader.entries_to_read(100) == 1


def test_dispatch_the_period_is_as_long_as_the_policy_says() -> None:
    reader, clock = reading(RatePolicy(messages=10, period_s=5))
    reader.delivered(1, messages=10, size=1)
    clock.now = 2.5
    assert reader.entries_to_read(100) == 5
    clock.now = 5.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_messages_and_bytes_and_every_level_must_admit() -> None:
    reader, clock = reading(RatePolicy(messages=100), RatePolicy(bytes=1_000))
    reader.delivered(5, messages=5, size=2_000)
    assert reader.entries_to_read(100) == 0
    assert reader.delay_s() == pytest.approx(1.001)
    clock.now = 1.5
    assert reader.entries_to_read(200) == 1  # 500 bytes, and entries of 400
    clock.now = 2.0
    assert reader.entries_to_read(200) == 2


def test_dispatch_two_partitions_at_10_make_20() -> None:
    enforcer, _ = enforcing(Policies(topic={TOPIC: {"dispatch": TEN}}))
    readers = [
        enforcer.dispatcher(enforcer.limiter(topic=f"{TOPIC}-partition-{number}"))
        for number in range(2)
    ]
    assert sum(reader.entries_to_read(100) for reader in readers) == 20
    readers[0].delivered(1, messages=10, size=1)
    assert [reader.entries_to_read(100) for reader in readers] == [0, 10]


def test_dispatch_relative_to_the_publish_rate_adds_to_it() -> None:
    relative = RatePolicy(messages=10, relative_to_publish_rate=True)
    enforcer, clock = enforcing(Policies(topic={TOPIC: {"dispatch": relative}}))
    limiter = enforcer.limiter(topic=TOPIC)
    reader = enforcer.dispatcher(limiter)
    publish = limiter.handle("publish_messages")
    for second in range(30):
        for step in range(1, 51):
            clock.now = second + step / 50
            assert publish.try_acquire()
        enforcer.counts(clock.now)
    reader.delivered(1, messages=60, size=1)
    clock.now += 1.0
    assert reader.entries_to_read(100) == 60
    for _ in range(200):  # nothing is published any more
        clock.now += 1.0
        enforcer.counts(clock.now)
    assert reader.entries_to_read(100) == 10


def test_dispatch_relative_to_nothing_published_is_not_never() -> None:
    relative = RatePolicy(messages=0, relative_to_publish_rate=True)
    enforcer, _ = enforcing(Policies(topic={TOPIC: {"dispatch": relative}}))
    decision = enforcer.limiter(topic=TOPIC).try_acquire(dispatch_messages=1)
    assert not decision
    assert not decision.never


def test_dispatch_precise_flow_control_reads_2_entries_at_an_average_of_6() -> None:
    options = DispatchOptions(precise_flow_control=True)
    reader, _ = reading(TEN, options=options)
    assert reader.entries_to_read(100) == 1  # nothing is known yet
    reader.entries.note_dispatched(6)
    assert reader.entries_to_read(100) == 2
    reader.entries.note_published(3)
    assert reader.entries_to_read(100) == 4  # what was published goes first


def test_dispatch_an_average_follows_what_is_published() -> None:
    entries = EntryAverages()
    assert entries.messages is None
    assert entries.size is None
    for size in [*[100] * 100, *[300] * 100]:
        entries.note_published(20, size)
    assert entries.messages == pytest.approx(20.0)
    assert entries.size == pytest.approx(300.0, rel=0.01)


def test_dispatch_a_batch_counts_as_one_by_option() -> None:
    reader, _ = reading(TEN, options=DispatchOptions(on_batch_message=True))
    reader.delivered(4, messages=400, size=1)
    assert reader.entries_to_read(100) == 6


def test_dispatch_precise_and_on_batch_message_are_refused_together() -> None:
    with pytest.raises(InvalidConfiguration, match="expected false with"):
        DispatchOptions(precise_flow_control=True, on_batch_message=True)


def test_dispatch_without_backlog_it_is_throttled_too_unless_switched_off() -> None:
    reader, _ = reading(TEN, options=DispatchOptions(on_non_backlog_consumer=False))
    reader.delivered(50, messages=50, size=1, backlog=False)
    assert reader.entries_to_read(100, backlog=False) == 100
    assert reader.entries_to_read(100) == 10
    reader, _ = reading(TEN)
    reader.delivered(50, messages=50, size=1, backlog=False)
    assert reader.entries_to_read(100, backlog=False) == 0


def test_dispatch_seek_and_redelivery_count_again() -> None:
    reader, clock = reading(TEN)
    reader.delivered(5, messages=5, size=1)
    reader.delivered(5, messages=5, size=1)  # the same five, after a seek
    assert reader.entries_to_read(100) == 0
    clock.now = 1.0
    assert reader.entries_to_read(100) == 10


def test_dispatch_a_consumer_reads_no_more_than_it_asked_for() -> None:
    reader, _ = reading(TEN)
    assert reader.entries_to_read(100, permits=3) == 3


def test_dispatch_a_rate_of_zero_delivers_nothing_and_none_everything() -> None:
    reader, clock = reading(RatePolicy(messages=0))
    clock.now = 1e6
    assert reader.entries_to_read(100) == 0
    reader, _ = reading(RatePolicy())
    assert reader.entries_to_read(100) == 100
    assert reader.delay_s() == 0.0


def test_dispatch_groups_bound_what_is_read_as_well() -> None:
    enforcer, clock = enforcing(Policies())
    limit = Limit(dimension="dispatch_messages", rate=4, burst=4, scope="node")
    gold = Group(id=1, name="gold", limits=(limit,))
    attached = (Attachment((("namespace", "acme/orders"),), 1),)
    policies = Policies(topic={TOPIC: {"dispatch": TEN}})
    enforcer.configure(
        Configuration(groups=(gold,), attachments=attached), clock.now, policies
    )
    reader = enforcer.dispatcher(enforcer.limiter(topic=TOPIC))
    assert reader.entries_to_read(100) == 4
    reader.delivered(4, messages=4, size=1)
    assert reader.entries_to_read(100) == 0


@pytest.mark.parametrize("wrong", [-1, float("nan"), 2.0**60])
def test_dispatch_a_count_that_is_none_is_one_clear_error(wrong: float) -> None:
    reader, _ = reading(TEN)
    with pytest.raises(InvalidCost, match="dispatch_messages: expected a finite"):
        reader.delivered(1, messages=wrong, size=1)  # type: ignore[arg-type]  # on purpose


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
