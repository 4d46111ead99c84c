"""What a bucket may do that was made between two looks."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from tests.scenarios.world import DIMENSION, World

from headgate.coordinator import (
    Configuration,
    Configured,
    Group,
    Heard,
    Limit,
    Restored,
)

FULL = 500.0


def world_of(
    *agents: str,
    parent: int | None = None,
    mode: str = "balanced",
    burst: float = FULL,
) -> World:
    """Agents that have met, and a group that has no bucket anywhere yet."""
    world = World()
    world.start(agents[0])
    for name in agents[1:]:
        world.start(name)
    world.run(5)
    limit = Limit(dimension=DIMENSION, rate=5.0, burst=burst)
    above = () if parent is None else (Group(id=parent, name="p", limits=(limit,)),)
    group = Group(id=1, name="g", limits=(limit,), parent=parent, mode=mode)  # type: ignore[arg-type]  # by name
    configuration = Configuration(revision=1, groups=(*above, group))
    for process in world.processes.values():
        world.step(process, Configured(configuration))
    return world


def terms(world: World, level: float | None = FULL) -> tuple[float, float] | None:
    process = world.processes["a"]
    if level is not None:
        world.step(process, Restored(DIMENSION, np.array([1]), np.array([level])))
    return process.coordinator.first_terms(1, DIMENSION, world.now)


def test_an_agent_alone_has_the_whole_bucket() -> None:
    assert terms(world_of("a")) == (FULL, inf)


def test_one_of_three_may_spend_a_third_before_the_others_know() -> None:
    assert terms(world_of("a", "b", "c")) == pytest.approx((FULL, FULL / 3))


def test_a_level_grows_from_when_it_was_true_up_to_the_burst() -> None:
    world = world_of("a")
    terms(world, 100.0)
    world.run(2)
    found = world.processes["a"].coordinator.first_terms(1, DIMENSION, world.now)
    assert found == pytest.approx((110.0, inf))


def test_a_debt_leaves_nothing_to_spend_unseen() -> None:
    assert terms(world_of("a", "b"), -60.0) == (-60.0, 0.0)


@pytest.mark.parametrize(("level", "found"), [(-60.0, (-60.0, 0.0)), (100.0, None)])
def test_others_may_have_used_what_was_left_but_not_paid_a_debt(
    level: float, found: tuple[float, float] | None
) -> None:
    world = world_of("a", "b")
    assert terms(world, level) is not None
    told = world.processes["b"].sent[-1]
    used = replace(told, sequence=told.sequence + 1, left_out=np.array([1]))
    world.step(world.processes["a"], Heard((used,)))
    assert terms(world, None) == found


def test_a_debt_holds_inside_another_group_as_well() -> None:
    assert terms(world_of("a", "b", parent=2), -60.0) == (-60.0, 0.0)


def test_before_it_has_met_the_others_ten_are_assumed() -> None:
    world = World()
    world.start("a")
    limit = Limit(dimension=DIMENSION, rate=5.0, burst=FULL)
    group = Group(id=1, name="g", limits=(limit,))
    configured = Configured(Configuration(revision=1, groups=(group,)))
    world.step(world.processes["a"], configured)
    assert terms(world) == (FULL, FULL / 10)


@pytest.mark.parametrize(
    "world",
    [
        world_of("a", parent=2),
        world_of("a", mode="strict"),
        world_of("a", burst=inf),
    ],
    ids=["inside another group", "strict", "any burst"],
)
def test_where_more_must_be_known_the_look_decides(world: World) -> None:
    assert terms(world) is None


def test_nothing_is_known_of_a_level_that_nobody_told() -> None:
    assert terms(world_of("a"), None) is None
