"""Shares are right again within three heartbeats of a fault's end."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sample import thorough

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.measure.settling import STEP_S, ceiling_at
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import simulate
from headgate.simulation.world.engine import SimulationEngine

RATE, AGENTS, DEMAND = 1000.0, 3, 600.0
BEGINS_S, ENDS_S, UNTIL_S = 8.0, 23.0, 34.0
HEALED_S = 3.0
WITHIN = 0.15


@pytest.mark.parametrize(
    ("kind", "delay_s"), [("pause", 0.02), ("pause", 0.3), ("partition", 0.3)]
)
def test_one_of_three_is_back_at_its_part(kind: str, delay_s: float) -> None:
    fault = {"kind": kind, "agents": [1], "from": BEGINS_S, "until": ENDS_S}
    scenario = parse_scenario(
        {
            "seconds": UNTIL_S,
            "measure_from": 5,
            "group": {"rate": RATE},
            "agents": {"count": AGENTS},
            "network": {"delay": delay_s},
            "fault": [fault],
            "demand": [{"agents": "all", "rate": DEMAND}],
        },
        name=kind,
    )
    run = SimulationEngine(
        scenario, seed=1, strategy="headgate", make_controller=real_coordinator
    ).run()
    times = np.arange(ENDS_S, UNTIL_S - 1.0, STEP_S)
    shares = np.array(
        [np.minimum(ceiling_at(told, times), DEMAND) for told in run.ceilings[0]]
    )
    # A tenth of a second each: a single look may be off by chance.
    width = round(0.1 / STEP_S)
    shares = shares[:, : len(times) // width * width].reshape(AGENTS, -1, width)
    part = RATE / AGENTS
    off = (np.abs(shares.mean(axis=2) - part) > WITHIN * part).any(axis=0)
    last = np.flatnonzero(off)[-1] + 1 if off.any() else 0
    assert last * 0.1 <= HEALED_S


@pytest.mark.parametrize(("apart", "seed"), [([0, 1], 1), ([0, 1], 2), ([0], 1)])
def test_rows_that_began_in_an_outage_shorter_than_a_lease_are_asked_for(
    apart: list[int], seed: int
) -> None:
    """Nobody counts as silent, and even load gives no reason to repeat a row."""
    scenario = parse_scenario(
        {
            "seconds": 9,
            "group": {"rate": RATE},
            "agents": {"count": 4},
            "fault": [
                {"kind": "partition", "agents": apart, "from": 2.95, "until": 4.65}
            ],
            "demand": [{"agents": "all", "from": 3, "rate": 400, "arrivals": "even"}],
        },
        name="short outage",
    )
    result, _ = simulate(scenario, seed=seed)
    assert not result.violations
    # 600 units/s too many until they have heard of each other, less the burst.
    assert result.figures.overshoot_seconds < 1.0


@pytest.mark.parametrize("cut", [[0], *thorough([0, 1, 2, 3])])
def test_agents_that_are_cut_off_take_a_part_of_what_the_bucket_holds(
    cut: list[int],
) -> None:
    """Each took as much as it may ever hold: a burst that was spent already."""
    scenario = parse_scenario(
        {
            "seconds": 26,
            "group": {"rate": 20, "burst": 1200},
            "agents": {"count": 4},
            "fault": [{"kind": "cut", "agents": cut, "from": 7, "until": 26}],
            "demand": [
                {"agents": "all", "rate": 150, "from": 4, "until": 5.5},
                {"agents": "all", "rate": 60, "from": 14},
            ],
        },
        name="cut",
    )
    result, _ = simulate(scenario, seed=1)
    assert not result.violations
    # Alike for one agent that is cut off, whose part the others set aside.
    assert result.figures.overshoot_seconds < 0.5


def test_an_agent_that_is_cut_off_pays_its_part_of_a_debt() -> None:
    """It paid all of it at its part of the rate: a minute and a half."""
    scenario = parse_scenario(
        {
            "seconds": 26,
            "group": {"rate": 100},
            "agents": {"count": 8},
            "fault": [{"kind": "cut", "agents": [0], "from": 6, "until": 26}],
            "demand": [
                {"agents": "all", "rate": 20},
                {
                    "agents": [1],
                    "rate": 2000,
                    "cost": 1000,
                    "arrivals": "even",
                    "from": 4,
                    "until": 5,
                },
            ],
        },
        name="debt",
    )
    _, run = simulate(scenario, seed=1)
    times, units = run.admitted[0][0]
    assert units[times > 18].sum() > 0.8 * 8 * 100 / 8


@pytest.mark.thorough
def test_no_agent_tells_the_level_that_it_found_while_it_heard_nobody() -> None:
    """When the bus was back, three of four adopted what the fourth had not spent."""
    scenario = parse_scenario(
        {
            "seconds": 40,
            "group": {"rate": 20, "burst": 1200},
            "agents": {"count": 4},
            "fault": [{"kind": "cut", "agents": "all", "from": 7, "until": 30}],
            "demand": [
                {"agents": "all", "rate": 150, "from": 4, "until": 5.5},
                {"agents": "all", "rate": 60, "from": 14},
            ],
        },
        name="bus",
    )
    result, _ = simulate(scenario, seed=3)
    assert result.violations == ()
    # README's bound: a request for each agent, and what flows in within the age.
    assert result.figures.overshoot_seconds < (4 + 20 * 0.105) / 20
    assert result.figures.total_ratio == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(("starts_s", "seed"), [(0.0, 1), (2.0, 3), (0.0, 4)])
def test_no_level_is_raised_by_agents_that_have_not_heard_of_the_flash_yet(
    starts_s: float, seed: int
) -> None:
    """Of a large burst that is spent within the age of information."""
    scenario = parse_scenario(
        {
            "seconds": 5,
            "group": {"rate": 10, "burst": 600},
            "agents": {"count": 3},
            "demand": [
                {
                    "agents": [0],
                    "rate": 1200,
                    "from": starts_s,
                    "until": starts_s + 1,
                },
                {"agents": [1], "rate": 1},
            ],
        },
        name="flash",
    )
    result, _ = simulate(scenario, seed=seed)
    assert result.violations == ()
