"""Writes the accuracy page: `python -m headgate.simulation.accuracy`.

Every scenario with a target, ten seeds each, the worst seed counts; the other
strategies stand beside it on the same arrivals.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.simulation.brain import STRATEGIES, Strategy
from headgate.simulation.command import Refused, parse_seeds
from headgate.simulation.library import find_scenario, summary
from headgate.simulation.parsing import read_scenario
from headgate.simulation.simulate import Result, simulate
from headgate.simulation.targets import TARGETS, Target, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OTHERS = STRATEGIES[1:]
"""Strategies that stand beside ours."""

FIGURES = {
    "total_ratio": "total",
    "error_1s_mean": "error",
    "overshoot_seconds": "over",
    "falsely_refused": "falsely refused",
    "fairness": "fairness",
    "worst_agent": "worst agent",
    "settle_seconds": "settle",
    "swing": "swing",
    "reports_per_agent_second": "reports",
}
"""Short names of figures, in the order in which they are told."""

HEAD = """# Accuracy

Admitted by all agents together, against one central token bucket of the same rate,
burst and owing rule on the same arrivals. {seeds} seeds each; the worst seed counts.
*total* is admitted / central (least to most over the seeds), *error* the mean
difference per second over the rate, *over* the worst excess over burst + rate × time
in seconds of quota. The page is made by `make accuracy`; one line is replayed by
`headgate simulate NAME --seeds {seeds_range}`. The scenario files are in
`simulation/headgate/simulation/scenarios/`.

"""


@dataclass(frozen=True, slots=True)
class Job:
    """One run.

    Attributes:
        scenario: Name in the library.
        seed: Of the run.
        strategy: Who decides.
    """

    scenario: str
    seed: int
    strategy: Strategy


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and write the page; return the exit status.

    The status is 1 when a target was missed or an invariant broke.
    """
    parser = argparse.ArgumentParser(prog="python -m headgate.simulation.accuracy")
    parser.add_argument("--seeds", default="1-10", help="A-B, 1-10 by default")
    parser.add_argument("--only", nargs="*", default=[], help="names of scenarios")
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    try:
        seeds = parse_seeds(options.seeds)
    except Refused as error:
        parser.error(str(error))
    targets = [t for t in TARGETS if not options.only or t.scenario in options.only]
    results = _run(targets, seeds, jobs=options.jobs)
    page, missed = _page(targets, results, seeds)
    options.out.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{options.out}: {len(targets)} scenarios, {missed} missed\n")
    return 1 if missed else 0


def run_job(job: Job) -> Result:
    """Run one job; importable, so that other processes can."""
    scenario = read_scenario(find_scenario(job.scenario))
    result, _ = simulate(scenario, seed=job.seed, strategy=job.strategy)
    return result


def _run(targets: list[Target], seeds: range, *, jobs: int) -> dict[Job, Result]:
    wanted = [
        Job(target.scenario, seed, strategy)
        for target in targets
        for strategy in STRATEGIES
        for seed in seeds
    ]
    results: dict[Job, Result] = {}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for number, (job, result) in enumerate(
            zip(wanted, pool.map(run_job, wanted), strict=True), start=1
        ):
            results[job] = result
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {len(wanted)} runs")
    return results


def _page(
    targets: list[Target], results: dict[Job, Result], seeds: range
) -> tuple[str, int]:
    """Return the page and how many scenarios miss their target."""
    span = f"{seeds[0]}-{seeds[-1]}"
    lines = [HEAD.format(seeds=len(seeds), seeds_range=span)]
    lines.append("| scenario | total | error | over | other | held to |\n")
    lines.append("|---|---|---|---|---|---|\n")
    notes: list[str] = []
    missed = 0
    for target in targets:
        runs = [results[Job(target.scenario, seed, "headgate")] for seed in seeds]
        told = [
            f"- {target.scenario}, seed {run.seed}: {text}\n"
            for run in runs
            for text in _wrong(target, run)
        ]
        missed += bool(told)
        notes.extend(told)
        lines.append(_row(target, runs, missed=bool(told)))
    lines.append("\n")
    if notes:
        lines.extend(["## Missed\n\n", *notes, "\n"])
    lines.extend(_comparison(targets, results, seeds))
    return "".join(lines), missed


def _wrong(target: Target, run: Result) -> Iterator[str]:
    yield from target.missed(run)
    for violation in run.violations:
        yield f"{violation.name} broken at {violation.time:.1f} s: {violation.detail}"


def _row(target: Target, runs: list[Result], *, missed: bool) -> str:
    values = [run.as_json() for run in runs]
    more = [name for name in target.bounds if name not in list(FIGURES)[:3]]
    others = "; ".join(
        f"{FIGURES[name]} {_worst(values, name, target)}" for name in more
    )
    held = ", ".join(
        f"{FIGURES[name]} {shown(*bounds)}"
        for name, bounds in target.bounds.items()
        if name != "overshoot_seconds"
    )
    path = find_scenario(target.scenario)
    mark = " **missed**" if missed else ""
    return (
        f"| `{target.scenario}`: {summary(path)}{mark} | {_span(values)} "
        f"| {_most(values, 'error_1s_mean', 100)} % "
        f"| {_most(values, 'overshoot_seconds', 1)} s | {others} | {held} |\n"
    )


def _comparison(
    targets: list[Target], results: dict[Job, Result], seeds: range
) -> Iterator[str]:
    yield "## Beside other strategies\n\n"
    yield (
        "The same arrivals; *static* is rate / n, *usage-proportional* and *steal* are "
        "PIP-82's, *max-min* shares demand out without a ledger and without urgent "
        "reports. Each cell: total (the seed farthest from 1), error, over, worst "
        "agent.\n\n"
    )
    yield "| scenario | headgate | " + " | ".join(OTHERS) + " |\n"
    yield "|---" * (2 + len(OTHERS)) + "|\n"
    for target in targets:
        cells: list[str] = []
        for strategy in STRATEGIES:
            values = [
                results[Job(target.scenario, seed, strategy)].as_json()
                for seed in seeds
            ]
            cells.append(_cell(values))
        yield f"| `{target.scenario}` | " + " | ".join(cells) + " |\n"


def _cell(values: list[dict[str, object]]) -> str:
    totals = _numbers(values, "total_ratio")
    total = max(totals, key=lambda t: abs(t - 1), default=1.0)
    worst = min(_numbers(values, "worst_agent"), default=1.0)
    return (
        f"{total:.3f}, {_most(values, 'error_1s_mean', 100)} %, "
        f"{_most(values, 'overshoot_seconds', 1)} s, {worst:.2f}"
    )


def _numbers(values: list[dict[str, object]], name: str) -> list[float]:
    numbers = [value[name] for value in values]
    return [number for number in numbers if isinstance(number, float)]


def _span(values: list[dict[str, object]]) -> str:
    totals = _numbers(values, "total_ratio")
    return f"{min(totals):.3f}–{max(totals):.3f}" if totals else "–"


def _most(values: list[dict[str, object]], name: str, scale: float) -> str:
    return f"{scale * max(_numbers(values, name), default=0.0):.3g}"


def _worst(values: list[dict[str, object]], name: str, target: Target) -> str:
    numbers = _numbers(values, name)
    if not numbers:
        return "–"
    least, most = target.bounds[name]
    # The side that is bounded is the side that matters.
    worst = min(numbers) if most == float("inf") else max(numbers)
    del least
    return f"{worst:.4g}"


if __name__ == "__main__":
    sys.exit(main())
