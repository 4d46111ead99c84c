"""The figures of the result: every field of the scenario contract's table."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.admissions import below, merged, per_second
from headgate.simulation.measure.delays import told_delays
from headgate.simulation.measure.excess import excess_costs
from headgate.simulation.measure.fairness import Fairness, fair_parts
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.measure.settling import healed_intervals, settle_seconds
from headgate.simulation.world.faults import fault_edges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one group, or of all of them together.

    Everything is counted from time 0, except the fields in `STEADY`, which are about a
    steady state and count from `measure_from` on.  None where a figure is undefined.

    Attributes:
        offered: Units of first attempts.
        admitted: Units.
        central: Units of the same arrivals that one central bucket admits.
        total_ratio: admitted / central.
        error_1s_mean: Per whole second, abs(admitted − central) / rate.
        error_1s_max: The same for the worst second.
        overshoot_seconds: See `overshoot_seconds`.
        falsely_refused: max(0, central − admitted) / offered.
        fairness: Jain's index (see `Fairness`).
        worst_agent: The smallest fraction of its due that an agent got.
        settle_seconds: See `settle_seconds`.
        swing: Standard deviation of admitted per second, as a fraction of the rate.
        steady_offered: `offered` without the warm-up, and so on.
        steady_admitted: See there.
        steady_central: See there.
        steady_total_ratio: See there.
        steady_error_1s_mean: See there.
        steady_error_1s_max: See there.
        steady_falsely_refused: See there.
        steady_overshoot_seconds: `overshoot_seconds` of what was admitted after the
            warm-up; its window may begin before.
        excess_costs: How far admissions went below the central bucket's own depth,
            in largest costs, at least 0.
        delays_kept: Fraction of the refusals with a sensible delay.
        healed_intervals: The longest time from the end of a fault until shares were
            right again, in T.
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
    steady_offered: float
    steady_admitted: float
    steady_central: float
    steady_total_ratio: float | None
    steady_error_1s_mean: float
    steady_error_1s_max: float
    steady_falsely_refused: float
    steady_overshoot_seconds: float
    excess_costs: float
    delays_kept: float | None
    healed_intervals: float | None


STEADY = (
    "fairness",
    "worst_agent",
    "swing",
    "steady_offered",
    "steady_admitted",
    "steady_central",
    "steady_total_ratio",
    "steady_error_1s_mean",
    "steady_error_1s_max",
    "steady_falsely_refused",
    "steady_overshoot_seconds",
    "reports_per_agent_second",
    "bytes_per_agent_second",
)
"""Figures that exclude the warm-up: while the bucket is still full, everybody gets more
than a share, and whoever asks first gets more than the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Reports and their bytes, per agent and second from `measure_from` on."""

    reports_per_agent_second: float
    bytes_per_agent_second: float


@dataclass(slots=True)
class _Seconds:
    """Sums over the whole seconds of the run, and over the agents."""

    admitted: Floats
    central: Floats
    rate: Floats


def group_figures(run: SimulationRun, group: int) -> Figures:
    """Return the figures of one group."""
    rates = RateTable(run.scenario.limits(group), run.scenario.seconds)
    seconds = _seconds(run, group, rates)
    overshoots = [_overshoots(run, merged(run.admitted[group]), rates)]
    parts = fair_parts(run, group)
    return _figures(run, (group,), seconds, overshoots, parts)


def total_figures(run: SimulationRun) -> Figures:
    """Return the figures of all groups: sums, and the worst of what can't be summed."""
    groups = tuple(range(len(run.scenario.groups)))
    tables = [RateTable(run.scenario.limits(g), run.scenario.seconds) for g in groups]
    each = [_seconds(run, g, tables[g]) for g in groups]
    roots = [g for g in groups if run.scenario.groups[g].parent is None]
    seconds = _Seconds(
        admitted=np.sum([s.admitted for s in each], axis=0),
        central=np.sum([s.central for s in each], axis=0),
        rate=np.sum([each[g].rate for g in roots], axis=0),
    )
    overshoots = [_overshoots(run, merged(below(run, g)), tables[g]) for g in groups]
    parts = [fair_parts(run, g) for g in groups]
    joined = Fairness(
        admitted=np.concatenate([p.admitted for p in parts]),
        fair=np.concatenate([p.fair for p in parts]),
    )
    return _figures(run, groups, seconds, overshoots, joined)


def traffic(run: SimulationRun) -> Traffic:
    """Return how many reports agents put on the bus, and how long they were."""
    scenario = run.scenario
    start, end = scenario.measure_from, scenario.seconds
    sizes = [p.size for p in run.published if start <= p.at_s < end]
    agent_seconds = scenario.agents * (end - start)
    return Traffic(
        reports_per_agent_second=len(sizes) / agent_seconds,
        bytes_per_agent_second=sum(sizes) / agent_seconds,
    )


def _overshoots(
    run: SimulationRun, admitted: Admissions, rates: RateTable
) -> tuple[float, float]:
    """Return the overshoot (from time 0, without the warm-up)."""
    start = run.scenario.measure_from
    whole = overshoot_seconds(admitted, rates)
    return whole, overshoot_seconds(admitted, rates, start_s=start) if start else whole


def overshoot_seconds(
    admitted: Admissions, rates: RateTable, *, start_s: float = 0.0
) -> float:
    """Return how far below zero a bucket charged with admissions went, seconds.

    The worst, over all windows, of (admitted − burst − ∫rate) / mean rate of the
    window, at least 0.  A window begins where the bucket was last full.

    Args:
        admitted: By all agents together, from time 0.
        rates: The limit in force.
        start_s: Windows that end before this are ignored.
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
    # (spent_k − earned_k) − (spent_i− − earned_i).  The least start so far counts.
    before = spent - np.where(finite, units, 0.0) - earned
    start = np.minimum.accumulate(before)
    first = _place_of_minimum(before)
    counts = finite & (times >= start_s)
    over = np.where(counts, spent - earned - start - burst, -inf)
    worst = int(np.argmax(over))
    if over[worst] <= 0:
        return 0.0
    length = times[worst] - times[first[worst]]
    rate = (earned[worst] - earned[first[worst]]) / length if length > 0 else 0.0
    return float(over[worst] / (rate if rate > 0 else rates.reference))


def _place_of_minimum(values: Floats) -> NDArray[np.int64]:
    """Return, for each place, the place of the least value up to it."""
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
    overshoots: list[tuple[float, float]],
    parts: Fairness,
) -> Figures:
    start = run.scenario.measure_from
    offered, admitted, central = _totals(run, groups, 0.0)
    steady_offered, steady_admitted, steady_central = _totals(run, groups, start)
    error = np.abs(seconds.admitted - seconds.central) / seconds.rate
    steady_error = error[np.arange(len(error)) >= start]
    steady = seconds.admitted / seconds.rate
    steady = steady[_calm_seconds(run, groups)]
    delays = [told_delays(run, g) for g in groups]
    refusals = sum(told.refusals for told in delays)
    return Figures(
        offered=offered,
        admitted=admitted,
        central=central,
        total_ratio=_ratio(admitted, central),
        error_1s_mean=float(error.mean()) if len(error) else 0.0,
        error_1s_max=float(error.max()) if len(error) else 0.0,
        overshoot_seconds=max(whole for whole, _ in overshoots),
        falsely_refused=_falsely_refused(offered, admitted, central),
        fairness=parts.jain(),
        worst_agent=parts.worst(),
        settle_seconds=_longest(settle_seconds(run, g) for g in groups),
        swing=float(steady.std()) if len(steady) else 0.0,
        steady_offered=steady_offered,
        steady_admitted=steady_admitted,
        steady_central=steady_central,
        steady_total_ratio=_ratio(steady_admitted, steady_central),
        steady_error_1s_mean=float(steady_error.mean()) if len(steady_error) else 0.0,
        steady_error_1s_max=float(steady_error.max()) if len(steady_error) else 0.0,
        steady_falsely_refused=_falsely_refused(
            steady_offered, steady_admitted, steady_central
        ),
        steady_overshoot_seconds=max(steady for _, steady in overshoots),
        excess_costs=max(excess_costs(run, g) for g in groups),
        delays_kept=_ratio(sum(told.kept for told in delays), refusals),
        healed_intervals=_longest(healed_intervals(run, g) for g in groups),
    )


def _totals(
    run: SimulationRun, groups: tuple[int, ...], start: float
) -> tuple[float, float, float]:
    """Return the units offered, admitted, and due by the yardstick, from a time on."""
    arrivals = [each for g in groups for each in run.arrivals[g]]
    offered = sum(float(each.cost[each.time_s >= start].sum()) for each in arrivals)
    admitted = [admissions for g in groups for admissions in run.admitted[g]]
    central = [run.central[g] for g in groups]
    got, due = (
        sum(float(units[times >= start].sum()) for times, units in parts)
        for parts in (admitted, central)
    )
    return offered, got, due


def _falsely_refused(offered: float, admitted: float, central: float) -> float:
    return max(0.0, central - admitted) / offered if offered else 0.0


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _longest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


def _seconds(run: SimulationRun, group: int, rates: RateTable) -> _Seconds:
    span = (0, int(run.scenario.seconds))
    rate = rates.per_second(span)
    # A second without a limit, or with a rate of 0, has no rate to divide by.
    rate = np.where(np.isfinite(rate) & (rate > 0), rate, rates.reference)
    return _Seconds(
        admitted=per_second(merged(run.admitted[group]), span),
        central=per_second(run.central[group], span),
        rate=rate,
    )


def _calm_seconds(run: SimulationRun, groups: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which whole seconds are past the warm-up and without any change."""
    end = int(run.scenario.seconds)
    calm = np.arange(end) >= run.scenario.measure_from
    edges = [*fault_edges(run.scenario), *(c.at_s for c in run.scenario.changes)]
    for group in groups:
        edges.extend(run.scenario.demand_edges(group))
    for edge in edges:
        if 0 <= int(edge) < end:
            calm[int(edge)] = False
        # A change at a full second belongs to the second that begins there.
    return calm
