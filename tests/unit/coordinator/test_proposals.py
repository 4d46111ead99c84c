"""What the source proposals ask of shares, line by line."""

from __future__ import annotations

import pytest
from tests.scenarios.world import World

from headgate.coordinator import (
    Settings,
)


def world_of(*names: str, rate: float = 100.0) -> World:
    world = World()
    world.group(1, rate=rate, burst=rate)
    for name in names:
        world.start(name)
    world.run(2.0)
    return world


def shares(world: World, name: str = "a") -> dict[str, float]:
    view = world.processes[name].coordinator.table(1, "requests", world.now)
    return {row.agent: row.share for row in view.agents}


def test_pip82_usage_zero_takes_a_broker_out_of_the_calculation() -> None:
    world = world_of("a", "b", "c")
    world.load("a", 1, 45, 100)
    world.load("b", 1, 45, 100)
    world.run(6.0)
    found = shares(world)
    assert found["c"] == 0.0
    assert found["a"] == pytest.approx(found["b"], rel=0.05)


def test_pip82_stale_entries_leave() -> None:
    world = world_of("a", "b")
    world.kill("b")
    world.run(40.0)
    assert list(shares(world)) == ["a"]


def test_pip82_late_messages_are_dropped() -> None:
    world = world_of("a", "b")
    world.load("b", 1, 50, 0)
    world.run(3.0)
    late = world.processes["b"].sent[1]
    world.run(1.0)
    before = shares(world)
    world.inject("a", late)
    assert shares(world) == before


def test_pip82_usage_is_told_when_it_moved_by_a_tenth_or_every_n_cycles() -> None:
    world = world_of("a", rate=1000.0)
    world.load("a", 1, 400, 0)
    world.run(4.0)
    world.processes["a"].sent.clear()
    world.run(20.0)
    cycles = Settings().keyframe_every
    keyframes = [report for report in world.processes["a"].sent if report.keyframe]
    assert len(keyframes) == 20 // cycles
    world.processes["a"].sent.clear()
    world.load("a", 1, 800, 0)
    world.run(0.2)
    assert world.processes["a"].sent[0].rows


def test_pip82_two_brokers_that_want_more_each_get_half() -> None:
    world = world_of("a", "b")
    world.load("a", 1, 80, 120)
    world.load("b", 1, 20, 180)
    world.run(8.0)
    found = shares(world)
    assert found["a"] == pytest.approx(found["b"], rel=0.1)


def test_ably_what_is_attempted_decides_not_what_is_admitted() -> None:
    world = world_of("a", "b")
    world.load("a", 1, 95, 100)
    world.load("b", 1, 0, 150)
    world.run(6.0)
    found = shares(world)
    assert found["b"] == pytest.approx(found["a"], rel=0.1)


def test_ably_a_well_behaved_agent_keeps_its_ceiling_above_its_demand() -> None:
    world = world_of("a", "b", rate=1000.0)
    world.load("a", 1, 200, 0)
    world.load("b", 1, 790, 9000)
    world.run(8.0)
    assert float(world.processes["a"].ceilings[1].ceilings.ceiling[0]) > 200.0
