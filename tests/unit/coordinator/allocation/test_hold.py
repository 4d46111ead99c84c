"""What `hold` reserves for agents that are cut off."""

from __future__ import annotations

import pytest
from tests.scenarios.world import World

HOUR_S = 3600.0


@pytest.mark.parametrize(("rate", "demand"), [(2.0, 0.5), (2.0, 100.0), (100.0, 1e4)])
def test_a_rested_bucket_is_not_held_as_a_rate(rate: float, demand: float) -> None:
    """Of an hour's quota each may spend hundreds a second, but not from then on."""
    world = World()
    world.group(1, rate=rate, burst=rate * HOUR_S, isolation="hold")
    for name in "ab":
        world.start(name)
        world.load(name, 1, admitted=demand, refused=0)
    world.run(6)
    reserves = [world.processes[name].ceilings[1].ceilings.reserve[0] for name in "ab"]
    assert sum(reserves) <= rate * 1.001
    # Nobody extrapolates agents with so few requests, but their shares are held, too.
    assert min(reserves) >= 0.4 * min(rate, 2.0 * demand)


@pytest.mark.long
def test_of_agents_cut_off_one_after_another_each_holds_what_it_had() -> None:
    world = World()
    world.group(1, rate=1000.0, burst=1000.0, isolation="hold")
    for name in "abcde":
        world.start(name)
        world.load(name, 1, admitted=200.0, refused=200.0)
    world.run(6)
    for name in "abcd":
        world.apart.append({name})
        world.run(6)
    terms = {n: world.processes[n].ceilings[1].ceilings for n in "abcde"}
    reserves = [float(terms[name].reserve[0]) for name in "abcd"]
    assert sum(reserves) == pytest.approx(800.0, rel=0.05)
    assert min(reserves) > 150.0
