"""Runs the grid and writes its page: `python -m headgate.simulation.regimes`.

Thousands of cells take hours, so several processes run them, the quickest of each kind
first, and keep the results in a file: the command may be stopped at any time and goes
on where it stopped, and the page says how many cells it is based on.  Cells that were
run with other code than the present are run again; comments don't count.
"""

from __future__ import annotations

import argparse
import ast
import sys
from functools import partial
from hashlib import blake2b
from math import inf
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, cast

import headgate.agent
import headgate.coordinator
from headgate.simulation.command import InvalidOption, parse_seeds
from headgate.simulation.kept_runs import (
    Values,
    add_options,
    at_least_one,
    read_kept,
    run_missing,
)
from headgate.simulation.regimes.cells import Cell, grid, running_order, sample
from headgate.simulation.regimes.judge import DELAYS_KEPT, CellFigures, run_cell
from headgate.simulation.regimes.page import delays_kept, page_of

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef

PICTURE = Path("images/regimes.png")
"""Path of the heat map, relative to the page."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing and write the page; return 1 if a cell misses the goal."""
    options = _parser().parse_args(arguments)
    if options.cell:
        return _replay(options.cell, options.seeds, options.workers)
    code = code_digest()
    cells = sample() if options.sample else running_order()
    kept = _kept(options.keep, code)
    wanted = cells[: options.first] if options.first else cells
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    fresh = run_missing(
        [cell for cell in wanted if cell not in kept],
        partial(_values, code),
        workers=options.workers,
        keep=options.keep,
        minutes=options.minutes,
    )
    kept |= {cell: _figures(values) for cell, values in fresh.items()}
    found = {cell: kept[cell] for cell in wanted if cell in kept}
    picture = _draw(found, options.out.parent)
    page, missed = page_of(found, cells=len(cells), picture=picture)
    options.out.write_text(page, encoding="utf-8")
    told = f"{len(found)} of {len(cells)} cells, {missed} miss the goal"
    sys.stdout.write(f"{options.out}: {told}, {delays_kept(found):.1%} of delays\n")
    return 1 if missed or delays_kept(found) < DELAYS_KEPT else 0


def _replay(names: list[str], seeds: str, workers: int) -> int:
    """Print the figures of some cells over several seeds; return 0."""
    cells = {cell.name: cell for cell in grid()}
    try:
        chosen = parse_seeds(seeds)
    except InvalidOption as error:
        _parser().error(str(error))
    if unknown := [name for name in names if name not in cells]:
        example = next(iter(cells))
        _parser().error(
            f"--cell: expected a cell of the grid, such as {example!r},"
            f" got {unknown[0]!r}"
        )
    jobs = [(cells[name], seed) for name in names for seed in chosen]
    found = run_missing(jobs, _seeded, workers=workers, keep=None, minutes=inf)
    for name in names:
        runs = [_figures(found[cells[name], seed]) for seed in chosen]
        total = [run.total for run in runs]
        over = [run.excess for run in runs]
        sys.stdout.write(
            f"{name}, {len(runs)} seeds: total {mean(total):.3f}"
            f" ({min(total):.3f} to {max(total):.3f}),"
            f" over by {mean(over):.1f} costs ({max(over):.1f} at most)\n"
        )
    return 0


def _seeded(job: tuple[Cell, int]) -> Values:
    """Run a cell with a seed, in any process."""
    return {"figures": run_cell(*job).as_json()}


def code_digest() -> str:
    """Return a digest of the code that determines a cell's result.

    Comments, docstrings and layout don't count.
    """
    digest = blake2b(digest_size=8)
    here = Path(__file__).parents[1]
    folders = [Path(headgate.coordinator.__file__).parent, here / "world"]
    folders += [Path(headgate.agent.__file__).parent / "bucket", here / "measure"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    files += [here / "regimes" / "cells.py", here / "regimes" / "judge.py"]
    for file in sorted(files):
        tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                del node.body[0]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def _values(code: str, cell: Cell) -> Values:
    """Run a cell, in any process."""
    return {"code": code, "cell": cell.axes(), "figures": run_cell(cell).as_json()}


def _figures(values: Values) -> CellFigures:
    return CellFigures(**cast("dict[str, float]", values["figures"]))  # type: ignore[arg-type]  # as it was written


def _kept(keep: Path, code: str) -> dict[Cell, CellFigures]:
    """Return the runs made with the present code."""
    return {
        Cell(**cast("dict[str, float]", values["cell"])): _figures(values)  # type: ignore[arg-type]  # as it was written
        for values in read_kept(keep)
        if values["code"] == code
    }


def _draw(found: dict[Cell, CellFigures], folder: Path) -> str:
    """Draw the heat map if matplotlib is installed; return its address."""
    try:
        from headgate.simulation.regimes.picture import draw
    except ImportError:
        sys.stderr.write(
            "no picture without matplotlib: pip install 'headgate[plot]'\n"
        )
        return ""
    path = folder / PICTURE
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(found, path)
    return PICTURE.as_posix()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headgate.simulation.regimes")
    add_options(
        parser, out=Path("docs/regimes.md"), keep=Path(".headgate/regimes.jsonl")
    )
    parser.add_argument("--first", type=at_least_one, help="only so many cells")
    parser.add_argument(
        "--cell", nargs="+", help="print these cells' figures, and write no page"
    )
    parser.add_argument(
        "--seeds", default="1-8", help="A-B, for --cell; 1-8 by default"
    )
    parser.add_argument(
        "--sample", action="store_true", help="only the cells that the tests run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
