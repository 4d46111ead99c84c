"""The enforcer: what limiters follow, what the coordinator is told and decides."""

from __future__ import annotations

import gc
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from tests.unit.agent.making import NODE, Clock, configuration, make

from headgate.agent.enforcement.enforcer import RETAIN_S, Enforcer
from headgate.agent.errors import InvalidCost, InvalidDimension
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)
from headgate.coordinator.messages.events import Ceilings, Counted, SetCeilings

CLUSTER = Limit(dimension="requests", rate=1_000, burst=1_000)
BYTES = Limit(dimension="publish_bytes", rate=1e6, burst=1e6)


def ceilings(counted: Counted, now: float, **columns: float) -> SetCeilings:
    count = len(counted.keys.group_ids)
    values = dict.fromkeys(Ceilings.__slots__, 0.0)
    values |= {"rate": 100.0, "capacity": 10.0, "share": 90.0, "reserve": 1.0}
    values |= columns
    deadline_s = values.pop("deadline_s", now + 3.0)
    values["ceiling"] = values["rate"]
    return SetCeilings(
        counted.keys,
        np.arange(count),
        Ceilings(**{name: np.full(count, values[name]) for name in Ceilings.__slots__}),
        counted=counted.admitted,
        as_of_s=now,
        deadline_s=np.full(count, deadline_s),
    )


def test_a_forked_child_begins_with_the_debts_of_its_parent_and_pays_them() -> None:
    gold = Group(id=1, name="gold", limits=(CLUSTER, BYTES))
    enforcer, clock = make(gold, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=3_000)
    enforcer.start_anew(lambda: None)
    assert enforcer.inherited_debts(clock.now) == [(1, "requests", -3_000.0, 0.0)]
    assert limiter.try_acquire(publish_bytes=1), "a first request, without a debt"
    refused = limiter.try_acquire(requests=1)
    assert not refused
    assert refused.delay_s == pytest.approx(3.0)
    clock.now += 2.9  # without its coordinator it keeps to a part of rate and debt
    assert not limiter.try_acquire(requests=1)
    clock.now += 0.2
    assert enforcer.inherited_debts(clock.now) == []
    assert limiter.try_acquire(requests=1)


@pytest.mark.parametrize(
    "gold",
    [
        Group(id=1, name="gold", limits=(replace(CLUSTER, scope="node"),)),
        Group(id=1, name="gold", limits=(CLUSTER,), mode="strict"),
        Group(id=1, name="gold", limits=(replace(CLUSTER, rate=0.0, burst=0.0),)),
    ],
    ids=["node", "strict", "closed"],
)
def test_a_forked_child_inherits_only_what_agents_owe_together(gold: Group) -> None:
    usual = replace(gold, limits=(replace(gold.limits[0], rate=1_000, burst=1_000),))
    enforcer, clock = make(replace(usual, mode="balanced"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=3_000)
    enforcer.configure(configuration(gold, acme=1), clock.now)
    enforcer.start_anew(lambda: None)
    assert enforcer.inherited_debts(clock.now) == []


def test_a_forked_child_asks_the_strict_group_around_its_own_at_once() -> None:
    """Not only once its own thread has followed the configuration."""
    around = Group(id=2, name="around", limits=(CLUSTER,), mode="strict")
    gold = Group(id=1, name="gold", limits=(CLUSTER,), parent=2, may_owe=True)
    enforcer, _ = make(around, gold, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    enforcer.start_anew(lambda: None)
    assert not limiter.try_acquire(requests=5_000)
    assert not limiter.try_acquire(requests=900)


def test_a_node_limit_is_enforced_whole_and_names_itself() -> None:
    enforcer, clock = make(Group(id=1, name="gold", limits=(NODE,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert [bool(limiter.try_acquire(requests=1)) for _ in range(7)] == [True] * 6 + [
        False
    ]
    refusal = limiter.try_acquire(requests=1)
    assert refusal.delay_s == pytest.approx(0.1)
    assert refusal.limit is not None
    assert (refusal.limit.group, refusal.limit.level, refusal.limit.scope) == (
        "gold",
        "tenant",
        "node",
    )
    clock.now += 0.1001
    assert limiter.try_acquire(requests=1)


def test_until_the_coordinator_has_spoken_a_hundredth_of_the_limit_passes() -> None:
    enforcer, clock = make(Group(id=1, name="gold", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    admitted = 0
    for _ in range(1_000):
        admitted += bool(limiter.try_acquire(requests=1))
        clock.now += 0.001
    assert 9 <= admitted <= 11


def test_what_the_coordinator_decides_is_what_the_bucket_refills_at() -> None:
    enforcer, clock = make(Group(id=1, name="gold", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    counted = enforcer.counts(clock.now)
    enforcer.apply(ceilings(counted, clock.now), clock.now)
    clock.now += 1.0
    assert sum(bool(limiter.try_acquire(requests=1)) for _ in range(100)) == 11
    counted = enforcer.counts(clock.now)
    assert counted.admitted.tolist() == [11.0]
    assert counted.refused.tolist() == [89.0]
    assert counted.held.tolist() == [-1.0]
    assert counted.cost.tolist() == [1.0]
    assert counted.subjects.tolist() == [1]


def test_the_keys_are_the_same_object_until_a_bucket_comes_or_goes() -> None:
    enforcer, clock = make(
        Group(id=2, name="b", limits=(CLUSTER, BYTES)),
        Group(id=1, name="a", limits=(CLUSTER, NODE)),
        acme=1,
        bolt=2,
    )
    first = enforcer.limiter(tenant="acme")
    keys = enforcer.counts(clock.now).keys
    first.try_acquire(requests=1)
    assert enforcer.counts(clock.now).keys is keys
    second = enforcer.limiter(tenant="bolt")
    keys = enforcer.counts(clock.now).keys
    assert second
    assert keys.dimensions == ("publish_bytes", "requests")
    assert keys.dimension.tolist() == [0, 1, 1]
    assert keys.group_ids.tolist() == [2, 1, 2]


def test_groups_that_nobody_uses_cost_nothing_after_a_minute() -> None:
    enforcer, clock = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.try_acquire(requests=1)
    clock.now += 1.0
    assert enforcer.counts(clock.now).admitted.tolist() == [1.0]
    del limiter
    gc.collect()
    assert enforcer.counts(clock.now).subjects.tolist() == [0]
    clock.now += RETAIN_S + 1.0
    assert len(enforcer.counts(clock.now).keys.group_ids) == 0
    limiter = enforcer.limiter(tenant="acme")
    assert enforcer.counts(clock.now).admitted.tolist() == [1.0]
    assert limiter


def test_a_debt_keeps_its_bucket() -> None:
    enforcer, clock = make(Group(id=1, name="a", limits=(NODE,)), acme=1)
    enforcer.limiter(tenant="acme").try_acquire(requests=10_000)
    gc.collect()
    enforcer.counts(clock.now)
    clock.now += RETAIN_S + 1.0
    enforcer.counts(clock.now)
    assert not enforcer.limiter(tenant="acme").try_acquire(requests=1)


def test_a_refusal_by_one_dimension_charges_no_other() -> None:
    node_bytes = replace(BYTES, scope="node", burst=100, rate=100)
    enforcer, _ = make(
        Group(id=1, name="a", limits=(NODE, node_bytes), may_owe=False), acme=1
    )
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=5, publish_bytes=60)
    for _ in range(3):
        assert not limiter.try_acquire(publish_bytes=30, requests=1)
    assert limiter.try_acquire(publish_bytes=40)


def test_a_refusal_is_demand_on_all_limits_of_the_group_that_refuses() -> None:
    group = Group(id=1, name="a", limits=(CLUSTER, BYTES))
    enforcer, clock = make(group, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    counted = enforcer.counts(clock.now)
    now = clock.now
    enforcer.apply(ceilings(counted, now, rate=1e3, capacity=1e3), now)
    clock.now += 1.0
    assert limiter.try_acquire(publish_bytes=5_000, requests=1)
    for _ in range(4):
        assert not limiter.try_acquire(publish_bytes=5_000, requests=1)
        assert not limiter.try_acquire(requests=1, publish_bytes=5_000)
    counted = enforcer.counts(clock.now)
    assert counted.keys.dimensions == ("publish_bytes", "requests")
    assert counted.admitted.tolist() == [5_000.0, 1.0]
    assert counted.refused.tolist() == [40_000.0, 8.0]


def test_a_refusal_by_another_group_is_no_demand() -> None:
    clock = Clock()
    enforcer = Enforcer(clock=clock, seed=1)
    closed = Group(id=2, name="closed", limits=(replace(NODE, rate=0),))
    enforcer.configure(
        Configuration(
            revision=1,
            groups=(Group(id=1, name="a", limits=(CLUSTER,)), closed),
            attachments=(
                Attachment((("tenant", "acme"),), 1),
                Attachment((("user", "eve"),), 2),
            ),
        ),
        clock.now,
    )
    limiter = enforcer.limiter(tenant="acme", user="eve")
    clock.now += 1.0
    for _ in range(5):
        assert not limiter.try_acquire(requests=1)
    counted = enforcer.counts(clock.now)
    assert (counted.admitted.tolist(), counted.refused.tolist()) == ([0.0], [0.0])


def test_counters_never_fall_when_a_charge_is_given_back() -> None:
    enforcer, clock = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.try_acquire(requests=5)
    assert enforcer.counts(clock.now).admitted.tolist() == [5.0]
    (local,) = enforcer.locals()
    local.bucket.give_back(3.0)
    assert enforcer.counts(clock.now).admitted.tolist() == [5.0]
    local.bucket.charge_at(clock.now, 4.0)
    assert enforcer.counts(clock.now).admitted.tolist() == [6.0]


def test_a_change_of_the_rate_holds_at_the_next_attempt() -> None:
    group = Group(id=1, name="a", limits=(NODE,))
    enforcer, clock = make(group, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=1)
    closed = replace(group, limits=(replace(NODE, rate=0),))
    enforcer.configure(configuration(closed, acme=1, revision=2), clock.now)
    refusal = limiter.try_acquire(requests=1)
    assert not refusal
    assert refusal.never
    opened = replace(group, limits=(replace(NODE, rate=inf),))
    enforcer.configure(configuration(opened, acme=1, revision=3), clock.now)
    assert all(limiter.try_acquire(requests=1e9) for _ in range(10))
    enforcer.configure(configuration(group, acme=1, revision=4), clock.now)
    assert limiter.try_acquire(requests=1)
    assert not limiter.try_acquire(requests=1)


def test_a_lowered_cluster_limit_scales_the_ceiling_before_the_next_report() -> None:
    group = Group(id=1, name="a", limits=(CLUSTER,))
    enforcer, clock = make(group, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    enforcer.apply(
        ceilings(enforcer.counts(clock.now), clock.now, rate=100, capacity=100),
        clock.now,
    )
    clock.now += 2.0
    lowered = replace(group, limits=(replace(CLUSTER, rate=100, burst=100),))
    enforcer.configure(configuration(lowered, acme=1, revision=2), clock.now)
    assert sum(bool(limiter.try_acquire(requests=1)) for _ in range(99)) == 11


def test_moving_an_attachment_moves_the_limiter() -> None:
    gold, lead = (
        Group(id=1, name="gold", limits=(replace(NODE, burst=50),)),
        Group(id=2, name="lead", limits=(replace(NODE, rate=0),)),
    )
    enforcer, clock = make(gold, lead, acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=1)
    enforcer.configure(configuration(gold, lead, acme=2, revision=2), clock.now)
    assert not limiter.try_acquire(requests=1)
    enforcer.configure(configuration(gold, lead, revision=3), clock.now)
    assert limiter.try_acquire(requests=1e9)


def test_a_cost_above_the_burst_of_a_group_that_may_not_owe_is_never() -> None:
    enforcer, _ = make(Group(id=1, name="a", limits=(CLUSTER,), may_owe=False), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    refusal = limiter.try_acquire(requests=1_001)
    assert refusal.never
    assert refusal.delay_s == inf
    assert limiter.try_acquire(requests=999)


@pytest.mark.parametrize("cost", [-1, nan, inf, -inf])
def test_a_cost_that_is_no_quantity_is_one_clear_error(cost: float) -> None:
    enforcer, clock = make(Group(id=1, name="a", limits=(CLUSTER, NODE)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    with pytest.raises(InvalidCost, match="requests: expected a finite cost"):
        limiter.try_acquire(publish_bytes=1, requests=cost)
    assert enforcer.counts(clock.now).admitted.tolist() == [0.0]


def test_a_dimension_that_is_no_identifier_is_one_clear_error() -> None:
    enforcer, _ = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    with pytest.raises(InvalidDimension, match="expected an identifier, got 'a b'"):
        enforcer.limiter(tenant="acme").try_acquire(**{"a b": 1})


@pytest.mark.parametrize("dimension", ["a b", "", "5"])
def test_a_handle_of_no_identifier_is_the_same_error(dimension: str) -> None:
    enforcer, _ = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    told = f"expected an identifier, got {dimension!r}"
    with pytest.raises(InvalidDimension, match=f"^{told}$"):
        limiter.handle(dimension)
    assert limiter.chains() == {}


@pytest.mark.parametrize("dimension", [5, None, True])
def test_a_handle_of_no_text_is_one_clear_error(dimension: str) -> None:
    enforcer, _ = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    # Compiled, mypyc's check of the argument comes first: "str object expected".
    with pytest.raises((InvalidDimension, TypeError), match=r"expected.*, got|; got"):
        limiter.handle(dimension)
    assert limiter.chains() == {}


def test_dimensions_are_bounded() -> None:
    enforcer, _ = make(Group(id=1, name="a", limits=(CLUSTER,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    for index in range(64):
        limiter.try_acquire(**{f"d{index}": 1})
    with pytest.raises(InvalidDimension, match="at most 64"):
        limiter.try_acquire(one_more=1)


def test_a_cost_of_zero_asks_for_nothing_and_meets_no_limit() -> None:
    closed = replace(NODE, rate=0)
    enforcer, clock = make(Group(id=1, name="a", limits=(closed, CLUSTER)), acme=1)
    assert enforcer.limiter(tenant="acme").try_acquire(requests=0)
    assert enforcer.counts(clock.now).admitted.tolist() == [0.0]


def test_without_a_configuration_attempts_are_admitted_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer = Enforcer(clock=Clock(), seed=1)
    limiter = enforcer.limiter(tenant="acme")
    assert all(limiter.try_acquire(requests=1) for _ in range(10))
    assert not caplog.records
    for _ in range(3):
        assert len(enforcer.counts(100.0).keys.group_ids) == 0
    assert len(caplog.records) == 1
    assert "every attempt is admitted" in caplog.text
    assert enforcer.metrics()["attempts_without_configuration"] == 10
    enforcer.configure(
        configuration(Group(id=1, name="a", limits=(replace(NODE, rate=0),)), acme=1),
        100.0,
    )
    assert not limiter.try_acquire(requests=1)


def test_without_a_configuration_attempts_are_refused_by_choice() -> None:
    enforcer = Enforcer(clock=Clock(), seed=1, without_configuration="refuse")
    refusal = enforcer.limiter(tenant="acme").try_acquire(requests=1)
    assert not refusal
    assert not refusal.never
    assert refusal.delay_s == 1.0


def test_an_attachment_to_a_group_that_is_unknown_limits_nothing_and_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, clock = make(acme=7)
    assert enforcer.limiter(tenant="acme").try_acquire(requests=1)
    enforcer.counts(clock.now)
    assert enforcer.metrics()["attachments_to_unknown_groups"] == 1
    assert "a group that is not in the configuration" in caplog.text


def test_a_subject_in_no_group_is_limited_by_nothing_and_counted() -> None:
    enforcer, clock = make(Group(id=1, name="a", limits=(NODE,)), acme=1)
    attached, free = enforcer.limiter(tenant="acme"), enforcer.limiter(tenant="free")
    assert free.try_acquire(requests=1e6)
    assert enforcer.metrics()["limiters_in_no_group"] == 1
    del free
    gc.collect()
    enforcer.counts(clock.now)
    assert enforcer.metrics()["limiters_in_no_group"] == 0
    assert attached


def test_kip599_the_part_of_a_batch_that_fits_is_accepted() -> None:
    limit = Limit(dimension="mutations", rate=5, burst=500, scope="node")
    enforcer, _ = make(Group(id=1, name="a", limits=(limit,)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    part = limiter.try_acquire_some(mutations=560)
    assert (part.admitted, part.refused) == (501.0, 59.0)
    assert part.decision.delay_s == pytest.approx(0.2)
    nothing = limiter.try_acquire_some(mutations=10)
    assert not nothing
    assert (nothing.admitted, nothing.refused) == (0.0, 10.0)


def test_ceilings_for_the_keys_before_the_last_still_count() -> None:
    enforcer, clock = make(
        Group(id=1, name="a", limits=(CLUSTER,)),
        Group(id=2, name="b", limits=(CLUSTER,)),
        acme=1,
        bolt=2,
    )
    first = enforcer.limiter(tenant="acme")
    counted = enforcer.counts(clock.now)
    second = enforcer.limiter(tenant="bolt")
    enforcer.counts(clock.now)
    enforcer.apply(ceilings(counted, clock.now, capacity=500, rate=500), clock.now)
    clock.now += 1.0
    assert sum(bool(first.try_acquire(requests=1)) for _ in range(999)) == 501
    assert sum(bool(second.try_acquire(requests=1)) for _ in range(999)) == 11


def test_limiters_of_one_request_each_are_counted_no_more_once_they_are_gone() -> None:
    enforcer, clock = make(Group(id=1, name="g", limits=(CLUSTER,)), a=1)
    for _ in range(100):  # each goes where the one before it was
        enforcer.limiter(tenant="a").try_acquire(requests=1)
    gc.collect()
    assert enforcer.counts(clock.now).subjects.tolist() == [0]
    clock.now += RETAIN_S + 1
    assert len(enforcer.counts(clock.now).keys.group_ids) == 0
