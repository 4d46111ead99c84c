"""A flash at one agent spends a large burst within the age of information."""

from __future__ import annotations

import pytest

from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import simulate


@pytest.mark.parametrize(("starts_s", "seed"), [(0.0, 1), (2.0, 3), (0.0, 4)])
def test_no_level_is_raised_by_agents_that_have_not_heard_of_the_flash_yet(
    starts_s: float, seed: int
) -> None:
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
