"""Few large requests: who wants little gets it, whoever else asks, and how often."""

from __future__ import annotations

import pytest

from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import Result, simulate

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
