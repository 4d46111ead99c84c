"""A group that counts by partition: each partition has its limits of a node whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.agent.making import NODE, Clock, group

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

Key = tuple[tuple[str, str | None], ...]

TOPIC = "acme/orders/new"
NAMESPACE: Key = (("namespace", "acme/orders"),)


def enforcing(*groups: Group, key: Key = NAMESPACE) -> tuple[Enforcer, Clock]:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    configure(enforcer, clock, *groups, key=key)
    return enforcer, clock


def configure(
    enforcer: Enforcer, clock: Clock, *groups: Group, key: Key = NAMESPACE
) -> None:
    attached = (Attachment(key, 1),)
    enforcer.configure(Configuration(groups=groups, attachments=attached), clock.now)


@pytest.mark.parametrize(
    "key",
    [
        (("topic", TOPIC),),
        NAMESPACE,
        (("tenant", "acme"),),
        (("topic", None),),
        (("cluster", None),),
        (("topic", TOPIC), ("subscription", "billing")),
        (("user", None),),
    ],
)
@pytest.mark.parametrize("per_partition", [True, False])
def test_two_partitions_share_a_group_unless_it_counts_by_partition(
    key: Key, per_partition: bool
) -> None:
    enforcer, _ = enforcing(group(per_partition=per_partition), key=key)
    who = {"topic": f"{TOPIC}-partition-0", "subscription": "billing", "user": "alice"}
    one = enforcer.limiter(**who)
    assert one.try_acquire(requests=1_000)
    assert not one.try_acquire(requests=1)
    other = enforcer.limiter(**{**who, "topic": f"{TOPIC}-partition-1"})
    assert bool(other.try_acquire(requests=1)) == per_partition


def test_what_is_no_partition_shares_one_limit() -> None:
    enforcer, _ = enforcing(group(per_partition=True))
    assert enforcer.limiter(topic=TOPIC).try_acquire(requests=1_000)
    for name in (f"{TOPIC}-partition-x", "acme/orders/paid"):
        assert not enforcer.limiter(topic=name).try_acquire(requests=1)


def test_a_partition_of_a_default_quota_is_each_users_own() -> None:
    enforcer, _ = enforcing(group(per_partition=True), key=(("user", None),))
    topic = f"{TOPIC}-partition-0"
    assert enforcer.limiter(topic=topic, user="alice").try_acquire(requests=1_000)
    assert enforcer.limiter(topic=topic, user="bob").try_acquire(requests=1)


def test_a_limit_of_the_cluster_stays_shared_and_a_parent_says_it_for_itself() -> None:
    cluster = replace(NODE, scope="cluster")
    wide = replace(NODE, rate=15, burst=15)
    child = replace(group(per_partition=True, parent=2), limits=(NODE, cluster))
    enforcer, _ = enforcing(child, Group(id=2, name="all", limits=(wide,)))
    links = [
        {link.local.group.name: link.local for link in chain.links}
        for number in (0, 1)
        for chain in [
            enforcer.limiter(topic=f"{TOPIC}-partition-{number}").chain("requests")
        ]
    ]
    assert [[*one] for one in links] == [
        ["gold", f"gold of partition {TOPIC}-partition-{n}", "all"] for n in (0, 1)
    ]
    assert links[0]["gold"] is links[1]["gold"]
    assert links[0]["all"] is links[1]["all"]


def test_the_setting_is_changed_live_and_debts_of_partitions_stay() -> None:
    enforcer, clock = enforcing(group(per_partition=True))
    one = enforcer.limiter(topic=f"{TOPIC}-partition-0")
    assert one.try_acquire(requests=25)
    faster: Limit = replace(NODE, rate=40)
    assert one.try_acquire(requests=1).delay_s == pytest.approx(2.0)
    configure(enforcer, clock, replace(group(faster), per_partition=True))
    assert one.try_acquire(requests=1).delay_s == pytest.approx(0.5)
    configure(enforcer, clock, group())
    two = enforcer.limiter(topic=f"{TOPIC}-partition-1")
    assert one.try_acquire(requests=1_000)
    assert not two.try_acquire(requests=1)
