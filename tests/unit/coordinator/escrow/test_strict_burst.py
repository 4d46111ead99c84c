"""The parts of the burst that strict agents hold sum to it, whoever hears whom."""

from __future__ import annotations

import pytest
from tests.scenarios.world import World


@pytest.mark.long
def test_agents_that_hear_nobody_keep_to_their_own_parts_of_the_burst() -> None:
    world = World()
    world.group(1, rate=100, burst=40, mode="strict")
    names = "abcdefghij"
    for name in names:
        world.start(name)
    world.run(6.0)
    world.apart = [{name} for name in names]
    world.run(8.0)  # longer than a lease: each takes itself for the only one
    capacity = [
        p.ceilings[1].ceilings.capacity.item(0) for p in world.processes.values()
    ]
    assert sum(capacity) == pytest.approx(40.0)
