"""How far below the central bucket's level admissions went, and what explains it.

A bucket is charged with everything that all agents admitted.  How far its level falls
below zero is compared with the depth of the central bucket itself (one cost, if the
bucket may owe).  The rest is the price of admitting without asking: one request of
each agent that was active while a report was on its way, and what the rate earned in
that time.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.admissions import below, merged, subtree
from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]

REPORT_GAP_S = 0.05
"""The shortest time between two reports of an agent."""

LOOK_S = 0.025
"""Time between two looks of an agent at its counters and at what it has heard."""

INSIDE_S = 0.2
"""How much older what agents know of a group with others inside it may be: callers of
those go by rates until what they spent above is told to them."""


def information_age_s(scenario: Scenario) -> float:
    """Return how old an agent's knowledge of the others is, seconds.

    A report waits for its turn, travels, and waits for the receiver's next look.
    If a report is lost, the next heartbeat repeats its contents.
    """
    network = scenario.network
    age_s = network.delay_s + network.jitter_s + REPORT_GAP_S + LOOK_S
    if network.reorder > 0:
        age_s += 2 * scenario.interval_s  # as long as a report may be held up
    return age_s + (scenario.interval_s if network.loss > 0 else 0.0)


def depths(admitted: Admissions, table: RateTable) -> Floats:
    """Return how far below zero a bucket's level is after each admission.

    The bucket holds the burst at time 0, and never more.

    Returns:
        ``float64[N]`` units, negative while the level is above zero; minus infinity
        while there is no limit.
    """
    times, units = admitted
    if not len(times):
        return np.zeros(0)
    burst = table.burst_at(times)
    limited = np.isfinite(burst)
    counted = np.where(limited, units, 0.0)
    spent = np.cumsum(counted)
    earned = table.integral(times)
    # The worst window that ends here begins where the bucket was last full, when it
    # held the burst of that time; a smaller burst set since then caps what is left.
    full = np.minimum.accumulate(spent - counted - earned + burst)
    found: Floats = np.where(limited, spent - earned - full, -inf)
    return found


def level_at(admitted: Admissions, table: RateTable, at_s: float) -> float:
    """Return the level of a bucket charged with some admissions, just before a time."""
    times, units = admitted
    before = times < at_s
    when = np.append(times[before], at_s)
    # An admission of zero units shows the level, which never exceeds the burst.
    spent = np.append(units[before], 0.0)
    return -float(depths((when, spent), table)[-1])


def in_flight(parts: list[Admissions], times: Floats, age_s: float) -> Floats:
    """Return what agents may have admitted without each other's knowledge, units.

    Args:
        parts: What each agent admitted.
        times: ``float64[N]`` when to look.
        age_s: The age of information.

    Returns:
        ``float64[N]``: the sum of the largest cost that each agent admitted within the
        preceding age; only one request each, because a second one needs a share.
    """
    total = np.zeros(len(times))
    for at_s, units in parts:
        if not len(at_s):
            continue
        end = np.searchsorted(at_s, times, side="right")
        start = np.searchsorted(at_s, times - age_s, side="left")
        # Pairs of (from, until); the sentinel makes the end a valid index.
        places = np.column_stack((start, end)).ravel()
        largest = np.maximum.reduceat(np.append(units, 0.0), places)[::2]
        total += np.where(end > start, largest, 0.0)
    return total


def over_explained(
    run: SimulationRun, group: int, *, unknown_s: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return (times, units below the central bucket's depth, units explained).

    Each is ``float64[N]``, one for each admission by any agent in the group or in
    one that is part of it.  In a group with others inside, an agent may admit one
    request unknown to the others in each of them, and information is `INSIDE_S` older.

    Args:
        run: With the yardstick.
        group: Name of the group.
        unknown_s: How long an admission may stay unknown beyond the age of
            information, because of a fault.
    """
    table = RateTable(run.scenario.limits(group), run.scenario.seconds)
    parts = below(run, group)
    admitted = merged(parts)
    age_s = information_age_s(run.scenario)
    if len(subtree(run.scenario, group)) > 1:
        age_s += INSIDE_S
    explained = in_flight(parts, admitted[0], age_s + unknown_s)
    explained += np.nan_to_num(table.rate_at(admitted[0]), posinf=0.0) * age_s
    over = depths(admitted, table) - _central_depth(run, group, table)
    return admitted[0], over, explained


def excess_costs(run: SimulationRun, group: int) -> float:
    """Return the worst excess, in units of the largest cost that was offered."""
    _, over, _ = over_explained(run, group)
    costs = [a.cost.max(initial=0.0) for a in run.arrivals[group]]
    largest = float(max(costs, default=0.0)) or 1.0
    return max(0.0, float(np.max(over, initial=0.0))) / largest


def _central_depth(run: SimulationRun, group: int, table: RateTable) -> float:
    """Return how far the yardstick goes below zero, units."""
    central = merged([run.central[g] for g in subtree(run.scenario, group)])
    return max(0.0, float(np.max(depths(central, table), initial=0.0)))
