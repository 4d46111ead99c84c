"""What is told of buckets at rest is what a look at each of them would say."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.agent.bucket.terms import SharedTerms
from headgate.agent.enforcement import sampling as counting
from headgate.agent.enforcement.bucket_registry import Registry
from headgate.agent.enforcement.sampling import Columns
from headgate.coordinator import Ceilings, Group, Limit, SetCeilings

if TYPE_CHECKING:
    from headgate.agent.bucket.bucket import Bucket

LIMIT = Limit(dimension="requests", rate=100.0, burst=10.0)
FAST = Limit(dimension="requests", rate=1e6, burst=1e6)
GROUPS = {i: Group(id=i, name=f"g{i}", limits=(LIMIT,)) for i in (1, 2, 3)}


def share(bucket: Bucket, now: float) -> None:
    """Let others use it as well."""
    bucket.share_at(
        now,
        SharedTerms(
            ceiling=20.0,
            level=7.0,
            rate=20.0,
            capacity=10.0,
            room=3.0,
            window=3.0,
            expected_rate=2.0,
            room_cap=5.0,
            cautious=False,
            quota=50.0,
            least_delay_s=0.1,
            reserve=1.0,
        ),
        as_of_s=now,
        counted=bucket.admitted,
        burst=10.0,
        may_owe=True,
        deadline_s=now + 0.5,
    )


def disturb(bucket: Bucket, random: np.random.Generator, now: float) -> None:
    """Do to a bucket what callers and the coordinator do."""
    cost = float(random.integers(0, 4))
    match int(random.integers(7)):
        case 0:
            bucket.try_acquire_at(now, cost)
        case 1:
            bucket.charge_at(now, cost)
        case 2:
            bucket.give_back(min(cost, bucket.admitted))
        case 3:
            bucket.count_refused(cost)
        case 4:
            capacity = float(random.choice([0.0, 5.0, 10.0]))
            bucket.set_rate_at(now, rate=100.0, capacity=capacity)
        case 5:
            share(bucket, now)
        case _:
            pass


@pytest.mark.parametrize("few", [0, counting.FEW], ids=["columns", "one-by-one"])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_told_is_what_a_look_at_each_bucket_says(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "FEW", few)
    random = np.random.default_rng(seed)
    registry, now = Registry(seed), 0.0
    registry.follow(GROUPS, now)
    locals_ = [registry.get(g, "requests", "cluster", now) for g in GROUPS.values()]
    columns = Columns([local for local in locals_ if local is not None], None)
    buckets = columns.buckets
    uses = {1: 1, 2: 1, 3: 1}
    most = np.zeros((2, 3))
    for _ in range(200):
        now += float(random.choice([0.0, 0.025, 1.0]))
        if random.random() < 0.5:
            disturb(buckets[int(random.integers(3))], random, now)
        if random.random() < 0.05:
            uses[int(random.integers(1, 4))] += 1
        counted = columns.counted(now, dict(uses))
        seen = [[b.admitted for b in buckets], [b.refused for b in buckets]]
        most = np.maximum(most, seen)
        assert counted.admitted.tolist() == most[0].tolist()
        assert counted.refused.tolist() == most[1].tolist()
        assert counted.held.tolist() == [b.held_at(now) for b in buckets]
        assert counted.subjects.tolist() == [uses[g] for g in (1, 2, 3)]
    for bucket in buckets:
        bucket.set_rate_at(now, rate=100.0, capacity=10.0)
    full = columns.counted(now + 10.0, uses)
    # All are full and at rest: there is nothing new to say.
    assert columns.counted(now + 11.0, uses) is full
    buckets[1].try_acquire_at(now + 12.0, 3.0)
    assert columns.counted(now + 12.0, uses).held.tolist() == [10.0, 7.0, 10.0]


def test_shared_terms_hold_while_someone_counts_and_a_buckets_own_do_not() -> None:
    registry = Registry(1)
    registry.follow(GROUPS, 0.0)
    locals_ = [registry.get(g, "requests", "cluster", 0.0) for g in GROUPS.values()]
    columns = Columns([local for local in locals_ if local is not None], None)
    shared, own, ended = columns.buckets
    columns.apply(terms(columns, lease_s=3.0), 0.0)
    own.set_rate_at(0.0, rate=20.0, capacity=10.0, deadline_s=3.0, reserve=1.0)
    ended.deadline_s = 1.5
    for tenth in range(20, 101):
        columns.counted(tenth / 10, {})
    assert [bucket.deadline_s for bucket in (own, ended)] == [3.0, 1.5]
    assert 12.0 < shared.deadline_s <= 13.0
    later = Columns(columns.locals, columns)
    later.counted(12.0, {})
    assert shared.deadline_s == 15.0
    shared.charge_at(15.1, 1.0)
    assert shared.capacity == 5.0  # nobody counts: this agent's half


def terms(columns: Columns, *, lease_s: float) -> SetCeilings:
    """What a coordinator tells of full buckets that two agents share."""
    one = np.ones(len(columns.buckets))
    return SetCeilings(
        keys=columns.keys,
        index=np.arange(len(one)),
        ceilings=Ceilings(
            shared=one > 0.0,
            share=0.0 * one,
            ceiling=100.0 * one,
            level=10.0 * one,
            rate=100.0 * one,
            capacity=10.0 * one,
            room=5.0 * one,
            window=5.0 * one,
            expected_rate=0.0 * one,
            room_cap=np.inf * one,
            cautious=one > 0.0,
            quota=100.0 * one,
            least_delay_s=0.1 * one,
            reserve=50.0 * one,
        ),
        counted=0.0 * one,
        as_of_s=0.0,
        deadline_s=lease_s * one,
    )


def test_a_caller_who_read_the_clock_before_the_look_is_counted_all_the_same() -> None:
    registry = Registry(1)
    group = Group(id=1, name="g1", limits=(FAST,))
    registry.follow({1: group}, 0.0)
    local = registry.get(group, "requests", "cluster", 0.0)
    assert local is not None
    columns, bucket = Columns([local], None), local.bucket
    bucket.set_rate_at(0.0, rate=1e6, capacity=50.0)
    bucket.try_acquire_at(1.0, 1.0)  # for a lull others take the short way
    assert columns.counted(1.01, {}).admitted.tolist() == [1.0]
    bucket.try_acquire_at(1.0005, 1.0)
    assert columns.counted(1.02, {}).admitted.tolist() == [2.0]


def test_nothing_that_threads_charge_while_others_look_is_ever_forgotten() -> None:
    groups = {i: Group(id=i, name=f"g{i}", limits=(FAST,)) for i in range(1, 41)}
    registry = Registry(1)
    registry.follow(groups, time.monotonic())
    found = [
        registry.get(g, "requests", "cluster", time.monotonic())
        for g in groups.values()
    ]
    columns = Columns([local for local in found if local is not None], None)
    for bucket in columns.buckets:
        bucket.set_rate_at(time.monotonic(), rate=1e6, capacity=50.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        callers = [threading.Thread(target=call, args=(columns, i)) for i in range(3)]
        for caller in callers:
            caller.start()
        while any(caller.is_alive() for caller in callers):
            columns.counted(time.monotonic(), {})
        for caller in callers:
            caller.join()
    finally:
        sys.setswitchinterval(before)
    last = columns.counted(time.monotonic(), {})
    assert last.admitted.tolist() == [b.admitted for b in columns.buckets]
    assert last.refused.tolist() == [b.refused for b in columns.buckets]
    assert last.admitted.sum() + last.refused.sum() == 3 * 20_000


def call(columns: Columns, seed: int) -> None:
    """Attempt on random buckets, by the short way where it is open."""
    random = np.random.default_rng(seed)
    places: list[int] = random.integers(0, len(columns.buckets), 20_000).tolist()
    for i in places:
        columns.buckets[i].try_acquire_at(time.monotonic(), 1.0)


def test_permits_of_a_group_with_others_inside_are_what_all_of_them_hold() -> None:
    top = Group(id=1, name="top", limits=(LIMIT,), mode="strict")
    low = Group(id=2, name="low", parent=1, limits=(LIMIT,))
    registry = Registry(1)
    registry.follow({1: top, 2: low}, 0.0)
    registry.get(low, "requests", "cluster", 0.0)
    columns = Columns(list(registry), None)
    outer, inner = columns.buckets

    def say(part: float, credit: float) -> None:
        told = terms(columns, lease_s=1.0)
        # Its own callers are due a fifth of what the group has here.
        new = replace(
            told.ceilings,
            shared=np.zeros(2, np.bool_),
            share=np.full(2, part * LIMIT.rate),
            capacity=np.full(2, 2.0),
        )
        told = replace(told, ceilings=new, credit=np.array([credit, 0.0]))
        columns.apply(told, 0.0)

    say(0.8, 8.0)
    counted = columns.counted(0.0, {})
    assert counted.held.tolist()[0] == 8.0
    inner.set_rate_at(0.0, rate=1.0, capacity=10.0, credit=10.0)
    assert inner.try_acquire_at(0.0, 2.0) == 0.0
    assert outer.available_at(0.0) == 2.0
    say(0.5, 0.0)
    counted = columns.counted(0.0, {})
    assert counted.held.tolist()[0] == 5.0
    assert counted.clipped is not None
    assert counted.clipped.tolist()[0] == 1.0
    assert counted.admitted.tolist() == [0.0, 2.0]
