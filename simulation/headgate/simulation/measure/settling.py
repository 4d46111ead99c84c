"""How long shares take to follow a step of piecewise constant demand."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.max_min import max_min
from headgate.simulation.measure.hierarchy import dues
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.world.arrivals import demand_rate
from headgate.simulation.world.faults import fault_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.world.node import AppliedCeilings
    from headgate.simulation.world.record import SimulationRun

    Floats = NDArray[np.float64]

STEP_S = 0.005
"""Step at which ceilings are examined: a fifth of an agent's tick."""

HEALED_STEP_S = 0.1
"""Shares are averaged over this to decide whether a fault has healed."""

HEALED = 0.15
"""Fraction of the rate by which averaged shares may then differ from max-min."""

TOLERANCE = 0.1
"""Fraction of the rate by which shares may differ from max-min (scenario contract)."""


def settle_seconds(run: SimulationRun, group: int) -> float | None:
    """Return the longest time that shares took to settle after a change of demand.

    If they did not settle before the next change (of demand, of the limit, or a fault
    that begins or ends), the time until then counts.  None if the demand is not a step
    function or never steps.
    """
    scenario = run.scenario
    # In a tree, other groups' demand also changes what is due here.
    groups = range(len(scenario.groups)) if scenario.tree else (group,)
    changes = {t for place in groups for t in scenario.demand_edges(place)}
    if not (scenario.piecewise_constant and changes):
        return None
    breaks = sorted(
        {
            *changes,
            *fault_edges(scenario),
            *(c.at_s for c in scenario.changes if c.group in groups),
            scenario.seconds,
        }
    )
    worst = 0.0
    for start, until in pairwise(breaks):
        if start in changes:
            worst = max(worst, _settle(run, group, start, until))
    return worst


def _demand(run: SimulationRun, group: int, times: Floats) -> Floats:
    """Return ``[agents, times]`` true demand, 0 for processes that are gone."""
    demand = demand_rate(run.scenario, group, times)
    for agent, gaps in enumerate(run.gaps):
        for start, until in gaps:
            demand[agent][(times >= start) & (times < until)] = 0.0
    return demand


def ceiling_at(told: AppliedCeilings, times: Floats) -> Floats:
    """Return the rate that a bucket refills at; past the deadline, the reserve."""
    if not told.at_s:
        return np.zeros(len(times))
    place = np.searchsorted(np.array(told.at_s), times, side="right") - 1
    known = np.maximum(place, 0)
    ceiling = np.array(told.ceiling)[known]
    expired = times > np.array(told.deadline_s)[known]
    rate = np.where(expired, np.array(told.reserve)[known], ceiling)
    effective: Floats = np.where(place >= 0, rate, 0.0)
    return effective


def _settle(run: SimulationRun, group: int, start: float, until: float) -> float:
    outside = np.flatnonzero(_off(run, group, start, until) > TOLERANCE)
    return min(float(outside[-1] + 1) * STEP_S, until - start) if len(outside) else 0.0


def healed_intervals(run: SimulationRun, group: int) -> float | None:
    """Return how long shares took to be right after a fault ended, in T.

    This is the longest of all faults; if shares are not right before the next change
    (of demand, of the limit, or a fault that begins or ends), the time until then
    counts.  Shares are averaged over `HEALED_STEP_S`, because a single look may be off
    by chance.  None if no fault ends before the run does, or if demand is not a step
    function.
    """
    scenario = run.scenario
    ends = {f.until_s for f in scenario.faults if f.start_s < f.until_s}
    ends = {end for end in ends if end < scenario.seconds}
    if not (scenario.piecewise_constant and ends):
        return None
    groups = range(len(scenario.groups)) if scenario.tree else (group,)
    breaks = sorted(
        {
            *fault_edges(scenario),
            *(t for place in groups for t in scenario.demand_edges(place)),
            *(c.at_s for c in scenario.changes if c.group in groups),
            scenario.seconds,
        }
    )
    width = round(HEALED_STEP_S / STEP_S)
    worst = 0.0
    for start, until in pairwise(breaks):
        if start not in ends:
            continue
        off = _off(run, group, start, until)
        means = off[: len(off) // width * width].reshape(-1, width).mean(axis=1)
        outside = np.flatnonzero(means > HEALED)
        if len(outside):
            worst = max(worst, float(outside[-1] + 1) * HEALED_STEP_S)
    return worst / scenario.interval_s


def _off(run: SimulationRun, group: int, start: float, until: float) -> Floats:
    """Return how far shares are from max-min, relative to the rate, each `STEP_S`."""
    scenario = run.scenario
    times = np.arange(start, until, STEP_S)
    middle = np.array([(start + until) / 2])
    every = [_demand(run, place, middle) for place in range(len(scenario.groups))]
    demand = every[group]
    table = RateTable(scenario.limits(group), scenario.seconds)
    rate = table.rate_at(middle)
    due = rate
    if scenario.tree:
        wanted = np.array([one.sum(axis=0) for one in every])
        due = dues(scenario, wanted, middle).part[group]
    fair = max_min(demand, np.array(scenario.weights), due)
    usable = np.array(
        [
            np.minimum(ceiling_at(told, times), demand[agent])
            for agent, told in enumerate(run.ceilings[group])
        ]
    )
    unit = rate[0] if np.isfinite(rate[0]) else demand.sum()
    off: Floats = np.abs(usable - fair).sum(axis=0) / (unit if unit > 0 else 1.0)
    return off
