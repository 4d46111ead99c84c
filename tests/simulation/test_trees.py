"""Callers of a group that has groups inside it get what is due to them."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from headgate.simulation.scenario.library import find_scenario
from headgate.simulation.scenario.parsing import parse_scenario, read_scenario
from headgate.simulation.simulate import simulate

if TYPE_CHECKING:
    from headgate.simulation.scenario.scenario import Scenario

LEVELS = {"a": 1 / 2, "b": 1 / 4, "c": 1 / 4}
"""A half to those of the top one; of the rest a half to those in between."""


@pytest.mark.parametrize(
    ("name", "due"),
    [
        # Each of three branches wants 800 of 1,000.
        ("tree-callers", {"acme": 1 / 3, "orders": 1 / 3, "mail": 1 / 3}),
        ("tree-levels", LEVELS),
    ],
)
def test_own_callers_of_a_parent_are_a_branch_beside_its_children(
    name: str, due: dict[str, float]
) -> None:
    keeps_to(read_scenario(find_scenario(name)), due)


def test_an_unlimited_group_keeps_to_its_part_of_the_one_it_is_in() -> None:
    raw = tomllib.loads(find_scenario("tree-levels").read_text(encoding="utf-8"))
    raw["group"][-1]["rate"] = "unlimited"
    keeps_to(parse_scenario(raw, name="unlimited"), LEVELS)


def test_a_strict_group_inside_another_admits_requests_of_a_third_of_the_burst() -> (
    None
):
    """It held less than one of them, so it admitted none, ever."""
    scenario = parse_scenario(
        {
            "seconds": 20,
            "group": [
                {"name": "above", "rate": 100, "burst": 1000},
                {
                    "name": "below",
                    "parent": "above",
                    "rate": 100,
                    "burst": 1000,
                    "mode": "strict",
                },
            ],
            "agents": {"count": 1},
            "demand": [{"group": "below", "rate": 200, "cost": 300}],
        },
        name="dear",
    )
    result, _ = simulate(scenario, seed=1)
    assert not result.violations
    assert result.groups["below"].admitted >= 0.5 * 100 * 20


def test_a_strict_group_that_has_rested_does_not_spend_what_its_parent_lacks() -> None:
    raw = tomllib.loads(find_scenario("strict-child").read_text(encoding="utf-8"))
    for demand in raw["demand"]:
        demand["from"] = 6
    raw["seconds"] = 15
    result, _ = simulate(parse_scenario(raw, name="rested"), seed=1)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.03)


def keeps_to(scenario: Scenario, due: dict[str, float]) -> None:
    result, _ = simulate(scenario, seed=1, strategy="headgate")
    admitted = {group: figures.admitted for group, figures in result.groups.items()}
    whole = sum(admitted.values())
    parts = {group: units / whole for group, units in admitted.items()}
    assert parts == pytest.approx(due, rel=0.03)
    assert result.violations == ()
