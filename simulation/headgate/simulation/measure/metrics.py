"""The figures of the result: every field of the scenario contract's table."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.fairness import Fairness, fair_parts
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.measure.settling import settle_seconds
from headgate.simulation.world.faults import fault_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one group, or all of them together, came to.

    Units are counted from `measure_from` on.  See the contract for each field;
    None where a figure is undefined.
    """

    offered: float
    admitted: float
    central: float
    total_ratio: float | None
    error_1s_mean: float
    error_1s_max: float
    overshoot_seconds: float
    falsely_refused: float
    fairness: float | None
    worst_agent: float | None
    settle_seconds: float | None
    swing: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the reports came to, per agent and second from `measure_from` on."""

    reports_per_agent_second: float
    bytes_per_agent_second: float


@dataclass(slots=True)
class _Seconds:
    """Sums over the whole seconds from `measure_from` on, and over the agents."""

    admitted: Floats
    central: Floats
    rate: Floats


def group_figures(run: SimulationRun, group: int) -> Figures:
    """Return the figures of one group."""
    rates = RateTable(run.scenario.limits(group), run.scenario.seconds)
    seconds = _seconds(run, group, rates)
    overshoot = overshoot_seconds(merged(run.admitted[group]), rates)
    parts = fair_parts(run, group)
    settle = settle_seconds(run, group)
    return _figures(run, (group,), seconds, (overshoot,), parts, (settle,))


def total_figures(run: SimulationRun) -> Figures:
    """Return the figures of all groups: sums, and the worst of what isn't one."""
    groups = tuple(range(len(run.scenario.groups)))
    tables = [RateTable(run.scenario.limits(g), run.scenario.seconds) for g in groups]
    each = [_seconds(run, g, tables[g]) for g in groups]
    roots = [g for g in groups if run.scenario.groups[g].parent is None]
    seconds = _Seconds(
        admitted=np.sum([s.admitted for s in each], axis=0),
        central=np.sum([s.central for s in each], axis=0),
        rate=np.sum([each[g].rate for g in roots], axis=0),
    )
    overshoots = tuple(
        overshoot_seconds(merged(below(run, g)), tables[g]) for g in groups
    )
    parts = [fair_parts(run, g) for g in groups]
    joined = Fairness(
        admitted=np.concatenate([p.admitted for p in parts]),
        fair=np.concatenate([p.fair for p in parts]),
    )
    settles = tuple(settle_seconds(run, g) for g in groups)
    return _figures(run, groups, seconds, overshoots, joined, settles)


def traffic(run: SimulationRun) -> Traffic:
    """Return how many reports, and how long ones, agents put on the bus."""
    scenario = run.scenario
    start, end = scenario.measure_from, scenario.seconds
    sizes = [p.size for p in run.published if start <= p.at_s < end]
    agent_seconds = scenario.agents * (end - start)
    return Traffic(
        reports_per_agent_second=len(sizes) / agent_seconds,
        bytes_per_agent_second=sum(sizes) / agent_seconds,
    )


def overshoot_seconds(admitted: Admissions, rates: RateTable) -> float:
    """Return the depth below zero of a bucket fed with what was admitted, seconds.

    The worst, over all windows, of (admitted − burst − ∫rate) / mean rate of the
    window, at least 0.  A window begins where the bucket was last full.
    """
    times, units = admitted
    if not len(times):
        return 0.0
    earned = rates.integral(times)
    burst = rates.burst_at(times)
    finite = np.isfinite(burst)
    if not finite.any():
        return 0.0
    spent = np.cumsum(np.where(finite, units, 0.0))
    # Over a window from just before admission i to just after admission k:
    # (spent_k − earned_k) − (spent_i− − earned_i).  Its least start so far rules.
    before = spent - np.where(finite, units, 0.0) - earned
    start = np.minimum.accumulate(before)
    first = _place_of_minimum(before)
    over = np.where(finite, spent - earned - start - burst, -inf)
    worst = int(np.argmax(over))
    if over[worst] <= 0:
        return 0.0
    length = times[worst] - times[first[worst]]
    rate = (earned[worst] - earned[first[worst]]) / length if length > 0 else 0.0
    return float(over[worst] / (rate if rate > 0 else rates.reference))


def _place_of_minimum(values: Floats) -> NDArray[np.int64]:
    """Return, for each place, where the least value up to it stands."""
    least = np.minimum.accumulate(values)
    fresh = np.r_[True, least[1:] < least[:-1]]
    places: NDArray[np.int64] = np.maximum.accumulate(
        np.where(fresh, np.arange(len(values)), 0)
    )
    return places


def _figures(
    run: SimulationRun,
    groups: tuple[int, ...],
    seconds: _Seconds,
    overshoots: tuple[float, ...],
    parts: Fairness,
    settles: tuple[float | None, ...],
) -> Figures:
    start = run.scenario.measure_from
    offered = sum(
        float(a.cost[a.time_s >= start].sum()) for g in groups for a in run.arrivals[g]
    )
    admitted = sum(
        float(units[times >= start].sum())
        for g in groups
        for times, units in run.admitted[g]
    )
    central = sum(
        float(run.central[g][1][run.central[g][0] >= start].sum()) for g in groups
    )
    error = np.abs(seconds.admitted - seconds.central) / seconds.rate
    steady = seconds.admitted / seconds.rate
    steady = steady[_calm_seconds(run, groups)]
    settled = [s for s in settles if s is not None]
    return Figures(
        offered=offered,
        admitted=admitted,
        central=central,
        total_ratio=admitted / central if central > 0 else None,
        error_1s_mean=float(error.mean()) if len(error) else 0.0,
        error_1s_max=float(error.max()) if len(error) else 0.0,
        overshoot_seconds=max(overshoots, default=0.0),
        falsely_refused=max(0.0, central - admitted) / offered if offered else 0.0,
        fairness=parts.jain(),
        worst_agent=parts.worst(),
        settle_seconds=max(settled) if settled else None,
        swing=float(steady.std()) if len(steady) else 0.0,
    )


def whole_seconds(run: SimulationRun) -> tuple[int, int]:
    """Return the first and the end of the whole seconds that are measured."""
    first = int(np.ceil(run.scenario.measure_from))
    return first, max(first, int(run.scenario.seconds))


def per_second(admitted: Admissions, seconds: tuple[int, int]) -> Floats:
    """Return the units admitted in each whole second."""
    times, units = admitted
    first, end = seconds
    inside = (times >= first) & (times < end)
    places = (times[inside] - first).astype(np.int64)
    sums = np.bincount(places, weights=units[inside], minlength=end - first)
    return sums.astype(np.float64)


def _seconds(run: SimulationRun, group: int, rates: RateTable) -> _Seconds:
    span = whole_seconds(run)
    rate = rates.per_second(span)
    # A second without any limit, or of a closed one, has no rate to divide by.
    rate = np.where(np.isfinite(rate) & (rate > 0), rate, rates.reference)
    return _Seconds(
        admitted=per_second(merged(run.admitted[group]), span),
        central=per_second(run.central[group], span),
        rate=rate,
    )


def _calm_seconds(run: SimulationRun, groups: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which of the measured seconds are without a change of any kind."""
    first, end = whole_seconds(run)
    calm = np.ones(end - first, dtype=np.bool_)
    edges = [*fault_edges(run.scenario), *(c.at_s for c in run.scenario.changes)]
    for group in groups:
        edges.extend(run.scenario.demand_edges(group))
    for edge in edges:
        place = int(edge) - first
        if 0 <= place < len(calm):
            calm[place] = False
        # A change at a full second belongs to the second that it begins.
    return calm


def below(run: SimulationRun, group: int) -> list[Admissions]:
    """Return what was admitted in a group and in all that are part of it, in parts."""
    spec = run.scenario.groups[group]
    admitted = list(run.admitted[group])
    for place, other in enumerate(run.scenario.groups):
        if other.parent == spec.name:
            admitted.extend(below(run, place))
    return admitted


def merged(parts: list[Admissions]) -> Admissions:
    """Return what several admitted, in order of time."""
    times = np.concatenate([times for times, _ in parts])
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([units for _, units in parts])[order]
