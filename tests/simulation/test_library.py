"""The library: no invariant breaks, and the figures that are promised are reached."""

import tomllib
from pathlib import Path
from typing import TypedDict

import pytest

from headgate.simulation.scenario.library import scenario_files
from headgate.simulation.scenario.parsing import read_scenario
from headgate.simulation.scenario.targets import BY_NAME, TARGETS
from headgate.simulation.simulate import Result, simulate
from headgate.simulation.soak import random_scenario

FILES = {path.stem: path for path in scenario_files()}

SMALL = 500
"""Agent-seconds up to which a scenario is run with two seeds: time is short."""


class Kept(TypedDict):
    """One entry of the file of regressions."""

    seed: int
    broke: str


def cases() -> list[tuple[str, int]]:
    found: list[tuple[int, str, int]] = []
    for name, path in FILES.items():
        scenario = read_scenario(path)
        work = int(scenario.agents * scenario.seconds)
        found += [(work, name, seed) for seed in ((1, 2) if work <= SMALL else (1,))]
    # The longest first, so that processes end at about the same time.
    return [(name, seed) for _, name, seed in sorted(found, reverse=True)]


def told(result: Result) -> list[str]:
    return [f"{v.name} at {v.time:.2f} s: {v.detail}" for v in result.violations]


@pytest.mark.parametrize(("name", "seed"), cases())
def test_a_scenario_keeps_the_invariants_and_reaches_its_figures(
    name: str, seed: int
) -> None:
    result, _ = simulate(read_scenario(FILES[name]), seed=seed)
    assert told(result) == []
    if name in BY_NAME:
        assert BY_NAME[name].missed(result.as_json()) == {}


def regressions() -> list[Kept]:
    text = (Path(__file__).parent / "regressions.toml").read_text(encoding="utf-8")
    kept: list[Kept] = tomllib.loads(text)["soak"]
    return kept


@pytest.mark.parametrize("kept", regressions(), ids=lambda kept: str(kept["seed"]))
def test_a_seed_that_once_failed_does_so_no_more(kept: Kept) -> None:
    seed = kept["seed"]
    result, _ = simulate(random_scenario(seed), seed=seed)
    assert told(result) == [], f"python -m headgate.simulation.soak --seed {seed}"


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
