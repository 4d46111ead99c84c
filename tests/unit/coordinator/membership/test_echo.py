"""What an agent learns from its own reports when they come back."""

from __future__ import annotations

from math import inf

import pytest
from tests.scenarios.world import World

from headgate.coordinator.config.constants import Settings
from headgate.coordinator.membership.members import Members


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


def test_each_outage_is_noticed_and_so_is_its_end() -> None:
    world = World()
    for name in "ab":
        world.start(name)
    world.run(3)
    noticed = world.processes["a"].noticed
    for outage in (1, 2):
        world.apart.append({"a"})
        world.run(8)
        assert noticed.count("cut_off") == outage
        world.apart.clear()
        world.run(8)
        assert noticed.count("heard_again") == noticed.count("cut_off") == outage


@pytest.mark.parametrize(("loss", "missed"), [(0.0, 1), (0.2, 2), (0.5, 5)])
def test_reports_that_do_not_come_back_are_missed_once_chance_is_unlikely(
    loss: float, missed: int
) -> None:
    bus = Members(Settings(), now=5e7)
    assert bus.unheard_s(5e7, 5e7) == inf
    bus.published(1, 5e7)
    bus.echo(1, 5e7 + 0.01)
    bus.loss = loss
    for sequence in range(2, 2 + missed):
        now = 5e7 + sequence
        assert bus.unheard_s(now, now - 0.01) == 0.0
        bus.published(sequence, now)
    now = 5e7 + 2 + missed
    unheard_s = bus.unheard_s(now, now - 0.01)
    assert unheard_s == pytest.approx(now - 5e7 - 0.01, abs=1e-5)
    assert now - 0.01 - unheard_s >= 5e7, "what came back has arrived"
    bus.echo(1 + missed, now)
    assert bus.unheard_s(now, now - 0.01) == 0.0
