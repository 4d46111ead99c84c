"""The command `headgate simulate`."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 (typer reads the annotations)
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.simulation.controllers.controller import STRATEGIES, Strategy
from headgate.simulation.report.printing import table
from headgate.simulation.scenario.library import find_scenario, listing
from headgate.simulation.scenario.parsing import InvalidScenario, read_scenario
from headgate.simulation.simulate import simulate as simulate_one

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.simulate import Result
    from headgate.simulation.world.record import SimulationRun

MOST_SEEDS = 100_000
"""Most seeds of one command: each is a whole simulation."""

MOST_DIGITS = 18
"""Most digits of a seed, so that it fits 64 bits."""

BAD_INPUT = 2
"""Exit status for an option or a file that can't be used."""

BROKEN = 1
"""Exit status when a run broke an invariant."""


class InvalidOption(Exception):
    """An option can't be used; the text is one line for the user."""


def simulate(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.toml",
            help="A scenario file, or the name of a library scenario (see --list).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Seed to use instead of the file's.", show_default=False
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="A-B", help="Run every seed from A to B.", show_default=False
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"One of {', '.join(STRATEGIES)}."),
    ] = "headgate",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per seed, one per line."),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.png",
            help="Write a plot of the run to this file.",
            show_default=False,
        ),
    ] = None,
    list_library: Annotated[
        bool, typer.Option("--list", help="List the scenarios of the library.")
    ] = False,
) -> None:
    """Run the real coordinator under a simulated clock, network and faults.

    The same file and seed always give the same output.  Invariants are checked in
    every run of the strategy `headgate`.  The exit status is 1 if one is broken, and
    2 if the file or an option can't be used.
    """
    try:
        if list_library:
            sys.stdout.write(listing())
            return
        broken = _simulate(file, seed, seeds, strategy, as_json=as_json, plot=plot)
    except (InvalidOption, InvalidScenario) as error:
        sys.stderr.write(f"headgate: {error}\n")
        raise typer.Exit(BAD_INPUT) from None
    if broken:
        raise typer.Exit(BROKEN)


def parse_seeds(text: str, option: str = "--seeds") -> range:
    """Return the seeds of "A-B", both included.

    Raises:
        Refused: If it is not two integers in order, or too many.
    """
    first, dash, last = text.partition("-")
    short = max(len(first), len(last)) <= MOST_DIGITS
    if not (dash and short and first.isdecimal() and last.isdecimal()):
        raise InvalidOption(f"{option}: expected A-B, such as 1-10, got {text!r}")
    seeds = range(int(first), int(last) + 1)
    if not 0 < len(seeds) <= MOST_SEEDS:
        raise InvalidOption(
            f"{option}: expected 1 to {MOST_SEEDS:,} seeds, got {text!r}"
        )
    return seeds


def _simulate(
    file: str | None,
    seed: int | None,
    seeds: str | None,
    strategy: str,
    *,
    as_json: bool,
    plot: Path | None,
) -> bool:
    """Run all seeds and print the results; return whether an invariant broke."""
    if file is None:
        raise InvalidOption("FILE.toml: expected a scenario file, or --list")
    name, path = _strategy(strategy), find_scenario(file)
    if not path.exists():
        raise InvalidOption(
            f"{file}: expected a scenario file, or a name that --list shows"
        )
    scenario = read_scenario(path)
    chosen = _seeds(seed, seeds, scenario)
    draw = _plotter(plot, len(chosen))
    results: list[Result] = []
    with _progress(scenario, chosen) as progress:
        for place, one in enumerate(chosen):
            advance = None if progress is None else progress(place)
            result, run = simulate_one(
                scenario, seed=one, strategy=name, progress=advance
            )
            if draw is not None:
                draw(run)
            if as_json:
                sys.stdout.write(json.dumps(result.as_json(), allow_nan=False) + "\n")
                sys.stdout.flush()
            results.append(result)
    if not as_json:
        sys.stdout.write(table(results))
    return any(result.violations for result in results)


def _strategy(name: str) -> Strategy:
    for strategy in STRATEGIES:
        if strategy == name:
            return strategy
    raise InvalidOption(
        f"--strategy: expected one of {', '.join(STRATEGIES)}, got {name!r}"
    )


def _seeds(seed: int | None, seeds: str | None, scenario: Scenario) -> range:
    if seeds is not None:
        if seed is not None:
            raise InvalidOption("--seeds: not together with --seed")
        return parse_seeds(seeds)
    if seed is not None and seed < 0:
        raise InvalidOption(f"--seed: expected at least 0, got {seed}")
    one = scenario.seed if seed is None else seed
    return range(one, one + 1)


def _plotter(path: Path | None, seeds: int) -> Callable[[SimulationRun], None] | None:
    """Return a function that draws a run; import matplotlib only if it is needed."""
    if path is None:
        return None
    if seeds > 1:
        raise InvalidOption("--plot: expected a single seed")
    if not path.parent.is_dir():
        raise InvalidOption(
            f"--plot: expected a folder that exists, got {str(path.parent)!r}"
        )
    try:
        from headgate.simulation.report.plot import draw
    except ImportError:
        reason = "plots need matplotlib: pip install 'headgate[plot]'"
        raise InvalidOption(f"--plot: {reason}") from None

    def drawer(run: SimulationRun) -> None:
        try:
            draw(run, path)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InvalidOption(
                f"--plot: expected a file that can be written: {reason}"
            ) from None

    return drawer


@contextmanager
def _progress(
    scenario: Scenario, seeds: range
) -> Generator[Callable[[int], Callable[[float], None]] | None]:
    """Show a progress bar on a terminal; yield a factory of progress callbacks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scenario.name, total=scenario.seconds * len(seeds))

        def of_run(place: int) -> Callable[[float], None]:
            def advance(now: float) -> None:
                bar.update(task, completed=place * scenario.seconds + now)

            return advance

        yield of_run
