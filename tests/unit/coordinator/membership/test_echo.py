"""What an agent learns from its own reports when they come back."""

from __future__ import annotations

from tests.scenarios.world import World


def test_a_bus_slower_than_its_heartbeats_cuts_nobody_off() -> None:
    """What comes back late was not held up: all reports take as long."""
    world = World()
    world.group(1, rate=1000.0, burst=1000.0)
    world.delay_s = 3.0
    for name in "ab":
        world.start(name)
        world.load(name, 1, admitted=200.0, refused=200.0)
    world.run(30)
    for process in world.processes.values():
        assert not process.coordinator.explain(1, "requests", world.now).cut_off
        assert "cut_off" not in process.noticed


def test_a_full_bucket_at_rest_is_its_own_once_its_agent_is_cut_off() -> None:
    world = World()
    world.group(1, rate=100.0, burst=100.0)
    for name in "ab":
        world.start(name)
    world.run(8)
    assert world.processes["a"].ceilings[1].ceilings.shared[0]
    world.apart.append({"a"})
    world.run(8)
    assert not world.processes["a"].ceilings[1].ceilings.shared[0]
