"""Few large requests: who wants little gets it, whoever else asks, and how often."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import Result, simulate
from headgate.simulation.world.engine import SimulationEngine

QUOTA = 35.0
"""Units/s: some six requests of 6 units."""


def shared(
    demand: list[float],
    *,
    burst: float = QUOTA,
    cost: float = 6.0,
    no_debt: bool = False,
    weights: list[float] | None = None,
) -> Result:
    """Return what agents with these demands, units/s, get in 100 s."""
    document: dict[str, object] = {
        "seconds": 100.0,
        "measure_from": 5.0,
        "group": {"rate": QUOTA, "burst": burst, "may_owe": not no_debt},
        "agents": {"count": len(demand), "weights": weights or [1.0] * len(demand)},
        "demand": [
            {"agents": [agent], "rate": rate, "cost": cost}
            for agent, rate in enumerate(demand)
        ],
    }
    result, _ = simulate(parse_scenario(document, name="turns"), seed=1)
    assert result.violations == ()
    return result


def worst(result: Result) -> float:
    found = result.figures.worst_agent
    assert found is not None
    return found


@pytest.mark.parametrize("no_debt", [False, True])
@pytest.mark.parametrize("burst", [QUOTA, 10 * QUOTA])
def test_who_asks_seldom_is_not_starved_by_one_that_asks_often(
    burst: float, no_debt: bool
) -> None:
    assert worst(shared([400.0, 10.5], burst=burst, no_debt=no_debt)) > 0.85


def test_three_that_ask_seldom_get_most_of_what_they_want() -> None:
    assert worst(shared([400.0, 5.25, 5.25, 5.25])) > 0.75


def test_weights_count_for_large_requests() -> None:
    assert worst(shared([100.0, 100.0], weights=[0.5, 2.0])) > 0.85


def test_nobody_yields_to_agents_that_ask_for_nothing() -> None:
    """Alone or beside idle ones, it is the central bucket to the last request."""
    beside = shared([400.0, 0.0, 0.0])
    assert beside.figures.total_ratio == 1.0


def test_while_half_of_the_agents_are_silent_the_others_go_on() -> None:
    """Part of the level is set aside for the silent; what is yielded fits the rest."""
    scenario = parse_scenario(
        {
            "seconds": 40.0,
            "group": {"rate": 35.0, "burst": 12.0, "may_owe": False},
            "agents": {"count": 4},
            "demand": [{"agents": "all", "rate": 100.0, "cost": 6.0}],
            "fault": [{"kind": "pause", "agents": [2, 3], "from": 10.0, "until": 40.0}],
        },
        name="silent",
    )
    for seed in (1, 2, 3, 4):
        run = SimulationEngine(
            scenario, seed=seed, strategy="headgate", make_controller=real_coordinator
        ).run()
        times = np.sort(np.concatenate([at for at, _ in run.admitted[0]]))
        longest = float(np.diff(times[times > 10.0]).max())
        assert longest < 2.0, seed
