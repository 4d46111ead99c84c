"""A limit that is set where there was none: free until then, charged from then on."""

from __future__ import annotations

from statistics import mean
from typing import cast

import pytest
from tests.sample import thorough

from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import simulate

SET_S = 10.0

LARGE = {"agents": "all", "rate": 12_000.0, "cost": 6_000.0}
HALF = [{"agents": [0], "rate": 1000.0}, {"agents": [1, 2, 3], "rate": 300.0}]
CUT = {"kind": "cut", "agents": [0], "from": SET_S - 1.0, "until": SET_S + 0.5}
PAUSE = {"kind": "pause", "agents": [0], "from": 7.2, "until": 12.0}

CASES: dict[str, tuple[float, float, dict[str, object]]] = {
    "cost 6,000": (1000.0, 1000.0, {"agents": {"count": 6}, "demand": [LARGE]}),
    "cost 6,000, deep": (1000.0, 10_000.0, {"agents": {"count": 6}, "demand": [LARGE]}),
    "a minute's burst": (
        1000.0,
        60_000.0,
        {"agents": {"count": 6}, "demand": [{"agents": "all", "rate": 2000.0}]},
    ),
    "twenty": (
        100.0,
        100.0,
        {"agents": {"count": 20}, "demand": [{"agents": "all", "rate": 12.5}]},
    ),
    "one": (
        100.0,
        300.0,
        {"agents": {"count": 1}, "demand": [{"agents": "all", "rate": 1000.0}]},
    ),
    "cut": (
        100.0,
        1000.0,
        {"agents": {"count": 4}, "demand": HALF, "fault": [CUT]},
    ),
    "paused": (
        100.0,
        1000.0,
        {"agents": {"count": 4}, "demand": HALF, "fault": [PAUSE]},
    ),
}
"""By name: rate and burst that are set at 10 s, and the rest of the scenario."""

OVER = {"safety", "change-in-force"}


def violations(name: str, seed: int) -> list[tuple[str, str]]:
    """Return what a case breaks: invariant and detail."""
    rate, burst, rest = CASES[name]
    document: dict[str, object] = {
        "seconds": 25.0,
        "group": {"rate": "unlimited"},
        "change": [{"at": SET_S, "rate": rate, "burst": burst}],
        **rest,
    }
    result, _ = simulate(parse_scenario(document, name="set"), seed=seed)
    return [(violation.name, violation.detail) for violation in result.violations]


SHORT = sorted(CASES.keys() - {"twenty", "paused"})

FURTHER = [("twenty", 1), *((name, 2) for name in SHORT)]


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, 1) for name in SHORT),
        *thorough(*FURTHER),
    ],
)
def test_no_invariant_breaks(name: str, seed: int) -> None:
    assert violations(name, seed) == []


@pytest.mark.parametrize("seed", [1, *thorough(2, 3)])
def test_a_pause_over_that_moment_admits_no_more_than_the_limit(seed: int) -> None:
    """Agents may starve afterwards: nobody knows what the paused one admitted."""
    assert [each for each in violations("paused", seed) if each[0] in OVER] == []


def test_what_a_lowered_burst_takes_away_pays_for_no_request() -> None:
    """It counted as overflow, so half a second of requests was free.

    Seeds differ by 0.006 (one sigma of forty), which says nothing about that.
    """
    scenario = parse_scenario(
        {
            "seconds": 10,
            "group": {"rate": 100, "burst": 3000},
            "agents": {"count": 4},
            "demand": [
                {"agents": "all", "rate": 20},
                {"agents": "all", "rate": 100, "from": 4.5},
            ],
            "change": [{"at": 5, "rate": 100, "burst": 100}],
        },
        name="lowered",
    )
    results = [simulate(scenario, seed=seed)[0] for seed in range(1, 5)]
    assert [result.violations for result in results] == [()] * 4
    totals = [result.as_json()["whole_total_ratio"] for result in results]
    assert mean(cast("list[float]", totals)) == pytest.approx(1.0, abs=0.01)


LOWERED = {"few": (500.0, 20.0, 6, 0.03), "late": (100.0, 10.0, 3, 0.1)}
"""By name: rate before and after, agents, and jitter of the bus, seconds."""


@pytest.mark.parametrize(
    ("name", "seed"), [("few", 1), *thorough(("few", 2)), ("late", 5)]
)
def test_nobody_starves_because_others_heard_of_a_lowered_limit_before_or_after(
    name: str, seed: int
) -> None:
    """What is admitted between these moments is seconds of the new quota.

    Who admitted nothing after that told nothing, and was taken to ask no more.
    """
    before, after, agents, jitter_s = LOWERED[name]
    scenario = parse_scenario(
        {
            "seconds": 17,
            "group": {"rate": before, "burst": before},
            "agents": {"count": agents},
            "network": {"delay": 0.003, "jitter": jitter_s},
            "demand": [{"agents": "all", "rate": 150}],
            "change": [{"at": SET_S, "rate": after, "burst": 60}],
        },
        name=name,
    )
    _, run = simulate(scenario, seed=seed)
    parts = [(times > SET_S + 1.0).sum() for times, _ in run.admitted[0]]
    assert min(parts) > 0.4 * sum(parts) / agents
