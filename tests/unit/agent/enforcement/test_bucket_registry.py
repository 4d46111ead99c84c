"""What the bucket of a limit may do before and after the coordinator spoke."""

from __future__ import annotations

from math import inf

import pytest

from headgate.agent.enforcement.bucket_registry import (
    FIRST_LOOK_S,
    follow_limit,
    make_local,
)
from headgate.coordinator.config.configuration import Group, Limit, Mode

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
