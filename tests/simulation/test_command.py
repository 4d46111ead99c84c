"""The command: its exit statuses, its one line per mistake, its bytes."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from headgate.simulation.command import simulate
from headgate.simulation.controllers.controller import Birth, Controller
from headgate.simulation.controllers.other_strategies import PeriodicController
from headgate.simulation.scenario.library import scenario_files, summary
from headgate.simulation.scenario.scenario import Scenario

APP = typer.Typer()
APP.command()(simulate)

SCENARIO = """# A small case
seconds = 12
measure_from = 2
[group]
rate = 100.0
[agents]
count = 3
[[demand]]
rate = 60.0
[[fault]]
kind = "crash"
agents = [0]
from = 5
until = 7
"""

FIELDS = [
    "scenario",
    "seed",
    "strategy",
    "agents",
    "seconds",
    "offered",
    "admitted",
    "central",
    "total_ratio",
    "error_1s_mean",
    "error_1s_max",
    "overshoot_seconds",
    "falsely_refused",
    "fairness",
    "worst_agent",
    "settle_seconds",
    "swing",
    "reports_per_agent_second",
    "bytes_per_agent_second",
    "violations",
]


def _everyone_has_all(scenario: Scenario, birth: Birth) -> Controller:
    alone = replace(scenario, weights=(1.0, *(1e-6,) * (scenario.agents - 1)))
    return PeriodicController("static", alone, replace(birth, index=0))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(APP, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


def test_json_has_every_field_of_the_contract_one_object_per_seed(file: str) -> None:
    result = run(file, "--seeds", "3-4", "--json")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["seed"] for line in lines] == [3, 4]
    for line in lines:
        assert list(line)[: len(FIELDS)] == FIELDS
        assert (line["scenario"], line["strategy"]) == ("small", "headgate")
        assert (line["agents"], line["seconds"]) == (3, 12.0)


def test_the_same_file_and_seed_give_the_same_bytes(file: str) -> None:
    first, again = (run(file, "--seed", "9", "--json").stdout for _ in range(2))
    assert first == again
    assert first != run(file, "--seed", "8", "--json").stdout


@pytest.mark.parametrize(
    "strategy", ["static", "usage-proportional", "steal", "max-min"]
)
def test_other_strategies_meet_the_same_arrivals(file: str, strategy: str) -> None:
    ours = json.loads(run(file, "--json").stdout)
    other = json.loads(run(file, "--json", "--strategy", strategy).stdout)
    assert other["strategy"] == strategy
    assert (other["offered"], other["central"]) == (ours["offered"], ours["central"])
    assert other["violations"] == []


def test_people_get_a_table(file: str) -> None:
    result = run(file, "--seeds", "1-2")
    assert "admitted / central" in result.stdout
    assert "small: 3 agents, 12 s, strategy headgate" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "FILE.toml: expected a scenario file"),
        (
            ("absent.toml",),
            "absent.toml: expected a scenario file, or a name that --list shows",
        ),
        (("absent",), "absent: expected a scenario file, or a name that --list shows"),
        (("{file}", "--strategy", "best"), "--strategy: expected one of headgate"),
        (("{file}", "--seeds", "5-1"), "--seeds: expected 1 to"),
        (("{file}", "--seeds", "one"), "--seeds: expected A-B"),
        (("{file}", "--seeds", "1-2", "--seed", "1"), "--seeds: not together with"),
        (("{file}", "--seed", "-1"), "--seed: expected at least 0"),
        (("{file}", "--seeds", "1-2", "--plot", "x.png"), "--plot: expected a single"),
        (("{file}", "--plot", "absent/x.png"), "--plot: expected a folder"),
    ],
)
def test_what_can_not_be_used_is_told_in_one_line_and_exits_with_2(
    file: str, arguments: tuple[str, ...], message: str
) -> None:
    result = run(*(argument.replace("{file}", file) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_mistake_in_the_file_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(SCENARIO.replace("count = 3", "count = 0"), encoding="utf-8")
    result = run(str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"headgate: {path}: agents.count: expected")


def test_a_broken_invariant_exits_with_1(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headgate.simulation.simulate.real_coordinator", _everyone_has_all
    )
    result = run(file)
    assert result.exit_code == 1
    assert "broken at" in result.stdout


def test_a_picture_is_drawn(file: str, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    assert run(file, "--plot", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    before = picture.read_bytes()
    run(file, "--plot", str(picture))
    assert picture.read_bytes() == before


def test_without_matplotlib_it_says_what_to_install(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headgate.simulation.report.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(file, "--plot", str(tmp_path / "out.png"))
    assert result.exit_code == 2
    assert "pip install 'headgate[plot]'" in result.stderr


def test_the_library_is_listed_with_what_each_scenario_shows() -> None:
    result = run("--list")
    files = scenario_files()
    assert len(files) >= 25
    assert len(result.stdout.splitlines()) == len(files)
    for path in files:
        assert len(summary(path)) > 20, path


def test_a_scenario_of_the_library_goes_by_its_name() -> None:
    result = run("even", "--strategy", "static", "--json")
    assert json.loads(result.stdout)["scenario"] == "even"
