"""Plots a run: offered and admitted load, the agents' parts, and the faults."""

# matplotlib's stubs leave **kwargs without a type:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from headgate.simulation.measure.admissions import merged, per_second
from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from headgate.simulation.world.record import SimulationRun

    Floats = NDArray[np.float64]

MOST_BANDS = 12
"""Agents with a band of their own; all others share one."""

COLOURS = {"offered": "#b8b8b8", "central": "#d08a1d", "admitted": "#1f5f99"}
"""Distinguishable in greyscale and by the colour-blind."""


def draw(run: SimulationRun, path: Path) -> None:
    """Write the picture of a run.

    Raises:
        OSError: If the file can't be written.
        ValueError: If its suffix is not a format that can be drawn.
    """
    figure = Figure(figsize=(11, 9), layout="constrained")
    rates, parts, error = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.4))
    _draw_rates(rates, run)
    _draw_parts(parts, run)
    _draw_error(error, run)
    _shade(run, (rates, parts, error))
    scenario = run.scenario
    figure.suptitle(
        f"{scenario.name}: {scenario.agents} agents, {run.strategy}, seed {run.seed}"
    )
    # Without a version or date, so that the same run makes the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _sums(run: SimulationRun) -> dict[str, Floats]:
    """Return units per second of all groups together."""
    span = (0, max(1, int(run.scenario.seconds)))
    groups = range(len(run.scenario.groups))
    offered = [
        per_second((a.time_s, a.cost), span) for g in groups for a in run.arrivals[g]
    ]
    admitted = [per_second(merged(run.admitted[g]), span) for g in groups]
    central = [per_second(run.central[g], span) for g in groups]
    return {
        "offered": np.sum(offered, axis=0),
        "central": np.sum(central, axis=0),
        "admitted": np.sum(admitted, axis=0),
    }


def _limit(run: SimulationRun) -> Floats:
    span = (0, max(1, int(run.scenario.seconds)))
    tables = [
        RateTable(run.scenario.limits(place), run.scenario.seconds).per_second(span)
        for place, spec in enumerate(run.scenario.groups)
        if spec.parent is None
    ]
    limit: Floats = np.sum(tables, axis=0)
    return np.where(np.isfinite(limit), limit, np.nan)


def _draw_rates(axes: Axes, run: SimulationRun) -> None:
    sums = _sums(run)
    middle = np.arange(len(sums["offered"])) + 0.5
    axes.fill_between(
        middle, sums["offered"], color=COLOURS["offered"], alpha=0.5, label="offered"
    )
    axes.plot(
        middle,
        sums["central"],
        color=COLOURS["central"],
        linewidth=4,
        alpha=0.6,
        label="one central bucket would admit",
    )
    axes.plot(middle, sums["admitted"], color=COLOURS["admitted"], label="admitted")
    axes.plot(middle, _limit(run), color="black", linestyle=":", label="limit")
    axes.set_ylabel("units per second")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right", fontsize="small", ncols=4)


def _draw_parts(axes: Axes, run: SimulationRun) -> None:
    scenario = run.scenario
    span = (0, max(1, int(scenario.seconds)))
    bands: Floats = np.array(
        [
            np.sum(
                [
                    per_second(run.admitted[g][agent], span)
                    for g in range(len(scenario.groups))
                ],
                axis=0,
            )
            for agent in range(scenario.agents)
        ]
    )
    labels = [f"agent {agent}" for agent in range(scenario.agents)]
    if len(bands) > MOST_BANDS:
        largest = np.argsort(-bands.sum(axis=1), kind="stable")
        named: list[int] = sorted(largest[: MOST_BANDS - 1].tolist())
        rest = largest[MOST_BANDS - 1 :]
        labels = [*(f"agent {agent}" for agent in named), f"{len(rest)} others"]
        bands = np.vstack([bands[named], bands[rest].sum(axis=0)])
    axes.stackplot(np.arange(span[1]) + 0.5, bands, labels=labels)
    axes.set_ylabel("admitted by each agent")
    axes.legend(loc="upper right", fontsize="x-small", ncols=4)


def _draw_error(axes: Axes, run: SimulationRun) -> None:
    sums = _sums(run)
    rate = _limit(run)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = 100 * (sums["admitted"] - sums["central"]) / rate
    error = np.where(np.isfinite(error), error, 0.0)
    axes.bar(np.arange(len(error)) + 0.5, error, color=COLOURS["admitted"], width=0.9)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel("over or under\ncentral, % of rate")
    axes.set_xlabel("seconds")
    axes.set_xlim(0, run.scenario.seconds)


def _shade(run: SimulationRun, all_axes: tuple[Axes, ...]) -> None:
    for number, fault in enumerate(run.scenario.faults):
        for axes in all_axes:
            axes.axvspan(fault.start_s, fault.until_s, color="#c23b22", alpha=0.10)
        whom = ",".join(map(str, fault.agents[:6]))
        whom += "…" if len(fault.agents) > 6 else ""
        all_axes[0].annotate(
            f" {fault.kind} {whom}",
            (fault.start_s, 1.0 - 0.05 * (number % 6)),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize="small",
            color="#8c2a18",
        )
    for change in run.scenario.changes:
        for axes in all_axes:
            axes.axvline(change.at_s, color="black", linewidth=0.8, linestyle="--")
    if run.scenario.measure_from > 0:
        for axes in all_axes:
            axes.axvspan(0, run.scenario.measure_from, color="grey", alpha=0.12)
