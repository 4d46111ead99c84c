"""Callers of a group that has groups inside it get what is due to them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.sample import thorough

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
        *thorough(("tree-levels", LEVELS)),
    ],
)
def test_own_callers_of_a_parent_are_a_branch_beside_its_children(
    name: str, due: dict[str, float]
) -> None:
    keeps_to(read_scenario(find_scenario(name)), due)


@pytest.mark.thorough
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


def test_a_group_inside_another_starts_within_what_that_one_has() -> None:
    """Its own limit of ten times as much says nothing about what it may take."""
    scenario = parse_scenario(
        {
            "seconds": 8,
            "group": [
                {"name": "above", "rate": 200, "burst": 100},
                {"name": "below", "parent": "above", "rate": 2000},
            ],
            "agents": {"count": 12},
            "demand": [{"group": "below", "rate": 100}],
        },
        name="start",
    )
    for seed in (1, 2):
        result, _ = simulate(scenario, seed=seed)
        assert result.violations == ()


NAMES = ["a", "b", "c", "d"]


def four_inside(seconds: float, **demand: float) -> Scenario:
    """Return four agents with the same demand in each of four groups inside another."""
    groups = [
        {"name": name, "parent": "above", "rate": 200, "burst": 1000} for name in NAMES
    ]
    return parse_scenario(
        {
            "seconds": seconds,
            "group": [{"name": "above", "rate": 200, "burst": 1000}, *groups],
            "agents": {"count": 4},
            "demand": [{"group": name, **demand} for name in NAMES],
        },
        name="four",
    )


def test_groups_inside_another_together_spend_no_more_than_that_one_has() -> None:
    """Four processes want all of it in each of four groups, for a tenth of a second."""
    scenario = four_inside(6, rate=5000, cost=2, **{"from": 3, "until": 3.1})
    for seed in (1, 2):
        ratio = simulate(scenario, seed=seed)[0].as_json()["whole_total_ratio"]
        assert ratio == pytest.approx(1.0, abs=0.1)


def burst_of(agents: int, who: list[str], asked: float, **limit: float) -> Scenario:
    """Return agents that hardly use some groups, and then want a burst of `who`.

    They ask for so many units within a tenth of a second, and don't come back.
    """
    each = asked / 0.1 / agents / len(who)
    burst = {"from": 10, "until": 10.1, "arrivals": "even", "rate": each}
    return parse_scenario(
        {
            "seconds": 12,
            "group": [
                {"name": "above", **limit},
                *({"name": name, "parent": "above", **limit} for name in "ab"),
            ],
            "agents": {"count": agents},
            "demand": [
                *({"group": name, "rate": 0.2, "arrivals": "even"} for name in "ab"),
                {"group": "above", "rate": 0.2, "arrivals": "even"},
                *({"group": name, **burst} for name in who),
            ],
        },
        name="burst",
    )


@pytest.mark.parametrize("who", [["above"], ["a"], ["above", "a"]])
@pytest.mark.parametrize(
    ("rate", "burst"), [(10.0, 600.0), *thorough((100.0, 100.0), (20.0, 20_000.0))]
)
@pytest.mark.parametrize("agents", [1, *thorough(3)])
def test_a_large_burst_of_own_callers_or_of_a_group_inside_is_admitted(
    agents: int, rate: float, burst: float, who: list[str]
) -> None:
    """Own callers got a third of it, even of a process that is alone."""
    scenario = burst_of(agents, who, 0.6 * burst, rate=rate, burst=burst)
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("agents", "asked", "lasts", "mode"),
    [(1, "between", 0.2, "strict"), (4, "inside", 0.3, "balanced")],
)
def test_a_large_burst_on_the_second_and_third_level_is_admitted(
    agents: int, asked: str, lasts: float, mode: str
) -> None:
    """What is left above is left to permits, too, and is divided once."""
    limit = {"rate": 20, "burst": 2000}
    between = {"name": "between", "parent": "above", "mode": mode, **limit}
    burst = {"from": 10, "until": 10 + lasts, "rate": 1200 / lasts / agents}
    scenario = parse_scenario(
        {
            "seconds": 14,
            "group": [
                {"name": "above", **limit},
                between,
                {"name": "inside", "parent": "between", **limit},
            ],
            "agents": {"count": agents},
            "demand": [
                {"group": "inside", "rate": 0.2, "arrivals": "even"},
                {"group": asked, "arrivals": "even", **burst},
            ],
        },
        name="levels",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("agents", [1, *thorough(2)])
@pytest.mark.parametrize("at", [*thorough(4.0), 6.0])
def test_a_group_at_rest_knows_that_the_one_beside_it_has_used_what_was_left(
    agents: int, at: float
) -> None:
    """It might spend what was left when nobody had used anything yet."""
    inside = {"parent": "above", "rate": 1000, "burst": 1000}
    scenario = parse_scenario(
        {
            "seconds": 8,
            "group": [
                {"name": "above", "rate": 100, "burst": 1000},
                *({"name": name, **inside} for name in "ab"),
            ],
            "agents": {"count": agents},
            "demand": [
                {"group": "a", "rate": 1},
                {"group": "a", "rate": 2000, "from": 2, "agents": [0]},
                {"group": "b", "rate": 20_000, "from": at, "until": at + 0.1},
            ],
        },
        name="rest",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *thorough(2)])
def test_large_requests_to_many_groups_inside_another_keep_its_bound(seed: int) -> None:
    scenario = four_inside(20, rate=50, cost=40)
    result, _ = simulate(scenario, seed=seed)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("above", [*thorough("unlimited"), 200])
def test_a_group_inside_another_keeps_its_own_bound(above: float | str) -> None:
    """And it goes on, whatever was admitted of one that has no limit itself."""
    whole = {"name": "above", "rate": above, "burst": 200, "may_owe": False}
    if above == "unlimited":
        del whole["burst"]
    scenario = parse_scenario(
        {
            "seconds": 10,
            "group": [
                whole,
                {
                    "name": "below",
                    "parent": "above",
                    "rate": 100,
                    "burst": 100,
                    "maximum": 150,
                },
                {"name": "beside", "parent": "above", "rate": 300, "burst": 100},
            ],
            "agents": {"count": 3},
            "demand": [
                {"group": "below", "rate": 100},
                {"group": "beside", "rate": 20},
            ],
        },
        name="own",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.groups["below"].admitted == pytest.approx(1100, rel=0.03)


def keeps_to(scenario: Scenario, due: dict[str, float]) -> None:
    result, _ = simulate(scenario, seed=1, strategy="headgate")
    admitted = {group: figures.admitted for group, figures in result.groups.items()}
    whole = sum(admitted.values())
    parts = {group: units / whole for group, units in admitted.items()}
    assert parts == pytest.approx(due, rel=0.03)
    assert result.violations == ()


def alone(*, own: float, burst: float = 100.0) -> Scenario:
    """Return one agent with callers of a group, `own`/s, and of one inside it."""
    return parse_scenario(
        {
            "seconds": 12,
            "group": [
                {"name": "above", "rate": 100, "burst": burst},
                {"name": "below", "parent": "above", "rate": 100, "burst": 100},
            ],
            "agents": {"count": 1},
            "demand": [
                {"group": "below", "rate": 200},
                {"group": "above", "rate": own, "from": 0.0 if own else 11.9},
            ],
        },
        name="alone",
    )


@pytest.mark.parametrize("burst", [20.0, 100.0, 1000.0])
def test_one_agent_admits_of_a_group_inside_another_what_one_bucket_does(
    burst: float,
) -> None:
    """Refusals by the group above once told a delay of 0, which says admitted."""
    result, _ = simulate(alone(own=0.0, burst=burst), seed=1)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.002)


@pytest.mark.parametrize("burst", [20.0, 100.0])
def test_one_agent_with_callers_of_a_group_and_of_one_inside_it_uses_all_of_it(
    burst: float,
) -> None:
    """The bucket of the group above doesn't see what passes below, and seemed full."""
    result, _ = simulate(alone(own=100.0, burst=burst), seed=1)
    assert result.violations == ()
    assert result.as_json()["whole_total_ratio"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.thorough
def test_what_is_left_two_levels_above_is_divided_once_more() -> None:
    """Also where the group in between allows ten times as much as the one above it."""
    scenario = four_inside(6, rate=5000, cost=2, **{"from": 3, "until": 3.1})
    above, *inside = scenario.groups
    between = replace(above, name="between", rate=2000, burst=10_000, parent="above")
    inside = [replace(group, parent="between") for group in inside]
    demands = [replace(each, group=each.group + 1) for each in scenario.demands]
    scenario = replace(
        scenario, groups=(above, between, *inside), demands=tuple(demands)
    )
    for seed in (1, 2):
        ratio = simulate(scenario, seed=seed)[0].as_json()["whole_total_ratio"]
        assert ratio == pytest.approx(1.0, abs=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("agents", [3, *thorough(8)])
def test_an_agent_is_given_more_than_an_even_part_if_its_group_is_due_it(
    agents: int,
) -> None:
    """One of them alone uses a group with a minimum; all use two others."""
    busy = [{"name": name, "parent": "above", "rate": 200} for name in "bc"]
    least = {"name": "a", "parent": "above", "rate": 200, "minimum": 100, "weight": 0.1}
    each = 400 / agents
    scenario = parse_scenario(
        {
            "seconds": 20,
            "group": [{"name": "above", "rate": 200}, least, *busy],
            "agents": {"count": agents},
            "demand": [
                {"group": "a", "rate": 120, "agents": [0]},
                *[{"group": name, "rate": each} for name in "bc"],
            ],
        },
        name="least",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.groups["a"].admitted >= 0.96 * 100 * 20


@pytest.mark.parametrize("cost", [20, *thorough(600)])
def test_a_maximum_is_kept_whoever_comes_and_goes(cost: int) -> None:
    """Each two seconds one of three leaves; what it owes is not forgotten."""
    inside = {"name": "a", "parent": "above", "rate": 1000, "maximum": 100}
    leaves = [
        {"kind": "leave", "agents": [n % 3], "from": 8 + 2 * n, "until": 8.5 + 2 * n}
        for n in range(10)
    ]
    scenario = parse_scenario(
        {
            "seconds": 30,
            "group": [{"name": "above", "rate": 1000}, inside],
            "agents": {"count": 3},
            "demand": [{"group": "a", "rate": 500 / 3, "cost": cost}],
            "fault": leaves,
        },
        name="most",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    bound = 100 * 30 + 1000 + 2 * cost
    assert 0.9 * 100 * 30 <= result.groups["a"].admitted <= bound


@pytest.mark.thorough
def test_a_maximum_admits_what_the_same_rate_does_to_one_agent_after_another() -> None:
    """Requests of a quarter of a second of it, by eight agents in turn."""
    scenario = parse_scenario(
        {
            "seconds": 20,
            "group": [
                {"name": "above", "rate": 64, "burst": 64, "may_owe": False},
                {"name": "a", "parent": "above", "rate": "unlimited", "maximum": 40},
            ],
            "agents": {"count": 8},
            "demand": [
                {"group": "a", "agents": [0], "rate": 150, "cost": 10, "moves_every": 7}
            ],
        },
        name="mover",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert 0.97 * 864 <= result.groups["a"].admitted <= 864 + 10


@pytest.mark.parametrize(
    ("above", "burst", "inside"),
    [
        ("unlimited", 40, "most"),
        *thorough(("unlimited", 40, "below"), (1000, 1000, "below")),
    ],
)
def test_an_unlimited_group_with_a_maximum_is_held_to_it(
    above: float | str, burst: float, inside: str
) -> None:
    """So is an unlimited one inside it, which has no limit but that maximum."""
    most = {"name": "most", "parent": "above", "rate": "unlimited", "maximum": 40}
    scenario = parse_scenario(
        {
            "seconds": 12,
            "group": [
                {"name": "above", "rate": above},
                most,
                {"name": "below", "parent": "most", "rate": "unlimited"},
            ],
            "agents": {"count": 3},
            "demand": [{"group": inside, "rate": 150}],
        },
        name="most",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    assert result.groups[inside].admitted == pytest.approx(40 * 12 + burst, rel=0.03)
    assert result.groups[inside].total_ratio == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("mode", "callers"),
    [
        ("balanced", [0, 1]),
        *thorough(("strict", [0, 1, 2, 3])),
    ],
)
def test_what_a_group_two_levels_below_may_not_use_goes_to_others(
    mode: str, callers: list[int]
) -> None:
    """It wants twelve times its own limit; the one that it is in has none."""
    scenario = parse_scenario(
        {
            "seconds": 15,
            "group": [
                {"name": "above", "rate": 124, "mode": mode},
                {"name": "free", "parent": "above", "rate": "unlimited", "weight": 2},
                {"name": "small", "parent": "free", "rate": 28},
                {"name": "beside", "parent": "above", "rate": "unlimited"},
            ],
            "agents": {"count": 4},
            "demand": [
                {"group": "small", "agents": callers, "rate": 356 / len(callers)},
                {"group": "beside", "agents": [2, 3], "rate": 92},
            ],
        },
        name="levels",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    admitted = {name: figures.admitted for name, figures in result.groups.items()}
    assert admitted["small"] == pytest.approx(28 * 16, rel=0.03)
    assert sum(admitted.values()) == pytest.approx(124 * 16, rel=0.03)


@pytest.mark.parametrize(
    ("mode", "cost"), [*thorough(("balanced", 10), ("strict", 1)), ("strict", 10)]
)
def test_a_strict_group_beside_another_leaves_it_the_rest(mode: str, cost: int) -> None:
    """Its weight is larger, but its own limit admits less than a half."""
    scenario = parse_scenario(
        {
            "seconds": 15,
            "group": [
                {"name": "above", "rate": 140, "mode": mode},
                {"name": "other", "parent": "above", "rate": 127},
                {
                    "name": "strict",
                    "parent": "above",
                    "rate": 57,
                    "mode": "strict",
                    "weight": 5,
                },
            ],
            "agents": {"count": 2},
            "demand": [
                {"group": "other", "agents": [0, 1], "rate": 80, "cost": cost},
                {"group": "strict", "agents": [0, 1], "rate": 60, "cost": cost},
            ],
        },
        name="beside",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    admitted = {name: figures.admitted for name, figures in result.groups.items()}
    assert admitted["strict"] >= 0.9 * 57 * 15
    assert sum(admitted.values()) >= 0.95 * 140 * 16


@pytest.mark.thorough
@pytest.mark.parametrize(("agents", "cost"), [(3, 10), *thorough((8, 1))])
def test_own_callers_of_a_strict_group_get_their_part_beside_one_inside_it(
    agents: int, cost: int
) -> None:
    """One agent has such callers; the others, which own permits, don't need them."""
    scenario = parse_scenario(
        {
            "seconds": 20,
            "group": [
                {"name": "above", "rate": 90, "mode": "strict"},
                {"name": "inside", "parent": "above", "rate": "unlimited"},
            ],
            "agents": {"count": agents},
            "demand": [
                {"group": "above", "agents": [0], "rate": 300, "cost": cost},
                {
                    "group": "inside",
                    "agents": list(range(1, agents)),
                    "rate": 420 / (agents - 1),
                    "cost": cost,
                },
            ],
        },
        name="permits",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    admitted = {name: figures.admitted for name, figures in result.groups.items()}
    assert admitted["above"] >= 0.9 * 900
    assert sum(admitted.values()) >= 0.95 * 90 * 21


def test_a_group_with_a_maximum_of_nothing_leaves_all_to_the_one_beside_it() -> None:
    scenario = parse_scenario(
        {
            "seconds": 12,
            "group": [
                {"name": "above", "rate": 100},
                {"name": "none", "parent": "above", "rate": "unlimited", "maximum": 0},
                {"name": "beside", "parent": "above", "rate": "unlimited"},
            ],
            "agents": {"count": 2},
            "demand": [
                {"group": "none", "rate": 60},
                {"group": "beside", "rate": 75},
            ],
        },
        name="none",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.groups["none"].admitted == 0.0
    assert result.groups["beside"].admitted == pytest.approx(1300, rel=0.03)


@pytest.mark.thorough
def test_a_strict_group_whose_level_is_low_gives_those_inside_it_its_rate() -> None:
    scenario = parse_scenario(
        {
            "seconds": 15,
            "group": [
                {"name": "above", "rate": 100, "mode": "strict"},
                {"name": "inside", "parent": "above", "rate": "unlimited"},
            ],
            "agents": {"count": 2},
            "demand": [{"group": "inside", "rate": 40}],
            "change": [{"at": 3, "group": "above", "rate": 100, "burst": 3000}],
        },
        name="low",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.groups["inside"].falsely_refused < 0.01


@pytest.mark.parametrize("modes", [("strict", "strict"), ("strict", "balanced")])
@pytest.mark.parametrize(
    ("agents", "burst", "part"), [(1, 40, 0.8), (4, 40, 0.3), (4, 200, 0.8)]
)
def test_all_who_are_inside_a_strict_group_spend_its_permits(
    agents: int, burst: float, part: float, modes: tuple[str, ...]
) -> None:
    """However large their own bursts are beside that of the one above."""
    names = ["a", "b"]
    inside = len(names)
    each = 2 * 400 / agents / inside
    scenario = parse_scenario(
        {
            "seconds": 6,
            "group": [
                {"name": "above", "rate": 400, "burst": burst, "mode": "strict"},
                *(
                    {"name": name, "parent": "above", "rate": 400, "mode": mode}
                    for name, mode in zip(names, modes, strict=True)
                ),
            ],
            "agents": {"count": agents},
            "demand": [
                {"agents": "all", "group": name, "rate": each, "cost": 20}
                for name in names
            ],
        },
        name="held",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    admitted = sum(figures.admitted for figures in result.groups.values())
    assert admitted >= part * (400 * 6 + burst)


@pytest.mark.parametrize(
    ("agents", "rate", "burst", "cost"), [(3, 5.0, 0.5, 0.01), (4, 20.0, 2.0, 0.05)]
)
def test_requests_of_less_than_a_unit_use_a_strict_group_from_inside(
    agents: int, rate: float, burst: float, cost: float
) -> None:
    """Its own callers, of whom there are none, don't say what a request costs."""
    inside = {"name": "inside", "parent": "above", "rate": rate, "burst": 10 * burst}
    scenario = parse_scenario(
        {
            "seconds": 10,
            "group": [
                {"name": "above", "rate": rate, "burst": burst, "mode": "strict"},
                inside,
            ],
            "agents": {"count": agents},
            "demand": [{"group": "inside", "rate": 2 * rate / agents, "cost": cost}],
        },
        name="small",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    admitted = sum(figures.admitted for figures in result.groups.values())
    assert admitted >= 0.95 * (rate * 10 + burst)


@pytest.mark.parametrize(
    ("agents", "rate", "burst", "costs", "asked"),
    [
        (3, 100.0, 100.0, (1.0, 1.0), (0.5, 4.0)),
        (1, 20.0, 10.0, (8.0, 1.0), (2.0, 2.0)),
    ],
)
def test_groups_inside_a_strict_one_get_their_parts_whoever_asks_more_often(
    agents: int,
    rate: float,
    burst: float,
    costs: tuple[float, float],
    asked: tuple[float, float],
) -> None:
    """Not what permits leave idle for a while is there to be given away."""
    limit = {"rate": 10 * rate, "burst": 10 * burst}
    scenario = parse_scenario(
        {
            "seconds": 45,
            "group": [
                {"name": "above", "rate": rate, "burst": burst, "mode": "strict"},
                *({"name": name, "parent": "above", **limit} for name in "ab"),
            ],
            "agents": {"count": agents},
            "demand": [
                {"group": name, "rate": part * rate / agents, "cost": cost}
                for name, part, cost in zip("ab", asked, costs, strict=True)
            ],
        },
        name="parts",
    )
    result, _ = simulate(scenario, seed=1)
    assert result.violations == ()
    least = min(result.groups[name].admitted for name in "ab")
    assert least >= 0.38 * rate * 45
