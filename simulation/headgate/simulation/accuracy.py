"""Writes the accuracy page: `python -m headgate.simulation.accuracy`.

Every scenario with a target is run with ten seeds, and the worst one counts; the other
strategies are run on the same arrivals.  This takes hours.  So several processes share
the work, all scenarios are run with the first seed before any is run with the second,
and `--keep` writes each result to a file, from which a later call continues.  The page
says how many seeds it is based on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.simulation.command import InvalidOption, parse_seeds
from headgate.simulation.controllers.controller import STRATEGIES, Strategy
from headgate.simulation.kept_runs import (
    Values,
    add_options,
    read_kept,
    run_missing,
)
from headgate.simulation.report.accuracy_page import Job, page_of
from headgate.simulation.scenario.library import find_scenario
from headgate.simulation.scenario.parsing import read_scenario
from headgate.simulation.scenario.targets import BY_NAME, TARGETS, Target
from headgate.simulation.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

Results = dict[Job, Values]
"""The result of each run: the object that `headgate simulate --json` prints."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and write the page; return the exit status.

    The status is 1 when a target was missed or an invariant broke.
    """
    options = _parser().parse_args(arguments)
    try:
        seeds = parse_seeds(options.seeds)
        others = parse_seeds(options.others or options.seeds, "--others")
    except InvalidOption as error:
        _parser().error(str(error))
    targets = [t for t in TARGETS if not options.only or t.scenario in options.only]
    wanted = jobs_of(targets, seeds, others)
    results = read_results(options.keep)
    missing = [job for job in wanted if job not in results]
    results |= run_missing(
        missing,
        run_job,
        workers=options.workers,
        keep=options.keep,
        minutes=options.minutes,
    )
    results = {job: results[job] for job in wanted if job in results}
    page, missed = page_of(targets, results)
    options.out.write_text(page, encoding="utf-8")
    told = f"{len(results)} of {len(wanted)} runs, {missed} scenarios missed a figure"
    sys.stdout.write(f"{options.out}: {told}\n")
    return 1 if missed else 0


def jobs_of(targets: list[Target], seeds: range, others: range) -> list[Job]:
    """Return the runs, the first seed of each scenario first.

    Args:
        targets: The scenarios.
        seeds: Of headgate.
        others: The same for the other strategies.
    """
    jobs = [
        Job(target.scenario, seed, strategy)
        for target in targets
        for strategy in STRATEGIES
        for seed in (seeds if strategy == "headgate" else others)
    ]
    place = {target.scenario: i for i, target in enumerate(targets)}
    ours = "headgate"
    return sorted(
        jobs, key=lambda job: (job.seed, job.strategy != ours, place[job.scenario])
    )


def read_results(keep: Path | None) -> Results:
    """Return the results of an earlier call; a line that was cut off is skipped."""
    return {
        Job(
            str(values["scenario"]), int(str(values["seed"])), str(values["strategy"])
        ): values
        for values in read_kept(keep)
    }


def run_job(job: Job) -> Values:
    """Run one job; importable, so that other processes can run it."""
    scenario = read_scenario(find_scenario(job.scenario))
    strategies: dict[str, Strategy] = {known: known for known in STRATEGIES}
    result, _ = simulate(scenario, seed=job.seed, strategy=strategies[job.strategy])
    return result.as_json()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headgate.simulation.accuracy")
    parser.add_argument("--seeds", default="1-10", help="A-B, 1-10 by default")
    parser.add_argument("--others", help="seeds of other strategies; as --seeds")
    parser.add_argument(
        "--only", nargs="*", default=[], choices=[*BY_NAME], metavar="SCENARIO"
    )
    add_options(parser, out=Path("docs/accuracy.md"), keep=None)
    return parser


if __name__ == "__main__":
    sys.exit(main())
