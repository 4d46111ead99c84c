"""What the bucket of a limit may do before and after the coordinator spoke."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest

from headgate.agent.enforcement import bucket_registry
from headgate.agent.enforcement.bucket_registry import (
    FIRST_LOOK_S,
    Registry,
    allowance_of,
    follow_limit,
    make_local,
    share_first,
)
from headgate.coordinator.config.configuration import Group, Limit, Mode, ancestry_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bucket.local import LocalBucket

LIMIT = Limit(dimension="requests", rate=100.0, burst=100.0)


def group_of(mode: Mode) -> Group:
    return Group(id=1, name="g", limits=(LIMIT,), mode=mode, may_owe=True)


def test_a_new_bucket_asks_for_patience_and_not_for_hours() -> None:
    group = Group(id=1, name="g", limits=(LIMIT,), may_owe=True)
    bucket = make_local(group, LIMIT, 0.0, seed=1).bucket
    assert bucket.try_acquire_at(0.0, 600.0) == 0.0
    assert bucket.try_acquire_at(0.0, 1.0) == FIRST_LOOK_S
    assert bucket.try_acquire_at(0.05, 1.0) == FIRST_LOOK_S


@pytest.mark.parametrize("changed", [False, True])
def test_a_strict_bucket_never_owes_and_a_cost_above_its_part_may_pass_later(
    *, changed: bool
) -> None:
    group = group_of("strict")
    local = make_local(group_of("balanced") if changed else group, LIMIT, 0.0, seed=1)
    if changed:
        follow_limit(local, group, LIMIT, 0.0)
    bucket = local.bucket
    bucket.set_rate_at(0.0, rate=10.0, capacity=10.0, credit=10.0)
    assert bucket.try_acquire_at(0.0, 4.0) == 0.0
    assert bucket.try_acquire_at(0.0, 7.0) == pytest.approx(0.1)
    assert bucket.try_acquire_at(0.0, 20.0) == pytest.approx(1.4)
    assert bucket.try_acquire_at(0.0, 101.0) == inf
    assert bucket.level_at(0.0) == pytest.approx(6.0)


def family(**modes: Mode) -> dict[int, Group]:
    """Return groups of which each is inside the one before, by id."""
    return {
        place: Group(
            id=place,
            name=name,
            parent=place - 1 if place > 1 else None,
            limits=(LIMIT,),
            mode=mode,
        )
        for place, (name, mode) in enumerate(modes.items(), start=1)
    }


def made(groups: dict[int, Group], *order: int) -> tuple[Registry, list[LocalBucket]]:
    """Return the buckets of these groups, made in this order and then filled."""
    registry = Registry(1)
    registry.follow(groups, 0.0)
    for place in order:
        registry.get(groups[place], "requests", "cluster", 0.0)
    found = [registry.get(g, "requests", "cluster", 0.0) for g in groups.values()]
    locals_ = [local for local in found if local is not None]
    fill(*locals_)
    return registry, locals_


def fill(*locals_: LocalBucket) -> None:
    for local in locals_:
        for bucket in filter(None, (local.bucket, local.allowance)):
            bucket.set_rate_at(0.0, rate=10.0, capacity=100.0, credit=100.0)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (3, 1, 2)])
def test_all_inside_a_strict_group_spend_what_this_process_has_of_it(
    order: tuple[int, ...],
) -> None:
    groups = family(top="strict", middle="balanced", low="strict")
    _, (top, middle, low) = made(groups, *order)
    assert [local.allowance is not None for local in (top, middle, low)] == [
        True,
        False,
        False,
    ]
    assert low.bucket.try_acquire_at(0.0, 50.0) == 0.0
    assert middle.bucket.try_acquire_at(0.0, 30.0) == 0.0
    assert top.bucket.try_acquire_at(0.0, 20.0) == 0.0
    for local in (top, middle, low):
        assert local.bucket.try_acquire_at(0.0, 1.0) == pytest.approx(0.1)
        assert local.usage_at(0.0).tokens == 0.0


def test_a_new_bucket_inside_a_strict_group_asks_for_patience_and_not_for_hours() -> (
    None
):
    groups = family(top="strict", low="balanced")
    registry = Registry(1)
    registry.follow(groups, 0.0)
    low = registry.get(groups[2], "requests", "cluster", 0.0)
    assert low is not None
    assert low.bucket.try_acquire_at(0.0, 1.0) == FIRST_LOOK_S


def test_a_strict_group_keeps_what_it_holds_when_another_one_is_put_inside() -> None:
    groups = family(top="strict", low="balanced")
    registry, (top,) = made({1: groups[1]}, 1)
    assert top.allowance is None
    assert top.bucket.try_acquire_at(0.0, 70.0) == 0.0
    registry.follow(groups, 0.0)
    low = registry.get(groups[2], "requests", "cluster", 0.0)
    assert low is not None
    low.bucket.set_rate_at(0.0, rate=10.0, capacity=100.0, credit=100.0)
    assert low.bucket.try_acquire_at(0.0, 30.0) == 0.0
    assert top.bucket.try_acquire_at(0.0, 1.0) > 0.0
    assert low.bucket.try_acquire_at(0.0, 1.0) > 0.0


def test_what_is_owed_to_a_strict_group_is_kept_while_nobody_uses_it() -> None:
    groups = family(top="strict", low="balanced")
    registry, (top, _) = made(groups, 1, 2)
    assert top.allowance is not None
    top.allowance.charge_at(0.0, 1_000.0)
    registry.mark_idle({}, 0.0)
    assert registry.drop_idle(80.0, 60.0), "nothing is owed to `low`"
    assert [local.group.name for local in registry] == ["top"]
    assert top.allowance.level_at(80.0) == pytest.approx(-100.0)


def test_a_group_that_becomes_strict_holds_no_more_than_its_process_may_spend() -> None:
    local = make_local(group_of("balanced"), LIMIT, 0.0, seed=1)
    share_first(local, level=100.0, window=20.0, now=0.0)
    assert allowance_of(local, 0.0).level_at(0.0) == 20.0


def test_a_new_bucket_concerns_no_others_unless_its_group_is_strict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a look at all others, 8,000 buckets took twelve times as long."""
    around = Group(id=1, name="around", limits=(LIMIT,))
    inside = [
        Group(id=place, name=f"g{place}", limits=(LIMIT,), parent=1)
        for place in range(2, 40)
    ]
    registry, looked_up = Registry(1), list[str]()

    def note(group: Group, groups: Mapping[int, Group]) -> list[Group]:
        looked_up.append(group.name)
        return ancestry_of(group, groups)

    monkeypatch.setattr(bucket_registry, "ancestry_of", note)
    registry.follow({group.id: group for group in [around, *inside]}, 0.0)
    for group in [*inside, around]:
        registry.get(group, "requests", "cluster", 0.0)
    assert max(Counter(looked_up).values()) <= 3


@pytest.mark.parametrize("change", ["balanced", "shadow", "gone", "closed"])
def test_a_group_that_no_longer_binds_those_inside_is_not_asked(change: str) -> None:
    groups = family(top="strict", low="balanced")
    registry, (top, low) = made(groups, 1, 2)
    assert top.allowance is not None
    assert low.bucket.try_acquire_at(0.0, 100.0) == 0.0
    new = {
        "balanced": replace(groups[1], mode="balanced"),
        "shadow": replace(groups[1], refusal="shadow"),
        "closed": replace(groups[1], limits=(replace(LIMIT, rate=0.0),)),
    }
    changed = {1: new[change]} if change in new else {}
    orphan = groups[2] if changed else replace(groups[2], parent=None)
    registry.follow({**changed, 2: orphan}, 0.0)
    fill(low)
    assert low.bucket.try_acquire_at(0.0, 100.0) == 0.0
    if change != "balanced":  # then the coordinator tells what is left
        registry.follow(groups, 0.0)
        fill(low)
        assert low.bucket.try_acquire_at(0.0, 1.0) > 0.0
