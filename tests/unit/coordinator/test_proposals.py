"""What the source proposals ask of shares, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.scenarios.world import World

from headgate.coordinator import (
    Settings,
)

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Isolation


def world_of(*names: str, rate: float = 100.0) -> World:
    world = World()
    world.group(1, rate=rate, burst=rate)
    for name in names:
        world.start(name)
    world.run(2.0)
    return world


def shares(world: World, name: str = "a") -> dict[str, float]:
    view = world.processes[name].coordinator.explain(1, "requests", world.now)
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


@pytest.mark.parametrize("cycles", [3, 10])
def test_pip82_usage_is_told_every_n_cycles_changed_or_not(cycles: int) -> None:
    world = World(Settings(keyframe_every=cycles))
    world.group(1, rate=1000.0, burst=1000.0)
    world.start("a")
    world.load("a", 1, 400, 0)
    world.run(4.0)
    world.processes["a"].sent.clear()
    world.run(30.0)
    keyframes = [report for report in world.processes["a"].sent if report.keyframe]
    assert len(keyframes) == 30 // cycles


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "at_once"), [(0.09, False), (-0.09, False), (0.11, True), (-0.11, True)]
)
def test_pip82_usage_is_told_at_once_when_it_moved_by_more_than_a_tenth(
    part: float, at_once: bool
) -> None:
    # So many requests that ten per cent are far above the noise of their number.
    world = world_of("a", "b", rate=1e6)
    fair = 5e5
    world.load("a", 1, fair, 0)
    world.load("b", 1, 1e4, 0)
    world.run(10.0)
    sent = world.processes["a"].sent
    before = len(sent)
    while len(sent) == before:  # until just after a heartbeat
        world.run(0.025)
    before = len(sent)
    world.load("a", 1, fair * (1 + part), 0)
    world.run(0.075)
    assert any(report.rows for report in sent[before:]) == at_once


@pytest.mark.parametrize(
    ("isolation", "heavy", "light"), [("fair", 500, 500), ("hold", 875, 100)]
)
def test_pip82_what_a_cut_off_agent_may_spend_is_its_part_or_its_last_share(
    isolation: Isolation, heavy: float, light: float
) -> None:
    world = World()
    world.group(1, rate=1000.0, burst=1000.0, isolation=isolation)
    world.start("a")
    world.start("b")
    world.load("a", 1, 900, 300)
    world.load("b", 1, 100, 0)
    world.run(15.0)
    reserves = [
        float(world.processes[name].ceilings[1].ceilings.reserve[0])
        for name in ("a", "b")
    ]
    assert reserves == pytest.approx([heavy, light], rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize(("isolation", "aside"), [("fair", 1000 / 3), ("hold", 900)])
def test_pip82_what_is_set_aside_for_a_silent_agent_is_its_part_or_its_last_share(
    isolation: Isolation, aside: float
) -> None:
    world = World()
    world.group(1, rate=1000.0, burst=1000.0, isolation=isolation)
    for name in ("a", "b", "c"):
        world.start(name)
    world.load("a", 1, 900, 300)
    for name in ("b", "c"):
        world.load(name, 1, 50, 0)
    world.run(15.0)
    world.kill("a")  # nobody says that it is gone
    world.run(10.0)
    assert shares(world, "b")["a"] == pytest.approx(aside, rel=0.05)


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
