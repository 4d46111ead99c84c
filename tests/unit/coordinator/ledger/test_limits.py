"""A limit that is lifted and set again."""

from __future__ import annotations

from math import inf

import pytest
from tests.scenarios.world import DIMENSION, World

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
        name: process.coordinator.table(1, DIMENSION, world.now).level
        for name, process in world.processes.items()
    }


@pytest.mark.parametrize("phase_s", [0.0, 0.175, 0.4, 0.625, 0.9])
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
