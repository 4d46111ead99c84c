"""The library: no invariant breaks, and the figures that are promised are reached."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from headgate.simulation.scenario.library import scenario_files
from headgate.simulation.scenario.parsing import read_scenario
from headgate.simulation.scenario.scenario import Scenario
from headgate.simulation.scenario.targets import BY_NAME, TARGETS
from headgate.simulation.simulate import Result, simulate
from headgate.simulation.soak import TREES, random_scenario

FILES = {path.stem: path for path in scenario_files()}

ELSEWHERE = {"zipf-t5", "zipf-loss-t5", "mover-t5", "wave-t5"}
"""Repeat others with heartbeats of 5 s; here `zipf-crash-t5` and `swap-t5` stand for
them, which such heartbeats make hardest.  `make accuracy` runs them all."""

SAMPLE = {
    # Demand: overload, skew, herds, starts; large requests, few, and losses are in the
    # grid of regimes.
    *("swap", "small-burst", "cold-start", "herd"),
    # Limits, and groups inside groups; `test_trees.py` has more of these.
    *("quota-steps", "tree-crash"),
    # Faults of processes, the network and clocks.
    *("clock-jump", "rolling-restart", "slow-network", "swap-t5"),
    # Permits.
    *("strict-child", "strict-rolling"),
}
"""What `make test` runs of the library, a tenth of its work: one scenario for each
kind of demand, change, fault and mode.  `make simulated` runs all of it."""

SEED = 1
"""`make accuracy` runs ten seeds of each."""

SLOW_SEEDS = {6, 5272567, 5474534, 5474536, 5474563, 8800000, 8810009}
"""Kept seeds that take eight seconds of a core or more: in `make simulated` only."""

AFTERWARDS = 15
"""Heartbeats that a test goes on for after the last change: twice what recovery may
take."""

STEADY = 25
"""Heartbeats that a test counts at least, if the scenario is that long."""

OFTEN = 10
"""Requests of an agent, fewer of which prove little."""


class Kept(TypedDict):
    """One entry of the file of regressions."""

    seed: int
    broke: str
    narrow: NotRequired[bool]


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in SAMPLE else [pytest.mark.thorough]


def cases() -> list[object]:
    scenarios = [
        read_scenario(FILES[name]) for name in sorted(FILES.keys() - ELSEWHERE)
    ]
    # The longest first, so that processes end at about the same time.
    scenarios.sort(key=lambda one: one.agents * shortened(one).seconds, reverse=True)
    return [
        pytest.param(scenario.name, marks=marks_of(scenario.name))
        for scenario in scenarios
    ]


def shortened(scenario: Scenario) -> Scenario:
    """Return a scenario without its last part, in which nothing changes any more.

    Only of scenarios with targets, which `make accuracy` runs whole.  Those that count
    from time 0, about starts and large requests, stay as long as they are, and so do
    those with faults that never end or agents that seldom ask.
    """
    endless = any(fault.until_s >= scenario.seconds for fault in scenario.faults)
    if scenario.name not in BY_NAME or not scenario.measure_from or endless:
        return scenario
    if not scenario.piecewise_constant:
        return scenario
    changes = [change.at_s for change in scenario.changes]
    for group in range(len(scenario.groups)):
        changes.extend(scenario.demand_edges(group))
    for fault in scenario.faults:
        changes.extend((fault.start_s, fault.until_s))
    last_s = max((at for at in changes if at < scenario.seconds), default=0.0)
    enough_s = max(
        last_s + AFTERWARDS * scenario.interval_s,
        scenario.measure_from + STEADY * scenario.interval_s,
    )
    if any(piece.rate * enough_s < OFTEN for piece in scenario.demands):
        return scenario
    return replace(scenario, seconds=min(scenario.seconds, enough_s))


def told(result: Result) -> list[str]:
    return [f"{v.name} at {v.time:.2f} s: {v.detail}" for v in result.violations]


@pytest.mark.parametrize("name", cases())
def test_a_scenario_keeps_the_invariants_and_reaches_its_figures(name: str) -> None:
    scenario = shortened(read_scenario(FILES[name]))
    result, _ = simulate(scenario, seed=SEED)
    again = f"seconds = {scenario.seconds:g} in {name}.toml, --seed {SEED}"
    assert told(result) == [], again
    if name in BY_NAME:
        assert BY_NAME[name].missed(result.as_json()) == {}, again


def regressions() -> list[Kept]:
    text = (Path(__file__).parent / "regressions.toml").read_text(encoding="utf-8")
    kept: list[Kept] = tomllib.loads(text)["soak"]
    return kept


def kept_seeds() -> Iterator[object]:
    """Yield those whose simulation takes a few seconds of a core, and mark others."""
    for kept in regressions():
        marks = [pytest.mark.thorough] if kept["seed"] in SLOW_SEEDS else []
        yield pytest.param(kept, marks=marks, id=str(kept["seed"]))


@pytest.mark.parametrize("kept", [*kept_seeds()])
def test_a_seed_that_once_failed_does_so_no_more(kept: Kept) -> None:
    seed = kept["seed"]
    scenario = random_scenario(seed, narrow=kept.get("narrow", False))
    result, _ = simulate(scenario, seed=seed)
    assert told(result) == [], f"python -m headgate.simulation.soak --seed {seed}"


def test_a_run_ends_when_nothing_changes_any_more() -> None:
    expected = {
        "zipf": 30.0,  # steady from the start
        "zipf-crash": 55.0,  # the last agent returns at 40 s
        "zipf-t5": 60.0,  # heartbeats of 5 s
        "mover": 60.0,
        "wave": 60.0,
        "even": 60.0,  # has no target, and so no whole run elsewhere
        "per-user": 240.0,  # counts from time 0
        "fifty-on-ten": 30.0,
        "fifty-on-ten-light": 60.0,  # each agent asks once in ten seconds
    }
    runs = {name: shortened(read_scenario(FILES[name])) for name in expected}
    assert {name: run.seconds for name, run in runs.items()} == expected
    crash = read_scenario(FILES["zipf-crash"])
    endless = tuple(replace(fault, until_s=crash.seconds) for fault in crash.faults)
    assert shortened(replace(crash, faults=endless)).seconds == crash.seconds


def test_every_figure_that_is_promised_has_its_scenario() -> None:
    assert {target.scenario for target in TARGETS} <= set(FILES)


def test_every_kind_of_fault_is_in_the_library() -> None:
    kinds = {
        fault.kind for path in FILES.values() for fault in read_scenario(path).faults
    }
    assert kinds == {
        "crash",
        "leave",
        "pause",
        "partition",
        "cut",
        "loss",
        "delay",
        "clock-jump",
        "duplicate-id",
        "liar",
        "corrupt",
    }
    networks = [read_scenario(path).network for path in FILES.values()]
    assert any(network.duplicate > 0 for network in networks)
    assert any(network.reorder > 0 for network in networks)


def test_soak_scenarios_are_a_function_of_the_seed() -> None:
    assert random_scenario(5) == random_scenario(5)
    assert random_scenario(5) != random_scenario(6)


def test_the_soak_draws_over_all_regimes() -> None:
    drawn = [random_scenario(seed) for seed in range(300)]
    groups = [scenario.groups[0] for scenario in drawn]
    assert {1, 2, 12} <= {scenario.agents for scenario in drawn}
    assert {group.may_owe for group in groups} == {True, False}
    periods = [(group.burst or 0.0) / group.rate for group in groups]
    assert min(periods) < 0.2
    assert max(periods) > 1_000
    costs = [{piece.cost for piece in scenario.demands} for scenario in drawn]
    assert any(len(one) > 1 for one in costs)
    above = zip(costs, groups, strict=True)
    assert any(max(one) > (group.burst or 0.0) for one, group in above)
    late = (fault for scenario in drawn for fault in scenario.faults)
    assert any(fault.kind == "leave" and fault.start_s == 0.0 for fault in late)
    assert {scenario.measure_from for scenario in drawn} == {0.0}
    trees = [scenario.groups for scenario in drawn if len(scenario.groups) > 1]
    assert len(trees) == len(drawn) / TREES
    inside = {(tree[0].mode, one.mode) for tree in trees for one in tree[1:]}
    assert {("strict", "balanced"), ("strict", "strict")} < inside
