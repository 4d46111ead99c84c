"""Calm spans of a scenario and the age of information, which the bounds are based on.

Everything here follows from the scenario alone, not from the behaviour of the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf, log
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.controllers.controller import settings_of
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.world.arrivals import demand_rate
from headgate.simulation.world.faults import DOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Fault, Scenario
    from headgate.simulation.world.record import SimulationRun

    Floats = NDArray[np.float64]

GRID_S = 0.05
"""Sampling step for demand that is not a step function."""

TICKS_S = 0.25
"""Ten ticks: to count, compute and apply at both ends."""

MISSED = 1e-4
"""A lease is long enough that so many misses in a row are rarer than this."""

LEASE_MOST = 9.0
"""Intervals of the longest lease."""

RECOVERY_INTERVALS = 5.0
"""After a fault, reports are heard again within T; shares then need a few more."""

RECOVERY_S = 2.0
"""Ramp that does not depend on T: demand averages over a second, H is a second."""

SHORTEST_S = 3.0
"""In a calm span shorter than this, the noise of arrivals hides everything else."""


@dataclass(frozen=True, slots=True)
class CalmSpan:
    """A stretch of time in which only chance makes a difference.

    Attributes:
        start_s: After the ramp.
        end_s: When the next change begins.
        rate: Q, units/s.
        burst: B, units.
        demand: Least true demand of all agents, units/s.
        most: Largest true demand of all agents, units/s.
    """

    start_s: float
    end_s: float
    rate: float
    burst: float
    demand: float
    most: float


def lease_s(scenario: Scenario) -> float:
    """Return how long an agent must be silent before others may count it as silent."""
    loss = scenario.network.loss
    intervals = log(MISSED) / log(loss) if 0 < loss < 1 else 0.0
    return scenario.interval_s * min(max(intervals, 3.0), LEASE_MOST)


def age_s(scenario: Scenario) -> float:
    """Return how old information gets without a fault."""
    network = scenario.network
    late = network.delay_s + network.jitter_s
    if network.reorder > 0:
        late += 2 * scenario.interval_s
    heartbeat = lease_s(scenario) if network.loss > 0 else scenario.interval_s
    return late + heartbeat + TICKS_S


def presumed_dead_s(scenario: Scenario) -> float:
    """Return M."""
    return settings_of(scenario, 0).presumed_dead_s


def recovery_s(scenario: Scenario) -> float:
    """Return how long after a fault it may take until all invariants hold again."""
    network = scenario.network
    late = network.delay_s + network.jitter_s
    loss = 1.0 if network.loss >= 1 else 1.0 / (1.0 - network.loss)
    return RECOVERY_INTERVALS * scenario.interval_s * loss + RECOVERY_S + 8 * late


def disturbed(scenario: Scenario) -> list[tuple[float, float]]:
    """Return the spans that a fault may disturb."""
    recovery = recovery_s(scenario)
    spans: list[tuple[float, float]] = []
    for fault in scenario.faults:
        if fault.until_s > fault.start_s:
            spans.append((fault.start_s, fault.until_s + recovery))
        if fault.kind == "corrupt":
            # A flipped byte may make up a name, and a part is held back for it.
            gone_s = fault.until_s + presumed_dead_s(scenario) + recovery
            spans.append((fault.start_s, gone_s))
        if fault.kind in (*DOWN, "partition", "cut"):
            # What the others hold back for a silent agent is idle until they drop it.
            gone_s = fault.start_s + presumed_dead_s(scenario) + recovery
            if fault.until_s >= min(gone_s, scenario.seconds):
                spans.append((fault.start_s, gone_s))
    return spans


def last_fault_s(scenario: Scenario) -> float:
    """Return when the last fault ends; infinite without faults."""
    return max((fault.until_s for fault in scenario.faults), default=inf)


def unbilled_s(scenario: Scenario, fault: Fault) -> float:
    """Return how long agents may spend what others have taken over, seconds of Q.

    Until a lease is over, both sides go on as before; time apart is not billed, so
    this excess is never paid back.
    """
    lasted = fault.until_s - fault.start_s
    if lasted <= 0:
        return 0.0
    age = age_s(scenario)
    longest = LEASE_MOST * scenario.interval_s + age
    if fault.kind == "delay":
        return min(lasted, longest) + fault.amount + age
    apart = fault.kind in ("partition", "cut", "loss", "corrupt")
    past = max(0.0, lasted - presumed_dead_s(scenario)) if apart else 0.0
    return min(lasted, longest) + age + past


def calm_spans(
    run: SimulationRun, group: int, *, with_start: bool = False
) -> list[CalmSpan]:
    """Return the spans of one group without a change, excluding ramps.

    Args:
        run: Of any system.
        group: Name of the group.
        with_start: Let the first span begin at time 0: a full bucket needs no ramp
            to be spent.
    """
    scenario = run.scenario
    holes = disturbed(scenario)
    if not with_start:
        holes.append((0.0, recovery_s(scenario)))
    table = RateTable(scenario.limits(group), scenario.seconds)
    edges = {0.0, scenario.seconds, *scenario.demand_edges(group)}
    edges.update(c.at_s for c in scenario.changes)
    ramp = 1.0 + age_s(scenario)
    spans: list[CalmSpan] = []
    for start, end in pairwise(sorted(edges)):
        first = 0.0 if with_start and start == 0.0 else start + ramp
        for free_start, free_end in _minus((first, end), holes):
            if free_end - free_start < SHORTEST_S:
                continue
            at = np.array([free_start])
            grid = np.arange(free_start, free_end, GRID_S)
            total = true_demand(run, group, grid).sum(axis=0)
            spans.append(
                CalmSpan(
                    start_s=free_start,
                    end_s=free_end,
                    rate=float(table.rate_at(at)[0]),
                    burst=float(table.burst_at(at)[0]),
                    demand=float(total.min()),
                    most=float(total.max()),
                )
            )
    return spans


def true_demand(run: SimulationRun, group: int, times: Floats) -> Floats:
    """Return ``[agents, times]`` units/s that live agents' callers attempt."""
    demand = demand_rate(run.scenario, group, times)
    for agent, gaps in enumerate(run.gaps):
        for start, until in gaps:
            demand[agent][(times >= start) & (times < until)] = 0.0
    return demand


def largest_cost(scenario: Scenario, group: int) -> float:
    """Return the largest cost of a request, units; 1 without demand."""
    return max((d.cost for d in scenario.demands if d.group == group), default=1.0)


def stands_alone(scenario: Scenario, group: int) -> bool:
    """Return whether a group is in no tree, so that only its own limit binds."""
    spec = scenario.groups[group]
    children = any(other.parent == spec.name for other in scenario.groups)
    return spec.parent is None and not children


def _minus(
    span: tuple[float, float], holes: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    parts = [span]
    for hole_start, hole_end in holes:
        rest: list[tuple[float, float]] = []
        for start, end in parts:
            if hole_end <= start or hole_start >= end:
                rest.append((start, end))
                continue
            rest.extend(
                (a, b) for a, b in ((start, hole_start), (hole_end, end)) if b > a
            )
        parts = rest
    return parts
