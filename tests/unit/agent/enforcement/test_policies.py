"""Rate policies in force: precedence, owners, live changes, what is kept."""

from __future__ import annotations

import gc
from itertools import product
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agent.making import Clock

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.enforcement.retained_buckets import RETAIN_S
from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.policies import (
    RULES,
    DispatchOptions,
    Kind,
    Policies,
    RatePolicy,
)
from headgate.agent.follow.snapshot import (
    Snapshot,
    snapshot_from_json,
    snapshot_to_json,
)
from headgate.agent.follow.subject import partitioned_topic
from headgate.coordinator.config.configuration import Configuration

if TYPE_CHECKING:
    from headgate.agent.json_place import Json

TOPIC = "acme/orders/new"
KINDS: tuple[Kind, ...] = get_args(Kind)
WHO = {"topic": TOPIC, "subscription": "billing", "client": "etl"}


def enforcing(policies: Policies) -> tuple[Enforcer, Clock]:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    enforcer.configure(Configuration(revision=1), clock.now, policies)
    return enforcer, clock


def rates(enforcer: Enforcer, dimension: str, **who: str) -> dict[str, float]:
    """Return (level → rate) of the limits that apply to a subject."""
    links = enforcer.limiter(**who).chain(dimension).links
    return {link.limit.level: link.bucket.rate for link in links}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given_at", list(product((False, True), repeat=3)))
def test_dispatch_of_every_combination_of_levels_the_narrowest_wins(
    kind: Kind, given_at: tuple[bool, bool, bool]
) -> None:
    topic, namespace, broker = given_at
    policies = Policies(
        topic={TOPIC: {kind: RatePolicy(messages=1)}} if topic else {},
        namespace={"acme/orders": {kind: RatePolicy(messages=2)}} if namespace else {},
        broker={kind: RatePolicy(messages=3)} if broker else {},
    )
    enforcer, _ = enforcing(policies)
    wanted: dict[str, float] = {}
    if not RULES[kind].names:  # all of a broker together: only the broker says it
        wanted = {"broker": 3.0} if broker else {}
    elif topic:
        wanted = {"topic": 1.0}
    elif namespace:
        wanted = {"namespace": 2.0}
    elif broker:
        wanted = {"broker": 3.0}
    assert rates(enforcer, RULES[kind].messages, **WHO) == wanted


def test_dispatch_a_narrower_policy_wins_as_a_whole() -> None:
    policies = Policies(
        topic={TOPIC: {"dispatch": RatePolicy(messages=1)}},
        namespace={"acme/orders": {"dispatch": RatePolicy(messages=2, bytes=20)}},
    )
    enforcer, _ = enforcing(policies)
    assert rates(enforcer, "dispatch_bytes", topic=TOPIC) == {}
    assert rates(enforcer, "dispatch_bytes", topic="acme/orders/old") == {
        "namespace": 20.0
    }


def test_dispatch_broker_topic_and_subscription_must_all_admit() -> None:
    policies = Policies(
        broker={"broker_dispatch": RatePolicy(messages=30)},
        namespace={"acme/orders": {"dispatch": RatePolicy(messages=20)}},
        topic={TOPIC: {"subscription_dispatch": RatePolicy(messages=10)}},
    )
    enforcer, _ = enforcing(policies)
    billing = enforcer.limiter(topic=TOPIC, subscription="billing")
    audit = enforcer.limiter(topic=TOPIC, subscription="audit")
    other = enforcer.limiter(topic="acme/orders/old")
    fits = [
        limiter.try_acquire_some(dispatch_messages=100).admitted
        for limiter in (billing, audit, other)
    ]
    # Each admits one more than its level: what may owe admits while it is >= 0.
    assert fits == [11.0, 10.0, 10.0]
    refused = other.try_acquire(dispatch_messages=1)
    assert refused.limit is not None
    assert refused.limit.level == "broker"


def test_dispatch_a_subscriber_has_its_rate_to_itself() -> None:
    policies = Policies(
        broker={"subscribe": RatePolicy(messages=2, period_s=30)},
    )
    enforcer, clock = enforcing(policies)
    one, two = (enforcer.limiter(topic=TOPIC, client=name) for name in ("c1", "c2"))
    assert [bool(one.try_acquire(subscribes=1)) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert two.try_acquire(subscribes=1)
    assert one.try_acquire(subscribes=1).delay_s == pytest.approx(15.0)
    clock.now += 15.0
    assert one.try_acquire(subscribes=1)


def test_dispatch_a_policy_changes_live_and_debts_stay() -> None:
    enforcer, clock = enforcing(
        Policies(topic={TOPIC: {"publish": RatePolicy(messages=10)}})
    )
    limiter = enforcer.limiter(topic=TOPIC)
    gate = limiter.handle("publish_messages")
    assert gate.try_acquire(30)
    assert gate.try_acquire(1).delay_s == pytest.approx(2.0)
    faster = Policies(topic={TOPIC: {"publish": RatePolicy(messages=40)}})
    enforcer.configure(Configuration(revision=2), clock.now, faster)
    assert gate.try_acquire(1).delay_s == pytest.approx(0.5)
    enforcer.configure(Configuration(revision=3), clock.now, Policies())
    assert gate.try_acquire(10_000)
    assert len(enforcer.locals()) == 0


def test_dispatch_an_unchanged_policy_survives_other_changes() -> None:
    policies = Policies(topic={TOPIC: {"publish": RatePolicy(messages=10)}})
    enforcer, clock = enforcing(policies)
    limiter = enforcer.limiter(topic=TOPIC)
    assert limiter.try_acquire(publish_messages=30)
    for revision in range(2, 9):
        enforcer.configure(Configuration(revision=revision), clock.now, policies)
    assert not limiter.try_acquire(publish_messages=1)
    (usage,) = enforcer.usage()
    assert (usage.admitted, usage.refused) == (30.0, 1.0)


def test_dispatch_a_bucket_is_forgotten_when_it_is_full_and_unused() -> None:
    policies = Policies(broker={"publish": RatePolicy(messages=10)})
    enforcer, clock = enforcing(policies)
    for index in range(200):
        cost = 10 if index else 10_000
        enforcer.limiter(topic=f"acme/orders/{index}").try_acquire(
            publish_messages=cost
        )
    kept = enforcer.limiter(topic="acme/orders/199").handle("publish_messages")
    gc.collect()
    enforcer.counts(clock.now)
    assert len(enforcer.locals()) == 200
    clock.now += RETAIN_S
    enforcer.counts(clock.now)
    assert len(enforcer.locals()) == 2  # the one in debt, and the one in use
    assert not enforcer.limiter(topic="acme/orders/0").try_acquire(publish_messages=1)
    assert kept.try_acquire(1)


def test_dispatch_policies_hold_in_a_forked_child_too() -> None:
    policies = Policies(topic={TOPIC: {"publish": RatePolicy(messages=10)}})
    enforcer, _ = enforcing(policies)
    limiter = enforcer.limiter(topic=TOPIC)
    limiter.try_acquire(publish_messages=30)
    enforcer.start_anew(lambda: None)
    assert limiter.try_acquire(publish_messages=30)
    assert not limiter.try_acquire(publish_messages=1)


@pytest.mark.parametrize(
    ("topic", "whole"),
    [
        ("a/b/c-partition-0", "a/b/c"),
        ("a/b/c-partition-12", "a/b/c"),
        ("a/b/c-partition-", "a/b/c-partition-"),
        ("a/b/c-partition-x", "a/b/c-partition-x"),
        ("a/b/c-partition-²", "a/b/c-partition-²"),
        ("a/b/c", "a/b/c"),
    ],
)
def test_a_partition_belongs_to_its_topic(topic: str, whole: str) -> None:
    assert partitioned_topic(topic) == whole


RATE = st.one_of(st.just(float("inf")), st.floats(0, 1e12))
POLICY = st.builds(
    RatePolicy,
    messages=RATE,
    bytes=RATE,
    period_s=st.floats(0.001, 1e6),
    relative_to_publish_rate=st.booleans(),
)
BY_KIND = st.dictionaries(st.sampled_from(KINDS), POLICY)
BY_NAME = st.dictionaries(st.text(min_size=1, max_size=5), BY_KIND, max_size=3)


@pytest.mark.long
@given(BY_KIND, BY_NAME, BY_NAME, st.booleans(), st.booleans())
def test_policies_survive_json(
    broker: dict[Kind, RatePolicy],
    namespace: dict[str, dict[Kind, RatePolicy]],
    topic: dict[str, dict[Kind, RatePolicy]],
    precise: bool,
    non_backlog: bool,
) -> None:
    options = DispatchOptions(
        precise_flow_control=precise, on_non_backlog_consumer=non_backlog
    )
    policies = Policies(
        broker=broker, namespace=namespace, topic=topic, options=options
    )
    snapshot = Snapshot(configuration=Configuration(), policies=policies)
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ([], "policies: expected an object"),
        ({"topic": {"t": {"publish": {"messages": -1}}}}, "topic.t.publish.messages"),
        ({"broker": {"dispatch": {"period_s": 0}}}, "broker.dispatch.period_s"),
        ({"broker": {"dispatch": {"bytes": "many"}}}, 'a number or "unlimited"'),
        (
            {"options": {"precise_flow_control": True, "on_batch_message": True}},
            "policies.options.on_batch_message: expected false with",
        ),
    ],
)
def test_policies_that_are_wrong_are_refused_with_their_place(
    policies: Json, message: str
) -> None:
    document = snapshot_to_json(Snapshot(configuration=Configuration()))
    with pytest.raises(MalformedSnapshot, match=message):
        snapshot_from_json({**document, "policies": policies})
