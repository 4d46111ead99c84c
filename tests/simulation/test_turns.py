"""Few large requests: who wants little gets it, whoever else asks, and how often."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.sample import thorough

from headgate.coordinator import Coordinator
from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.max_min import max_min
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.scenario.scenario import DIMENSION
from headgate.simulation.simulate import Result, simulate
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.controllers.controller import Birth, Controller
    from headgate.simulation.scenario.scenario import Scenario

QUOTA = 35.0
"""Units/s: some six requests."""

COST = 6.0
"""Units of a request."""


def shared(
    demand: list[float],
    *,
    burst: float = QUOTA,
    no_debt: bool = False,
    weights: list[float] | None = None,
) -> Result:
    """Return what agents with these demands, units/s, get in 100 s."""
    scenario = scenario_of(demand, burst=burst, no_debt=no_debt, weights=weights)
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    return result


def scenario_of(
    demand: list[float],
    *,
    burst: float = QUOTA,
    no_debt: bool = False,
    weights: list[float] | None = None,
    seconds: float = 100.0,
) -> Scenario:
    document: dict[str, object] = {
        "seconds": seconds,
        "measure_from": 5.0,
        "group": {"rate": QUOTA, "burst": burst, "may_owe": not no_debt},
        "agents": {"count": len(demand), "weights": weights or [1.0] * len(demand)},
        "demand": [
            {"agents": [agent], "rate": rate, "cost": COST}
            for agent, rate in enumerate(demand)
        ],
    }
    return parse_scenario(document, name="turns")


def fair_rates(demand: list[float]) -> NDArray[np.float64]:
    """Return ``float64[n]`` max-min parts of the quota, units/s."""
    return max_min(np.array(demand)[:, None], np.ones(len(demand)), np.array([QUOTA]))[
        :, 0
    ]


def take(agent: Coordinator, units: float) -> None:
    """Make an agent believe in a lower level, as if it had heard of more requests."""
    table = agent._state.table  # pyright: ignore[reportPrivateUsage]
    for key in table:
        block, slot = table.at(key)
        block.level[slot] -= units
        block.belief[slot] -= units


def kept(agents: list[Coordinator], scenario: Scenario, birth: Birth) -> Controller:
    """Make a coordinator, and add it to a list."""
    agent = real_coordinator(scenario, birth)
    assert isinstance(agent, Coordinator)
    agents.append(agent)
    return agent


def worst(result: Result) -> float:
    found = result.figures.worst_agent
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("burst", "no_debt"),
    [
        (QUOTA, True),
        *thorough((10 * QUOTA, False), (QUOTA, False), (10 * QUOTA, True)),
    ],
)
def test_who_asks_seldom_is_not_starved_by_one_that_asks_often(
    burst: float, no_debt: bool
) -> None:
    assert worst(shared([400.0, 10.5], burst=burst, no_debt=no_debt)) > 0.85


@pytest.mark.thorough
def test_three_that_ask_seldom_get_most_of_what_they_want() -> None:
    assert worst(shared([400.0, 5.25, 5.25, 5.25])) > 0.75


def test_weights_count_for_large_requests() -> None:
    assert worst(shared([100.0, 100.0], weights=[0.5, 2.0])) > 0.85


@pytest.mark.parametrize("small", [20.0, 100.0])
def test_small_requests_get_their_part_beside_large_ones(small: float) -> None:
    """Who asks for 30 at a time leaves theirs to those who ask for one."""
    scenario = parse_scenario(
        {
            "seconds": 15,
            "measure_from": 2,
            "group": {"rate": 200.0, "burst": 200.0},
            "agents": {"count": 5},
            "demand": [
                {"agents": [0, 1, 2, 3], "rate": small},
                {"agents": [4], "rate": 400.0, "cost": 30.0},
            ],
        },
        name="costs",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert worst(result) > 0.9
    assert result.figures.total_ratio == pytest.approx(1.0, abs=0.02)


def test_who_uses_most_of_a_small_quota_is_not_refused_while_it_is_there() -> None:
    scenario = parse_scenario(
        {
            "seconds": 30,
            "group": {"rate": 20.0, "burst": 10.0},
            "agents": {"count": 4},
            "demand": [
                {"agents": [0], "rate": 18.0},
                {"agents": [1, 2, 3], "rate": 0.1},
            ],
        },
        name="one busy",
    )
    ratios = [simulate(scenario, seed=seed)[0].figures for seed in (1, 2)]
    assert min(figures.total_ratio or 0.0 for figures in ratios) > 0.98


@pytest.mark.thorough
def test_nobody_yields_to_agents_that_ask_for_nothing() -> None:
    """Alone or beside idle ones, it is the central bucket to the last request."""
    beside = shared([400.0, 0.0, 0.0])
    assert beside.figures.total_ratio == 1.0


@pytest.mark.parametrize(
    ("demand", "lower"),
    [
        ([400.0, 10.5], [0.0, 2.0]),
        ([100.0, 100.0], [0.0, 3.0]),
        *thorough(([20.0] * 10, [0.0] * 9 + [1.9])),
    ],
)
def test_who_believes_in_less_than_the_others_is_not_starved(
    demand: list[float], lower: list[float]
) -> None:
    """Views come together, or those that are ahead leave more (decisions 53, 69)."""
    agents: list[Coordinator] = []
    moved: list[bool] = []

    def part_views(now: float) -> None:
        if now >= 10.0 and not moved:
            moved.append(True)
            for agent, requests in zip(agents, lower, strict=True):
                take(agent, requests * COST)

    run = SimulationEngine(
        scenario_of(demand, seconds=70.0),
        seed=1,
        strategy="headgate",
        make_controller=partial(kept, agents),
        progress=part_views,
    ).run()
    part = fair_rates(demand) * 50.0
    got = [COST * np.count_nonzero(at > 20.0) for at, _ in run.admitted[0]]
    assert moved
    assert min(got / part) > 0.55
    assert sum(got) == pytest.approx(QUOTA * 50.0, rel=0.01)


@pytest.mark.thorough
def test_views_that_come_together_do_not_rise() -> None:
    """A request that is on its way is no difference: 25 units more in a minute else."""
    scenario = parse_scenario(
        {
            "seconds": 90.0,
            "group": {"rate": QUOTA, "burst": QUOTA},
            "agents": {"count": 2},
            "network": {"delay": 0.02, "jitter": 0.01},
            "demand": [{"agents": "all", "rate": 100.0, "cost": COST}],
        },
        name="level",
    )
    result, _ = simulate(scenario, seed=2)
    assert result.violations == ()
    total = result.figures.total_ratio
    assert total is not None
    assert abs(total - 1.0) * QUOTA * 91.0 < 3.0 * COST


@pytest.mark.thorough
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


@pytest.mark.parametrize("no_debt", [False, True])
def test_nothing_is_left_to_agents_that_have_stopped(no_debt: bool) -> None:
    """They were waited for as long as they were said to want anything: 40 s."""
    scenario = parse_scenario(
        {
            "seconds": 25,
            "group": {"rate": 5.0, "burst": 5.0, "may_owe": not no_debt},
            "agents": {"count": 3},
            "demand": [
                {"agents": [1, 2], "rate": 25.0, "cost": 2.5, "until": 10},
                {"agents": [0], "rate": 25.0, "cost": 2.5, "from": 10},
            ],
        },
        name="stopped",
    )
    agents: list[Coordinator] = []

    SimulationEngine(
        scenario,
        seed=1,
        strategy="headgate",
        make_controller=partial(kept, agents),
    ).run()
    block, slot = agents[0]._state.table.at((DIMENSION, 1))  # pyright: ignore[reportPrivateUsage]
    assert block.at_once[0, slot]
    assert block.yielded[slot] == 0.0
