"""A limit that is lifted and set again."""

from __future__ import annotations

from math import inf

import pytest
from tests.sample import thorough
from tests.scenarios.world import DIMENSION, World

from headgate.coordinator import Configuration, Group, Limit
from headgate.coordinator.config.template_values import VALUES_FROM
from headgate.coordinator.ledger.limits import Limits

RATE, BURST = 1000.0, 20_000.0
AGENTS = "abcdefghijkl"


def lifted(seconds: float) -> World:
    """Return agents that admit 500/s each of a group without a limit."""
    world = World()
    world.group(1, rate=inf, burst=inf)
    for agent in AGENTS:
        world.start(agent)
        world.load(agent, 1, 500.0, 0.0)
    world.run(seconds)
    return world


def levels(world: World) -> dict[str, float]:
    """Return what each agent takes the level to be."""
    return {
        name: process.coordinator.explain(1, DIMENSION, world.now).level
        for name, process in world.processes.items()
    }


@pytest.mark.long
def test_of_a_group_without_a_limit_only_heartbeats_tell() -> None:
    """Nobody's share depends on it: fifteen reports a second were sent."""
    world = lifted(5.0)
    before = [len(process.sent) for process in world.processes.values()]
    world.run(5.0)
    after = [len(process.sent) for process in world.processes.values()]
    assert max(b - a for a, b in zip(before, after, strict=True)) <= 6


@pytest.mark.long
@pytest.mark.parametrize("phase_s", [0.0, 0.175, *thorough(0.4, 0.625), 0.9])
def test_from_the_moment_that_a_limit_is_set_everything_is_charged(
    phase_s: float,
) -> None:
    """Also what others spend before they report again."""
    world = lifted(5.0 + phase_s)
    world.group(1, rate=RATE, burst=BURST)
    world.run(2.0)
    expected = BURST + RATE * 2.0 - len(AGENTS) * 500.0 * 2.0
    for level in levels(world).values():
        assert level == pytest.approx(expected, abs=0.02 * RATE)


@pytest.mark.long
def test_what_was_admitted_while_there_was_no_limit_is_not_charged() -> None:
    """Not even what nobody could have expected; and it is believed."""
    world = lifted(5.0)
    world.use("a", 1, 200_000.0, 0.0)
    world.run(0.025)
    world.group(1, rate=RATE, burst=BURST)
    world.run(2.0)
    expected = BURST + RATE * 2.0 - len(AGENTS) * 500.0 * 2.0
    for level in levels(world).values():
        assert level == pytest.approx(expected, abs=0.1 * RATE)
    assert [each.noticed for each in world.processes.values()] == [[]] * len(AGENTS)


@pytest.mark.long
def test_a_member_that_used_less_than_it_wanted_gives_nothing_back() -> None:
    """It was paused while the limit was set, and nobody knows what it admitted."""
    world = lifted(5.0)
    world.processes["l"].paused = True
    world.load("l", 1, 0.0, 0.0)
    world.run(2.0)
    world.group(1, rate=RATE, burst=BURST)
    world.run(3.0)
    world.processes["l"].paused = False
    world.run(0.5)
    del world.processes["l"]
    expected = BURST + RATE * 3.5 - 11 * 500.0 * 3.5
    for level in levels(world).values():
        assert level <= expected + 0.1 * RATE


@pytest.mark.long
def test_reports_under_way_when_the_limit_is_set_charge_nothing_to_it() -> None:
    world = lifted(5.0)
    world.delay_s = 0.4
    world.run(3.0)
    world.group(1, rate=10.0, burst=10.0)
    for agent in AGENTS:
        world.load(agent, 1, 0.0, 0.0)
    for _ in range(10):
        world.run(0.1)
        assert min(levels(world).values()) >= 0.0


def test_the_groups_of_values_are_children_of_their_templates_parent() -> None:
    limits = (Limit(dimension=DIMENSION, rate=10, burst=10),)
    tenant = Group(id=1, name="tenant", limits=limits)
    each_user = Group(id=2, name="each user", limits=limits, parent=1, per="user")
    known = Limits(Configuration(groups=(tenant, each_user)))
    template, value = (DIMENSION, 2), (DIMENSION, VALUES_FROM)
    assert known.children == {(DIMENSION, 1): [template]}
    known.follow_values({VALUES_FROM: 2})
    assert known.children == {(DIMENSION, 1): [template, value]}
    known.follow_values({})
    assert known.children == {(DIMENSION, 1): [template]}
