"""Safety: not too much is admitted, over any window."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.invariants.spans import (
    LEASE_MOST,
    TICKS_S,
    largest_cost,
    presumed_dead_s,
    unbilled_s,
)
from headgate.simulation.measure.admissions import below, merged
from headgate.simulation.measure.excess import (
    depths,
    in_flight,
    information_age_s,
    over_explained,
)
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]

ROUNDING = 1e-6
"""Fraction of the rate: the rounding error of a sum of a million floats."""


def check_safety(run: SimulationRun) -> Iterator[Violation]:
    """Yield where a group admitted more than the age of its information explains."""
    for group, spec in enumerate(run.scenario.groups):
        table = RateTable(run.scenario.limits(group), run.scenario.seconds)
        if spec.mode == "strict":
            admitted = merged(below(run, group))
            times, over = admitted[0], depths(admitted, table)
            allowed = np.zeros(len(times))
        else:
            times, over, allowed = over_explained(
                run, group, unknown_s=_unknown_s(run.scenario)
            )
        if not len(times):
            continue
        allowed += _allowed(run, group, table, times)
        worst = int(np.argmax(over - allowed))
        if over[worst] > allowed[worst]:
            yield Violation(
                float(times[worst]),
                "safety",
                f"group {spec.name}: {over[worst]:.1f} units over Q·W + B"
                f"{'' if spec.mode == 'strict' else ' and the central debt'}, "
                f"at most {allowed[worst]:.1f} expected ({spec.mode})",
            )


def check_changes(run: SimulationRun) -> Iterator[Violation]:
    """Yield where admissions did not follow a changed limit."""
    scenario = run.scenario
    late = scenario.network.delay_s + scenario.network.jitter_s + TICKS_S
    for group in range(len(scenario.groups)):
        limits = scenario.limits(group)
        ends = [*(start for start, _, _ in limits[1:]), scenario.seconds]
        admitted = merged(run.admitted[group])
        previous = inf
        for (start, rate, burst), end in zip(limits, ends, strict=True):
            # The start is not a change; later, the news takes some time to arrive.
            first = start + late if start > 0 else start
            part = _between(admitted, first, end)
            if start > 0 or rate == 0:
                yield from _one_change(run, group, part, (first, rate, burst), previous)
            previous = rate


def _allowed(run: SimulationRun, group: int, table: RateTable, times: Floats) -> Floats:
    """Return the units that may be over at each time, besides those in flight."""
    scenario = run.scenario
    spec = scenario.groups[group]
    rate = np.array([r if np.isfinite(r) else 0.0 for _, r, _ in table.limits]).max()
    late = scenario.network.delay_s + scenario.network.jitter_s + TICKS_S
    allowed = np.full(len(times), ROUNDING * table.reference)
    for start, _, _ in table.limits[1:]:
        # Until the news of a change arrives, the old limit is the right one.
        allowed += np.where(times > start, 2 * rate * late, 0.0)
    if spec.mode == "strict":
        return allowed
    for fault in scenario.faults:
        extra = rate * unbilled_s(scenario, fault)
        allowed += np.where(times > fault.start_s, extra, 0.0)
        apart = fault.kind in ("partition", "cut", "loss", "corrupt", "delay")
        if spec.isolation == "open" and apart:
            gone = fault.start_s + presumed_dead_s(scenario)
            allowed = np.where((times > gone) & (fault.until_s > gone), inf, allowed)
    return allowed


def _unknown_s(scenario: Scenario) -> float:
    """Return how long a fault may hide an admission from the others, seconds.

    An agent that is cut off or stopped may have admitted one request that the others
    don't know about while they still believe that the agent is alive.
    """
    return LEASE_MOST * scenario.interval_s if scenario.faults else 0.0


def _one_change(
    run: SimulationRun,
    group: int,
    part: Admissions,
    limit: tuple[float, float, float],
    previous: float,
) -> Iterator[Violation]:
    scenario = run.scenario
    first, rate, burst = limit
    name = scenario.groups[group].name
    times, units = part
    if rate == 0 and len(times):
        yield Violation(
            float(times[0]),
            "change-in-force",
            f"group {name}: {units.sum():.0f} units admitted though the rate is 0",
        )
    elif 0 < rate < previous and len(times):
        fresh = RateTable(((first, rate, burst),), scenario.seconds)
        over = depths(part, fresh)
        age_s = information_age_s(scenario)
        unknown_s = age_s + _unknown_s(scenario)
        allowed = in_flight(run.admitted[group], times, unknown_s) + rate * age_s
        allowed += largest_cost(scenario, group)  # the central bucket's own debt
        allowed += sum(rate * unbilled_s(scenario, fault) for fault in scenario.faults)
        worst = int(np.argmax(over - allowed))
        if over[worst] > allowed[worst]:
            yield Violation(
                float(times[worst]),
                "change-in-force",
                f"group {name}: {over[worst]:.1f} units over Q·W + B since the limit "
                f"was lowered, at most {allowed[worst]:.1f} expected",
            )


def _between(admitted: Admissions, start: float, end: float) -> Admissions:
    times, units = admitted
    inside = (times >= start) & (times < end)
    return times[inside], units[inside]
