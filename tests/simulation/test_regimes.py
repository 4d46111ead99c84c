"""The grid of regimes: its cells, what they are held to, and its page."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.measure.reference_bucket import central_of
from headgate.simulation.regimes.__main__ import code_digest, main
from headgate.simulation.regimes.cells import (
    AGENTS,
    BURST_COSTS,
    BURST_S,
    LOADS,
    LOSSES,
    PER_DELAY,
    SKEWS,
    Cell,
    collides,
    forbidden,
    grid,
    running_order,
    sample,
    strained,
)
from headgate.simulation.regimes.judge import (
    DELAYS_KEPT,
    CellFigures,
    held_to,
    run_cell,
)
from headgate.simulation.regimes.page import delays_kept, page_of
from headgate.simulation.world.engine import SimulationEngine

GOOD = CellFigures(
    total=1.0, admissions=100, excess=0.5, over=-1.0, refusals=10, delays_kept=10
)


def test_every_value_of_every_axis_is_in_the_grid() -> None:
    cells = grid()
    assert {cell.agents for cell in cells} == set(AGENTS)
    assert {cell.per_delay for cell in cells} == set(PER_DELAY)
    assert set(BURST_COSTS) <= {cell.burst_costs for cell in cells}
    assert {cell.load for cell in cells} == set(LOADS)
    assert {cell.skew for cell in cells} == set(SKEWS)
    assert {cell.loss for cell in cells} == set(LOSSES)
    assert {cell.may_owe for cell in cells} == {True, False}
    for seconds in BURST_S:
        assert any(cell.burst_s == pytest.approx(seconds, rel=0.01) for cell in cells)


def test_cells_differ_and_their_order_is_fixed() -> None:
    names = [cell.name for cell in grid()]
    assert len(set(names)) == len(names)
    assert names == [cell.name for cell in grid()]


def test_a_run_that_is_stopped_has_been_everywhere() -> None:
    order = running_order()
    assert sorted(map(hash, order)) == sorted(map(hash, grid()))
    kinds = {(cell.agents, cell.per_delay, cell.burst_costs) for cell in grid()}
    first, rest = order[: len(kinds)], order[len(kinds) :]
    assert {(c.agents, c.per_delay, c.burst_costs) for c in first} == kinds
    works = [cell.work for cell in rest]
    assert works == sorted(works)


def test_the_sample_is_part_of_the_grid_and_takes_a_minute() -> None:
    chosen = sample()
    assert set(chosen) <= set(grid())
    assert {cell.agents for cell in chosen} == set(AGENTS)
    assert {cell.skew for cell in chosen} == set(SKEWS)
    assert not any(forbidden(cell) for cell in chosen)
    # Two hundred of these take a second of a processor.
    assert sum(cell.work for cell in chosen) < 60 * 250


def test_a_cell_offers_what_its_axes_say() -> None:
    for cell in sample():
        scenario = cell.scenario()
        group = scenario.groups[0]
        offered = sum(piece.rate * len(piece.agents) for piece in scenario.demands)
        assert offered == pytest.approx(cell.load * group.rate)
        assert scenario.measure_from == 0
        assert group.burst == pytest.approx(cell.burst_costs * cell.cost)


def test_a_burst_that_refills_within_two_delays_is_out_of_reach_unless_alone() -> None:
    cell = Cell(
        agents=2,
        per_delay=10.0,
        burst_costs=6.0,
        load=2.0,
        skew="alike",
        may_owe=True,
        loss=0.0,
    )
    assert forbidden(cell) == "B < 2·Q·δ"
    assert not forbidden(replace(cell, agents=1))
    assert not forbidden(replace(cell, burst_costs=60.0))


def test_a_burst_that_refills_within_two_ages_may_fall_short_to_nine_tenths() -> None:
    cell = Cell(
        agents=2,
        per_delay=1.0,
        burst_costs=6.0,
        load=2.0,
        skew="alike",
        may_owe=True,
        loss=0.0,
    )
    assert strained(cell) == "B < 2·Q·Δ"
    assert not strained(replace(cell, agents=1))
    assert not strained(replace(cell, burst_costs=60.0))
    short, too_short = replace(GOOD, total=0.95), replace(GOOD, total=0.89)
    assert page_of({cell: short}, cells=1, picture="")[1] == 0
    assert page_of({cell: too_short}, cells=1, picture="")[1] == 1
    assert page_of({replace(cell, agents=1): short}, cells=1, picture="")[1] == 1


def test_agents_that_share_one_request_may_admit_up_to_the_quota() -> None:
    cell = Cell(
        agents=2,
        per_delay=0.1,
        burst_costs=1.0,
        load=5.0,
        skew="alike",
        may_owe=False,
        loss=0.0,
    )
    assert collides(cell) == "B < 2·c"
    assert not collides(replace(cell, agents=1))
    assert not collides(replace(cell, burst_costs=2.0))
    assert not collides(replace(cell, skew="mover"))
    assert not collides(replace(cell, load=0.6))
    # Some sixty requests of the rate and one of the burst.
    central = replace(GOOD, admissions=50)
    quota = cell.quota_costs / central.admissions
    assert 1.2 < quota < 1.25
    below, above = replace(central, total=1.2), replace(central, total=quota + 0.01)
    assert page_of({cell: below}, cells=1, picture="")[1] == 0
    whole = replace(central, total=61 / 50)
    for exact in (cell, replace(cell, agents=4, per_delay=0.01)):  # 61 - 1e-14
        assert page_of({exact: whole}, cells=1, picture="")[1] == 0
    text, missed = page_of({cell: above}, cells=1, picture="")
    assert missed == 1
    assert "expected 0.97 to 1.22" in text
    assert page_of({replace(cell, agents=1): below}, cells=1, picture="")[1] == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"total": 0.96}, "total 0.960"),
        ({"total": 1.03}, "total 1.030"),
        ({"over": 0.5}, "0.5 of them unexplained"),
        ({"total": 0.9, "admissions": 49}, ""),
        ({}, ""),
    ],
)
def test_a_cell_misses_the_goal_by_its_total_or_by_its_excess(
    wrong: dict[str, float], told: str
) -> None:
    figures = CellFigures(**(GOOD.as_json() | wrong))  # type: ignore[arg-type]  # by name
    assert bool(figures.missed()) == bool(told)
    assert told in "; ".join(figures.missed())


def test_a_cell_is_a_function_of_its_axes() -> None:
    cell = min(sample(), key=lambda cell: cell.work)
    assert run_cell(cell) == run_cell(cell)


def test_kept_cells_are_not_run_again_and_those_of_other_code_are_left_out(
    tmp_path: Path,
) -> None:
    cells = grid()[:3]
    keep, page = tmp_path / "runs.jsonl", tmp_path / "regimes.md"
    bad = replace(GOOD, total=0.5)
    lines = [
        {"code": code, "cell": cell.axes(), "figures": figures.as_json()}
        for code, cell, figures in (
            (code_digest(), cells[0], GOOD),
            (code_digest(), cells[1], bad),
            ("other", cells[2], bad),
        )
    ]
    keep.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["--keep", str(keep), "--out", str(page), "--minutes", "0"]
    assert main(arguments) == 1
    text = page.read_text()
    assert f"2 of the grid's {len(grid())} cells" in text
    assert f"- `{cells[1].name}`: total 0.500" in text
    assert cells[2].name not in text
    assert (tmp_path / "images" / "regimes.png").stat().st_size > 10_000


def test_refusals_that_tell_too_long_a_delay_fail_the_whole_grid(
    tmp_path: Path,
) -> None:
    keep = tmp_path / "runs.jsonl"
    cell = grid()[0]
    for kept, status in ((9, 0), (8, 1)):
        figures = replace(GOOD, delays_kept=kept)
        line = {"code": code_digest(), "cell": cell.axes()}
        keep.write_text(json.dumps(line | {"figures": figures.as_json()}) + "\n")
        arguments = ["--keep", str(keep), "--out", str(tmp_path / "p.md")]
        assert main([*arguments, "--minutes", "0"]) == status


def test_a_forbidden_cell_is_listed_apart_and_misses_nothing() -> None:
    cell = next(cell for cell in grid() if forbidden(cell))
    text, missed = page_of({cell: replace(GOOD, total=0.5)}, cells=1, picture="")
    assert missed == 0
    assert cell.name in text.partition("can't reach the goal\n")[2]


SMALL = "n=2 x=10 b=60 load=0.6 alike debt loss=0.2"


def test_a_cell_is_printed_for_several_seeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--cell", SMALL, "--seeds", "1-3"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (cell,) = (cell for cell in grid() if cell.name == SMALL)
    runs = [run_cell(cell, seed) for seed in (1, 2, 3)]
    total = [run.total for run in runs]
    over = [run.excess for run in runs]
    assert line == (
        f"{SMALL}, 3 seeds: total {mean(total):.3f}"
        f" ({min(total):.3f} to {max(total):.3f}),"
        f" over by {mean(over):.1f} costs ({max(over):.1f} at most)"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cell", "n=3"], "--cell: expected a cell of the grid, such as 'n="),
        (["--cell", SMALL, "--seeds", "8-1"], "--seeds: expected 1 to"),
    ],
)
def test_a_cell_or_seeds_that_do_not_exist_are_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


RARE = (
    "n=2 x=0.001 b=1 load=0.6 alike no-debt loss=0",
    "n=2 x=0.001 b=1 load=1 alike no-debt loss=0",
    "n=4 x=0.001 b=1 load=1 alike no-debt loss=0",
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", RARE)
def test_rare_requests_are_decided_as_one_bucket_decides_them(name: str) -> None:
    """One request a minute: between two of them every agent is at rest."""
    (cell,) = (cell for cell in grid() if cell.name == name)
    run = SimulationEngine(
        cell.scenario(), seed=1, strategy="headgate", make_controller=real_coordinator
    ).run()
    (central,) = central_of(run)
    admitted = sorted(at for times, _ in run.admitted[0] for at in times.tolist())
    assert admitted == central[0].tolist()
    assert len(admitted) > 5


OUTSIDE = {
    "n=16 x=1 b=6 load=5 half no-debt loss=0": 1.03,
}
"""Cells of the sample that miss the goal for the total, and by how much at most:
sixteen agents that share six requests, owing one at the end."""


@pytest.mark.parametrize("agents", AGENTS)
def test_the_sample_reaches_the_goal(agents: int) -> None:
    found = {cell: run_cell(cell) for cell in sample() if cell.agents == agents}
    missed = {
        cell.name: told
        for cell, figures in found.items()
        if cell.name not in OUTSIDE and (told := figures.missed(held_to(cell, figures)))
    }
    assert missed == {}
    for cell, figures in found.items():
        if bound := OUTSIDE.get(cell.name):
            assert min(bound, 0.97) <= figures.total <= max(bound, 1.02), cell.name
    assert delays_kept(found) >= DELAYS_KEPT
