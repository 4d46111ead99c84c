"""Kafka's default quotas: every entity to which one applies has it to itself."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from tests.unit.agent.making import NODE, Clock, group

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.enforcement.retained_buckets import RETAIN_S
from headgate.coordinator.config.configuration import Attachment, Configuration, Limit

Key = tuple[tuple[str, str | None], ...]

ALICE_ETL = {"user": "alice", "client": "etl"}
ALICE_WEB = {"user": "alice", "client": "web"}
BOB_ETL = {"user": "bob", "client": "etl"}


def enforcing(key: Key, limit: Limit = NODE) -> tuple[Enforcer, Clock]:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    configure(enforcer, clock, key, limit)
    return enforcer, clock


def configure(enforcer: Enforcer, clock: Clock, key: Key, limit: Limit) -> None:
    enforcer.configure(
        Configuration(groups=(group(limit),), attachments=(Attachment(key, 1),)),
        clock.now,
    )


@pytest.mark.parametrize(
    ("key", "web_is_apart", "bob_is_apart"),
    [
        ((("user", "alice"), ("client", None)), True, None),
        ((("user", "alice"),), False, None),
        ((("user", None), ("client", "etl")), None, True),
        ((("user", None), ("client", None)), True, True),
        ((("user", None),), False, True),
        ((("client", "etl"),), None, False),
        ((("client", None),), True, False),
    ],
)
def test_kip599_of_each_default_every_entity_has_the_whole_quota(
    key: Key, web_is_apart: bool | None, bob_is_apart: bool | None
) -> None:
    """None: the attachment does not apply to that one at all."""
    enforcer, _ = enforcing(key)
    assert enforcer.limiter(**ALICE_ETL).try_acquire(requests=1_000)
    assert not enforcer.limiter(**ALICE_ETL).try_acquire(requests=1)
    for who, apart in ((ALICE_WEB, web_is_apart), (BOB_ETL, bob_is_apart)):
        limiter = enforcer.limiter(**who)
        assert len(limiter.chain("requests").links) == (apart is not None)
        assert bool(limiter.try_acquire(requests=1)) == (apart is not False)


def test_kip599_a_refused_entity_is_named_and_has_its_own_figures() -> None:
    enforcer, _ = enforcing((("user", None),))
    alice, bob = (enforcer.limiter(user=name) for name in ("alice", "bob"))
    assert alice.try_acquire(requests=15)
    refused = alice.try_acquire(requests=1)
    assert refused.limit is not None
    assert (refused.limit.group, refused.limit.level) == ("gold of user alice", "user")
    assert bob.try_acquire(requests=2)
    figures = {u.group: (u.admitted, u.refused, u.tokens) for u in enforcer.usage()}
    assert figures["gold of user alice"] == (15.0, 1.0, -10.0)
    assert figures["gold of user bob"] == (2.0, 0.0, 3.0)


def test_kip599_a_limit_of_the_cluster_is_shared_by_all_of_a_default() -> None:
    enforcer, _ = enforcing((("user", None),), replace(NODE, scope="cluster"))
    alice, bob = (enforcer.limiter(user=name) for name in ("alice", "bob"))
    assert alice.try_acquire(requests=1_000)
    assert not bob.try_acquire(requests=1)


def test_kip599_a_default_quota_is_changed_live_and_debts_stay() -> None:
    enforcer, clock = enforcing((("user", None),))
    alice = enforcer.limiter(user="alice")
    assert alice.try_acquire(requests=25)
    assert alice.try_acquire(requests=1).delay_s == pytest.approx(2.0)
    configure(enforcer, clock, (("user", None),), replace(NODE, rate=40))
    assert alice.try_acquire(requests=1).delay_s == pytest.approx(0.5)
    configure(enforcer, clock, (("user", "carol"),), NODE)
    assert alice.try_acquire(requests=1_000)


def test_kip599_entities_that_went_away_are_forgotten_but_not_their_debts() -> None:
    enforcer, clock = enforcing((("client", None),))
    for index in range(100):
        cost = 5 if index else 10_000
        enforcer.limiter(client=f"c{index}").try_acquire(requests=cost)
    gc.collect()
    enforcer.counts(clock.now)
    assert enforcer.metrics()["entity_buckets"] == 100
    clock.now += RETAIN_S
    enforcer.counts(clock.now)
    assert enforcer.metrics()["entity_buckets"] == 1
    assert not enforcer.limiter(client="c0").try_acquire(requests=1)
