"""How far below the central bucket admissions went, and what explains it.

A bucket is fed with everything that all agents admitted.  How far its level falls
below zero is compared with the depth of the central bucket itself (one cost, where
the bucket may owe).  The rest is the price of admitting without asking: one request
of each agent that was active while a report was on its way, and what the rate earned
in that time.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.metrics import merged
from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]

REPORT_GAP_S = 0.05
"""The shortest time between two reports of an agent."""

LOOK_S = 0.025
"""An agent looks at its counters, and at what it heard, this often."""


def information_age_s(scenario: Scenario) -> float:
    """Return how old an agent's knowledge of the others is, seconds.

    A report waits for its turn, travels, and waits for the receiver's next look.
    Where reports get lost, the next heartbeat tells what they told.
    """
    network = scenario.network
    age_s = network.delay_s + network.jitter_s + REPORT_GAP_S + LOOK_S
    if network.reorder > 0:
        age_s += 2 * scenario.interval_s  # as long as a report may be held up
    return age_s + (scenario.interval_s if network.loss > 0 else 0.0)


def depths(admitted: Admissions, table: RateTable) -> Floats:
    """Return how far below zero the level of a bucket is after each admission.

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
    # The worst window that ends here begins where the bucket was last full.
    full = np.minimum.accumulate(spent - counted - earned)
    found: Floats = np.where(limited, spent - earned - full - burst, -inf)
    return found


def in_flight(parts: list[Admissions], times: Floats, age_s: float) -> Floats:
    """Return what agents may have admitted without each other's knowledge, units.

    Args:
        parts: What each agent admitted.
        times: ``float64[N]`` when to look.
        age_s: The age of information.

    Returns:
        ``float64[N]``: the sum of the largest cost that each agent admitted within
        the age before; a single one of each, since a second one needs a share.
    """
    total = np.zeros(len(times))
    for at_s, units in parts:
        if not len(at_s):
            continue
        end = np.searchsorted(at_s, times, side="right")
        start = np.searchsorted(at_s, times - age_s, side="left")
        # Pairs of (from, until); the sentinel makes the end a valid place.
        places = np.column_stack((start, end)).ravel()
        largest = np.maximum.reduceat(np.append(units, 0.0), places)[::2]
        total += np.where(end > start, largest, 0.0)
    return total


def over_explained(run: SimulationRun, group: int) -> tuple[Floats, Floats, Floats]:
    """Return (times, units below the central bucket's depth, units explained).

    Each is ``float64[N]``, one for each admission of the group by any agent.
    """
    table = RateTable(run.scenario.limits(group), run.scenario.seconds)
    admitted = merged(run.admitted[group])
    age_s = information_age_s(run.scenario)
    own = max(0.0, float(depths(run.central[group], table).max(initial=0.0)))
    explained = in_flight(run.admitted[group], admitted[0], age_s)
    explained += table.rate_at(admitted[0]) * age_s
    return admitted[0], depths(admitted, table) - own, explained
