"""The accuracy page: kept runs are not made again, and what is missed is said."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.simulation.accuracy import jobs_of, main, read_results
from headgate.simulation.controllers.controller import STRATEGIES
from headgate.simulation.kept_runs import Values
from headgate.simulation.report.accuracy_page import Job
from headgate.simulation.scenario.library import find_scenario
from headgate.simulation.scenario.parsing import read_scenario
from headgate.simulation.scenario.targets import BY_NAME
from headgate.simulation.simulate import simulate


@pytest.fixture(scope="module")
def values() -> Values:
    scenario = replace(read_scenario(find_scenario("swap")), seconds=6.0, demands=())
    return simulate(scenario, seed=1)[0].as_json()


def kept(path: Path, values: Values, settle: list[float]) -> None:
    good = {"total_ratio": 1.0, "error_1s_mean": 0.01, "steady_overshoot_seconds": 0.0}
    lines = [
        json.dumps(
            values
            | good
            | {"strategy": strategy, "seed": seed, "settle_seconds": seconds}
        )
        for strategy in STRATEGIES
        for seed, seconds in enumerate(settle, start=1)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_page_is_made_of_kept_runs_alone_and_names_the_missed_seed(
    tmp_path: Path, values: Values
) -> None:
    keep, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    kept(keep, values, [0.3, 0.3, 0.61])
    before = keep.read_text()
    arguments = ["--only", "swap", "--seeds", "1-3", "--keep", str(keep)]
    assert main([*arguments, "--out", str(page)]) == 1
    assert keep.read_text() == before
    text = page.read_text()
    assert "`swap` on 1 of 3 seeds (3: settle_seconds 0.61, expected ≤ 0.6)" in text
    assert "settle ≤ 0.4 on 2 of 3 seeds, nine of ten expected" in text


def test_a_figure_that_every_seed_reaches_is_not_called_missed(
    tmp_path: Path, values: Values
) -> None:
    keep, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    kept(keep, values, [0.3, 0.39, 0.2])
    arguments = ["--only", "swap", "--seeds", "1-3", "--keep", str(keep)]
    assert main([*arguments, "--out", str(page)]) == 0
    assert "**missed**" not in page.read_text()


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path, values: Values) -> None:
    keep = tmp_path / "runs.jsonl"
    kept(keep, values, [0.3])
    whole = keep.read_text().splitlines()
    keep.write_text("\n".join([*whole[:-1], whole[-1][:40]]), encoding="utf-8")
    assert len(read_results(keep)) == len(STRATEGIES) - 1


def test_every_scenario_is_run_once_before_any_is_run_twice() -> None:
    targets = [BY_NAME["swap"], BY_NAME["zipf"]]
    jobs = jobs_of(targets, range(1, 4), range(1, 2))
    assert jobs[:2] == [Job("swap", 1, "headgate"), Job("zipf", 1, "headgate")]
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert len(jobs) == 2 * 3 + 2 * (len(STRATEGIES) - 1)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--only", "swap,mover", "invalid choice: 'swap,mover'"),
        ("--workers", "0", "expected a number of at least 1, got '0'"),
        ("--keep", "no/such/file", "expected a file in an existing folder, got"),
        ("--out", "docs", "expected a file in an existing folder, got 'docs'"),
    ],
)
def test_a_wrong_option_is_refused_with_what_was_expected(
    option: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([option, value])
    assert f"argument {option}: {told}" in capsys.readouterr().err
