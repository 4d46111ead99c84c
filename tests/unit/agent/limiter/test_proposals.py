"""What the source proposals ask beyond buckets and modes, by name."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING

import pytest
from kafka.errors import ThrottlingQuotaExceededError
from tests.unit.agent.making import Clock, group, make

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.suppression import AttemptedRate
from headgate.agent.enforcement.split import TopicSplit, parts_of
from headgate.agent.limiter.kafka_quota import burst_units, error_code, throttle_time_ms
from headgate.agent.limiter.notices import Notice, NoticeBoard
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Split


def test_kip599_the_burst_is_rate_times_samples_times_window() -> None:
    assert burst_units(5, samples=100, window_s=1) == 500
    assert burst_units(5) == 55  # Kafka's defaults, 11 samples of 1 s


def test_kip599_throttle_time_is_the_longer_of_request_and_controller() -> None:
    assert throttle_time_ms(0.5, 12.0) == 12_000
    assert throttle_time_ms(0.5, 12.0, waited_s=11.8) == 500
    assert throttle_time_ms(0.0, 12.0, waited_s=20.0) == 0


def test_kip599_the_rest_of_a_batch_is_refused_with_throttling_quota_exceeded() -> None:
    mutations = Limit(dimension="mutations", rate=5, burst=500, scope="node")
    enforcer, _ = make(group(mutations), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    # KIP-599: topics of a batch are created until the burst is exhausted.
    topics = [limiter.try_acquire(mutations=100) for _ in range(8)]
    codes = [error_code(decision) for decision in topics]
    assert codes == [0] * 6 + [ThrottlingQuotaExceededError.errno] * 2
    assert topics[-1].throttle_time_ms == 20_000


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


def test_pip82_tenants_and_namespaces_share_the_four_limits_of_their_group() -> None:
    dimensions = (
        "publish_messages",
        "publish_bytes",
        "dispatch_messages",
        "dispatch_bytes",
    )
    limits = tuple(
        Limit(dimension=name, rate=1, burst=10 * rank, scope="node")
        for rank, name in enumerate(dimensions, 1)
    )
    gold = Group(id=1, name="gold", limits=limits, may_owe=False)
    subjects = ((("tenant", "acme"),), (("namespace", "umbrella/orders"),))
    enforcer, clock = make()
    enforcer.configure(
        Configuration(
            groups=(gold,),
            attachments=tuple(Attachment(subject, 1) for subject in subjects),
        ),
        clock.now,
    )
    acme = enforcer.limiter(tenant="acme")
    umbrella = enforcer.limiter(topic="umbrella/orders/new")
    for rank, name in enumerate(dimensions, 1):
        assert acme.try_acquire(**{name: 6.0 * rank})
        assert not umbrella.try_acquire(**{name: 5.0 * rank})
        assert umbrella.try_acquire(**{name: 4.0 * rank})


def test_a_soft_threshold_is_a_part_of_the_groups_rate_not_of_the_own_share() -> None:
    shared = Limit(dimension="requests", rate=1_000, burst=1_000)
    enforcer, clock = make(group(shared, soft_threshold=0.6), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    (local,) = enforcer.locals()
    local.bucket.set_rate_at(clock.now, rate=100.0, capacity=100.0)
    used = 500.0  # by all agents: five times this one's share
    enforcer.use_of = lambda group, dimension: used
    for _ in range(3):
        clock.now += 2.0
        enforcer.counts(clock.now)
        assert not limiter.try_acquire(requests=1).warning
    used = 700.0
    clock.now += 2.0
    enforcer.counts(clock.now)
    assert limiter.try_acquire(requests=1).warning


def test_pip82_the_topics_that_use_a_group_are_counted() -> None:
    shared = Limit(dimension="publish_messages", rate=100, burst=100)
    enforcer, clock = make(group(shared), acme=1)
    topics = [enforcer.limiter(topic=f"acme/orders/{i}") for i in range(3)]
    assert enforcer.counts(clock.now).subjects.tolist() == [3]
    topics.pop()
    gc.collect()
    assert enforcer.counts(clock.now).subjects.tolist() == [2]


def test_pip322_a_bucket_goes_below_zero_and_is_refilled_when_it_is_asked() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=10.0)
    assert bucket.try_acquire_at(0.0, 35.0) == 0.0
    assert bucket.level_at(0.0) == -25.0
    assert bucket.try_acquire_at(1.0, 1.0) == pytest.approx(1.5)
    assert bucket.try_acquire_at(2.5, 1.0) == 0.0
    assert bucket.level_at(1e9) == 10.0


def test_ably_the_running_part_is_ignored_while_it_is_below_the_mean() -> None:
    attempted = AttemptedRate(0.0)
    for tenth in range(10):
        for step in range(5):
            attempted.note_at(tenth * 0.1 + step * 0.02, 2.0)
    # A new part has begun with one attempt: the rate is not taken to fall.
    assert attempted.note_at(1.001, 2.0) == pytest.approx(100.0)
    # Above the mean it counts: a surge is seen within the part.
    assert attempted.note_at(1.002, 58.0) == pytest.approx(150.0)


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
def test_pip82_a_busy_topic_gets_its_part_of_the_share(how: Split, least: int) -> None:
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
