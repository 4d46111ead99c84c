"""A large first request is charged once, whatever happens to its first reports."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from tests.sample import thorough
from tests.scenarios.world import DIMENSION, World

from headgate.coordinator import Restored, Settings

pytestmark = pytest.mark.long

BURST, SPENT = 100.0, 400.0


def world_of(*names: str, settings: Settings | None = None) -> World:
    """Agents that have met and know, from the store, that a limit is full."""
    world = World(settings)
    world.group(1, rate=1.0, burst=BURST)
    for name in names:
        world.start(name)
        world.use_groups(name, [])
    world.run(30)
    for name in names:
        full = Restored(DIMENSION, np.array([1]), np.array([BURST]))
        world.step(world.processes[name], full)
    return world


def begin(world: World, name: str, units: float) -> None:
    world.use_groups(name, [1])
    use(world, name, units)


def use(world: World, name: str, units: float) -> None:
    world.use(name, 1, admitted=units, refused=0)


def level(world: World, name: str) -> float:
    process = world.processes[name]
    return process.coordinator.explain(1, DIMENSION, world.now).level


@pytest.mark.parametrize("delay_s", [0.005, *thorough(0.05, 0.3), 0.5])
@pytest.mark.parametrize("gap_s", [0.025, *thorough(0.3, 1.2), 3.0])
def test_on_any_bus_by_who_begins_before_or_after(delay_s: float, gap_s: float) -> None:
    world = world_of("a", "b")
    world.delay_s = delay_s
    world.run(2)
    begin(world, "a", SPENT)
    world.run(gap_s)
    begin(world, "b", 1.0)
    world.run(5)
    left = BURST - SPENT - 1.0 + gap_s + 5.0
    for name in "ab":
        assert level(world, name) == pytest.approx(left, abs=5.0)


@pytest.mark.parametrize("delay_s", [*thorough(0.003), 0.06])
@pytest.mark.parametrize("gap_s", [0.1, *thorough(0.15, 0.25)])
@pytest.mark.parametrize("cost", [1.0, 1.1 * SPENT])
@pytest.mark.parametrize("others", ["bc", "bcdefghi"])
def test_of_several_that_begin_one_after_another(
    others: str, cost: float, gap_s: float, delay_s: float
) -> None:
    world = world_of("a", *others)
    world.delay_s, world.cost = delay_s, cost
    world.run(30)
    begin(world, "a", 1.0)
    world.run(3)
    spent = 0.0
    for name in others:
        begin(world, name, SPENT)
        spent += SPENT - gap_s
        world.run(gap_s)
    world.run(3)
    for name in "a" + others:
        assert level(world, name) == pytest.approx(BURST - spent + 3.0, abs=10.0)


@pytest.mark.parametrize("first_lost", [False, True])
def test_what_was_spent_by_one_that_left_before_it_knew_the_level(
    *, first_lost: bool
) -> None:
    """The other one begins between its request and its goodbye, and knows nothing."""
    world = World()
    world.group(1, rate=1.0, burst=BURST)
    for name in "ab":
        world.start(name)
        world.use_groups(name, [])
    world.run(30)
    begin(world, "b", SPENT)
    world.losing = int(first_lost)
    world.run(0.025)
    world.use_groups("a", [1])
    world.stop("b")
    world.run(3)
    assert -SPENT - BURST < level(world, "a") < -SPENT + BURST


def test_a_goodbye_that_was_sent_before_it_was_heard_of_includes_no_request() -> None:
    world = World()
    world.group(1, rate=1.0, burst=BURST)
    world.delay_s = 0.06
    for name in "abc":
        world.start(name)
        world.use_groups(name, [])
    world.run(30)
    begin(world, "a", SPENT)
    world.run(1)
    begin(world, "b", SPENT)
    world.run(0.025)
    world.stop("a")
    world.run(4)
    assert level(world, "b") < BURST - 1.7 * SPENT


def test_where_the_api_tells_another_level_between_answer_and_end() -> None:
    world = World()
    world.group(1, rate=1.0, burst=BURST)
    for name in "ab":
        world.start(name)
        world.use_groups(name, [])
    begin(world, "a", 50.0)
    world.run(30)
    begin(world, "b", 1.0)
    process = world.processes["b"]
    asking = process.coordinator._state.bootstrap  # pyright: ignore[reportPrivateUsage]
    while not asking._answers:  # pyright: ignore[reportPrivateUsage]
        world.run(0.025)
    assert asking
    stored = Restored(DIMENSION, np.array([1]), np.array([-300.0]))
    world.step(process, stored)
    world.run(3)
    assert level(world, "b") == pytest.approx(level(world, "a"), abs=2.0)


@pytest.mark.thorough
def test_beside_many_that_answer_somebody_else_just_then() -> None:
    users = [f"u{n}" for n in range(20)]
    world = world_of(*users, "b", "z")
    world.delay_s = 0.04
    world.run(10)
    for name in users:
        begin(world, name, 1.0)
    world.run(3)
    began_at = world.now
    begin(world, "z", 1.0)
    world.run(0.05)
    begin(world, "b", SPENT)
    world.run(3)
    left = BURST - 20.0 + 3.0 - 1.0 - SPENT + world.now - began_at
    for name in (*users, "b", "z"):
        assert level(world, name) == pytest.approx(left, abs=12.0)


@pytest.mark.parametrize("later_s", [0.05, *thorough(0.075, 0.1), 0.15])
@pytest.mark.parametrize("gap_s", [0.15, *thorough(0.2), 0.25])
def test_of_a_request_after_the_first_one(gap_s: float, later_s: float) -> None:
    world = world_of("a", "b", "c", "d", "e")
    begin(world, "a", 1.0)
    world.run(3)
    requests = [
        moment
        for n, name in enumerate("bcde")
        for moment in ((n * gap_s, name, 1.0), (n * gap_s + later_s, name, SPENT))
    ]
    began_at = world.now
    for at_s, name, units in sorted(requests):
        world.run(began_at + at_s - world.now)
        (begin if units < SPENT else use)(world, name, units)
    world.run(3)
    left = BURST - 4 * SPENT + world.now - began_at
    for name in "abcde":
        assert level(world, name) == pytest.approx(left, abs=10.0)


@pytest.mark.parametrize("gap_s", [0.05, 1.2, 6.0])
@pytest.mark.parametrize("away_s", [0.0, 3.0])
def test_with_heartbeats_of_five_seconds(gap_s: float, away_s: float) -> None:
    settings = Settings(interval_s=5.0, presumed_dead_s=40.0)
    world = world_of("a", "b", settings=settings)
    if away_s:
        world.apart.append({"a"})
    begin(world, "a", SPENT)
    world.run(gap_s)
    begin(world, "b", SPENT)
    world.run(away_s)
    world.apart.clear()
    world.run(6)
    for name in "ab":
        assert level(world, name) == pytest.approx(BURST - 2 * SPENT + 8.0, abs=10.0)


@pytest.mark.parametrize("gone_s", [0.025, 0.05, 0.1])
def test_of_a_process_that_leaves_when_the_other_begins(gone_s: float) -> None:
    world = world_of("a", "b")
    begin(world, "a", SPENT)
    world.run(gone_s)
    begin(world, "b", 1.0)
    world.stop("a")
    world.run(3)
    assert level(world, "b") == pytest.approx(BURST - SPENT + 3.0, abs=5.0)


@pytest.mark.parametrize("while_away", [False, True])
@pytest.mark.parametrize("away_s", [20.0, 45.0])
def test_of_a_member_that_was_silent_or_dropped(
    while_away: bool, away_s: float
) -> None:
    world = world_of("a", "b", "c")
    for name in "bc":
        begin(world, name, 1.0)
    world.run(2)
    world.apart.append({"a"})
    world.run(away_s - 5.0)
    if while_away:
        begin(world, "a", SPENT)
    world.run(5)
    world.apart.clear()
    if not while_away:
        begin(world, "a", SPENT)
    world.run(3)
    for name in "abc":
        assert level(world, name) == pytest.approx(BURST - SPENT, abs=15.0)


def test_but_not_what_was_free_before_there_was_a_limit() -> None:
    world = World()
    world.group(1, rate=inf, burst=inf)
    world.start("b")
    world.start("a")
    world.use_groups("a", [])
    world.run(3)
    world.apart.append({"a"})
    begin(world, "a", 900.0)
    world.run(1.5)
    world.group(1, rate=10.0, burst=1000.0)
    world.run(0.5)
    world.apart.clear()
    world.run(3)
    for name in "ab":
        assert level(world, name) == pytest.approx(1000.0, abs=5.0)


def test_nor_what_was_free_while_a_limit_was_away() -> None:
    world = world_of("a", "b")
    begin(world, "a", 10.0)
    begin(world, "b", 1.0)
    world.run(3)
    world.remove(1)
    world.run(1)
    world.use("a", 1, admitted=5000.0, refused=0)
    world.run(1)
    world.group(1, rate=1.0, burst=BURST)
    world.use("a", 1, admitted=10.0, refused=0)
    world.run(3)
    for name in "ab":
        assert level(world, name) == pytest.approx(93.0, abs=5.0)


def test_of_who_leaves_its_id_to_another_process_just_then() -> None:
    world = world_of("a", "b")
    begin(world, "b", 1.0)
    world.run(2)
    begin(world, "a", SPENT)
    world.start("c", agent="a", incarnation=2)
    world.run(3)
    assert "renamed" in world.processes["a"].noticed
    for name in "abc":
        assert level(world, name) == pytest.approx(BURST - SPENT + 3.0, abs=10.0)
