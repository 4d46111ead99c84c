"""Strict groups whose burst holds too few requests for all agents: they take turns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sample import thorough

from headgate.coordinator.escrow.targets import seated
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import Result, simulate

COST = 20.0
"""Units of a request: nothing may depend on the unit."""


def shared(
    agents: int,
    *,
    rate: float,
    burst: float,
    demand: dict[tuple[int, ...], float],
    retry: bool = True,
) -> Result:
    """Return what agents get.

    Args:
        agents: How many.
        rate: Requests a second of the group.
        burst: Requests.
        demand: Requests a second of each agent, by agents.
        retry: Callers come back until they are served.
    """
    seconds = 80.0 / rate
    document: dict[str, object] = {
        "seconds": seconds,
        "group": {"mode": "strict", "rate": rate * COST, "burst": burst * COST},
        "agents": {"count": agents},
        "demand": [
            {"agents": list(each), "rate": wanted * COST, "cost": COST, "retry": retry}
            for each, wanted in demand.items()
        ],
    }
    scenario = parse_scenario(document, name="turns")
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.figures.overshoot_seconds == 0.0
    return result


@pytest.mark.parametrize("mine", [0, 1])
def test_of_two_that_own_half_a_seat_both_find_the_same_one_seated(mine: int) -> None:
    asks, owns, least = np.full(2, True), np.full(2, 512), np.full(2, 1024)
    assert seated(asks, owns, least, 0, mine, over=False).tolist() == [True, False]


@pytest.mark.long
@pytest.mark.parametrize(
    ("agents", "rate", "burst", "load", "total", "worst"),
    [
        (2, 1.16, 1.0, 2.0, 0.9, 0.8),
        *thorough(
            (8, 1.16, 1.0, 2.0, 0.8, 0.6),
            (8, 1.16, 4.0, 2.0, 0.8, 0.5),
            (8, 1.16, 4.0, 0.6, 0.8, 0.6),
            (4, 0.2, 2.0, 2.0, 0.8, 0.6),
        ),
    ],
)
def test_each_agent_has_its_turn(
    agents: int, rate: float, burst: float, load: float, total: float, worst: float
) -> None:
    demand = {tuple(range(agents)): rate * load / agents}
    figures = shared(agents, rate=rate, burst=burst, demand=demand).figures
    assert figures.total_ratio is not None
    assert figures.total_ratio > total
    assert figures.worst_agent is not None
    assert figures.worst_agent > worst


@pytest.mark.thorough
@pytest.mark.long
def test_one_that_asks_for_most_leaves_the_others_their_turns() -> None:
    demand = {(0,): 0.6, (1, 2, 3): 0.1}
    figures = shared(4, rate=0.5, burst=1.0, demand=demand).figures
    assert figures.total_ratio is not None
    assert figures.total_ratio > 0.7
    assert figures.worst_agent is not None
    assert figures.worst_agent > 0.5


@pytest.mark.long
@pytest.mark.parametrize(
    ("burst", "load"), [(2.25, 0.6), *thorough((2.25, 2.0), (5.0, 0.6)), (5.0, 2.0)]
)
def test_agents_that_ask_for_nothing_leave_the_burst_to_the_one_that_does(
    burst: float, load: float
) -> None:
    rate = 2.25
    demand: dict[tuple[int, ...], float] = {(0,): rate * load}
    figures = shared(4, rate=rate, burst=burst, demand=demand, retry=False).figures
    assert figures.total_ratio is not None
    assert figures.total_ratio > 0.9


@pytest.mark.thorough
@pytest.mark.long
def test_agents_that_ask_seldom_keep_their_seats_while_they_ask_for_nothing() -> None:
    demand = {tuple(range(8)): 0.3}
    figures = shared(8, rate=4.0, burst=12.0, demand=demand, retry=False).figures
    assert figures.total_ratio is not None
    assert figures.total_ratio > 0.76


@pytest.mark.long
def test_requests_larger_than_the_burst_take_no_turns() -> None:
    document: dict[str, object] = {
        "seconds": 20.0,
        "group": {"mode": "strict", "rate": 20.0, "burst": 20.0},
        "agents": {"count": 4},
        "demand": [
            {"agents": [0], "rate": 2.0, "cost": 30.0},
            {"agents": [1, 2, 3], "rate": 6.0},
        ],
    }
    result, _ = simulate(parse_scenario(document, name="turns"), seed=1)
    assert result.violations == ()
    assert result.figures.total_ratio is not None
    assert result.figures.total_ratio > 0.7


@pytest.mark.thorough
@pytest.mark.long
def test_a_few_permits_that_are_left_somewhere_close_no_seat() -> None:
    document: dict[str, object] = {
        "seconds": 40.0,
        "group": {"mode": "strict", "rate": 10.0, "burst": 1000.0},
        "agents": {"count": 8},
        "change": [{"at": 15.0, "rate": 10.0, "burst": 1.0}],
        "demand": [
            {"agents": [0], "rate": 30.0, "until": 15.0},
            {"agents": "all", "rate": 2.5, "from": 15.0, "retry": True},
        ],
    }
    result, run = simulate(parse_scenario(document, name="turns"), seed=1)
    assert result.violations == ()
    for times, units in run.admitted[0]:
        # Of 10 a second in the last twenty seconds, each is due 25.
        assert units[times > 20.0].sum() > 10.0
