"""The accuracy page: tables made from the results of runs, and what was missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.simulation.controllers.controller import STRATEGIES
from headgate.simulation.scenario.library import find_scenario, summary
from headgate.simulation.scenario.parsing import read_scenario
from headgate.simulation.scenario.targets import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.simulation.kept_runs import Values
    from headgate.simulation.scenario.targets import Target

OTHERS = STRATEGIES[1:]
"""Strategies that are compared with ours."""

HEALED = 3.0
"""Intervals within which shares should be right again after a fault."""

FIGURES = {
    "total_ratio": "total",
    "error_1s_mean": "error",
    "steady_overshoot_seconds": "over",
    "whole_total_ratio": "total from 0",
    "falsely_refused": "falsely refused",
    "fairness": "fairness",
    "worst_agent": "worst agent",
    "settle_seconds": "settle",
    "swing": "swing",
    "reports_per_agent_second": "reports",
    "delays_kept": "delays kept",
    "healed_intervals": "healed, T",
}
"""Short names of figures, in the order in which they appear."""

HEAD = """# Accuracy

Admitted by all agents together, against one central token bucket of the same rate,
burst and owing rule on the same arrivals. The worst seed counts. The column *from* says
since when *total*, *error*, *over* and the other figures count: from 0 s where a
scenario is about starts, restarts or large requests, from the end of the warm-up where
it is about a steady state. *total* is admitted / central (least to most over the
seeds), *error* the mean difference per second over the rate, *over* the worst excess
over burst + rate × time in seconds of quota.

The next column counts **from time 0** in every row: the total, and the excess in
seconds of quota and, beyond the central bucket's own debt, in the largest cost. What
the excess may be follows from the scenario's file: one request of each agent that was
active within the age of information, and what the rate earns in that age (nothing in a
strict group). The invariant `safety` checks this at every admission.

*healed within 3·T* says how long after the end of a fault shares were right again, in
heartbeats, where a fault ends and demand is steady; *delays kept* is the part of
refusals that told at most twice the central bucket's delay and 0.3 s, from time 0.

The page is made by `make accuracy`; one line is replayed by `headgate simulate
NAME --seeds 1-10`. The scenario files are in
`simulation/headgate/simulation/scenarios/`, why a figure that is missed can't or
could not be reached is in
[accuracy targets and their bounds](notes/accuracy-bounds.md).

"""


@dataclass(frozen=True, slots=True)
class Job:
    """One run.

    Attributes:
        scenario: Name in the library.
        seed: Seed of the run.
        strategy: What sets the ceilings.
    """

    scenario: str
    seed: int
    strategy: str


def page_of(targets: list[Target], results: Mapping[Job, Values]) -> tuple[str, int]:
    """Return the page and how many scenarios miss a figure.

    Args:
        targets: The scenarios; one that was not run yet is left out.
        results: The runs so far, whatever their number.
    """
    lines = [HEAD, _extent(targets, results)]
    lines.append(
        "| scenario | seeds | from | total | error | over | from time 0 "
        "| healed within 3·T | other | held to |\n"
    )
    lines.append("|---" * 10 + "|\n")
    notes: list[str] = []
    missed = 0
    for target in targets:
        runs = _runs(results, target.scenario, "headgate")
        if not runs:
            lines.append(f"| `{target.scenario}` | 0 | | not run | | | | | | |\n")
            continue
        told = list(_wrong(target, runs))
        missed += bool(told)
        notes.extend(told)
        lines.append(_row(target, runs, missed=bool(told)))
    lines.append("\n## Missed\n\n")
    lines.extend(notes or ["Nothing: every seed reached every figure.\n"])
    lines.append("\n")
    lines.extend(_comparison(targets, results))
    return "".join(lines), missed


def _extent(targets: list[Target], results: Mapping[Job, Values]) -> str:
    ours = [len(_runs(results, t.scenario, "headgate")) for t in targets]
    least, most = min(ours, default=0), max(ours, default=0)
    seeds = f"{most}" if least == most else f"{least} to {most}"
    return (
        f"Seeds of each scenario: {seeds}; the column *seeds* says how many. What is "
        "held to is meant for ten: where there are fewer, the rest was not run yet. "
        "The invariants of the design were checked in every run of headgate.\n\n"
    )


def _runs(results: Mapping[Job, Values], scenario: str, strategy: str) -> list[Values]:
    jobs = [j for j in results if j.scenario == scenario and j.strategy == strategy]
    return [results[job] for job in sorted(jobs, key=lambda job: job.seed)]


def _wrong(target: Target, runs: list[Values]) -> Iterator[str]:
    """Describe the missed targets, one line per figure."""
    by_figure: dict[str, list[tuple[object, str]]] = {}
    for run in runs:
        for name, text in target.missed(run).items():
            by_figure.setdefault(name, []).append((run["seed"], text))
    for found in by_figure.values():
        seeds = ", ".join(f"{seed}: {text}" for seed, text in found)
        yield f"- `{target.scenario}` on {len(found)} of {len(runs)} seeds ({seeds})\n"
    for name, (least, most) in target.mostly.items():
        values = _numbers(runs, name)
        inside = sum(least <= value <= most for value in values)
        if inside < 0.9 * len(values):
            yield (
                f"- `{target.scenario}`: {FIGURES[name]} {shown(least, most)} on "
                f"{inside} of {len(values)} seeds, nine of ten expected\n"
            )
    for run in runs:
        broken = run["violations"]
        if broken:
            yield f"- `{target.scenario}`, seed {run['seed']}, broke {broken}\n"


def _row(target: Target, runs: list[Values], *, missed: bool) -> str:
    more = [name for name in target.bounds if name not in list(FIGURES)[:4]]
    others = "; ".join(f"{FIGURES[name]} {_worst(runs, name, target)}" for name in more)
    held = ", ".join(
        f"{FIGURES[name]} {shown(*bounds)}" for name, bounds in target.bounds.items()
    )
    path = find_scenario(target.scenario)
    mark = " **missed**" if missed else ""
    warm_up_s = read_scenario(path).measure_from
    return (
        f"| `{target.scenario}`: {summary(path)}{mark} | {len(runs)} "
        f"| {warm_up_s:g} s | {_span(runs, 'total_ratio')} "
        f"| {_most(runs, 'error_1s_mean', 100)} % "
        f"| {_most(runs, 'steady_overshoot_seconds', 1)} s "
        f"| {_span(runs, 'whole_total_ratio')}, "
        f"{_most(runs, 'overshoot_seconds', 1)} s, "
        f"{_most(runs, 'excess_costs', 1)} costs "
        f"| {_healed(runs)} | {others} | {held} |\n"
    )


def _healed(runs: list[Values]) -> str:
    times = _numbers(runs, "healed_intervals")
    if not times:
        return "–"
    return f"{'yes' if max(times) <= HEALED else '**no**'}, {max(times):.1f} T"


def _comparison(targets: list[Target], results: Mapping[Job, Values]) -> Iterator[str]:
    yield "## Beside other strategies\n\n"
    yield (
        "The same arrivals; *static* is rate / n, *usage-proportional* and *steal* are "
        "PIP-82's, *max-min* shares demand out without a ledger and without urgent "
        "reports. Each cell: total (the seed farthest from 1), error, over, worst "
        "agent, and of how many seeds where not of all in the table above.\n\n"
    )
    yield "| scenario | headgate | " + " | ".join(OTHERS) + " |\n"
    yield "|---" * (2 + len(OTHERS)) + "|\n"
    for target in targets:
        ours = len(_runs(results, target.scenario, "headgate"))
        cells = [
            _cell(_runs(results, target.scenario, strategy), whole=ours)
            for strategy in STRATEGIES
        ]
        yield f"| `{target.scenario}` | " + " | ".join(cells) + " |\n"


def _cell(runs: list[Values], *, whole: int) -> str:
    if not runs:
        return "not run"
    total = max(_numbers(runs, "total_ratio"), key=lambda t: abs(t - 1), default=1.0)
    worst = min(_numbers(runs, "worst_agent"), default=1.0)
    seeds = "" if len(runs) == whole else f" ({len(runs)})"
    return (
        f"{total:.3f}, {_most(runs, 'error_1s_mean', 100)} %, "
        f"{_most(runs, 'steady_overshoot_seconds', 1)} s, {worst:.2f}{seeds}"
    )


def _numbers(runs: list[Values], name: str) -> list[float]:
    numbers = [run[name] for run in runs]
    return [float(number) for number in numbers if isinstance(number, (int, float))]


def _span(runs: list[Values], name: str) -> str:
    totals = _numbers(runs, name)
    return f"{min(totals):.3f}–{max(totals):.3f}" if totals else "–"


def _most(runs: list[Values], name: str, scale: float) -> str:
    return f"{scale * max(_numbers(runs, name), default=0.0):.3g}"


def _worst(runs: list[Values], name: str, target: Target) -> str:
    numbers = _numbers(runs, name)
    if not numbers:
        return "–"
    # Of the two extremes, the one that has a bound matters.
    _, most = target.bounds[name]
    worst = min(numbers) if most == float("inf") else max(numbers)
    return f"{worst:.4g}"
