"""Whether refused callers were given a sensible delay.

The yardstick is the delay that one central bucket would give if it had admitted the
same requests as the agents: the time until its level lets the request through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.admissions import merged
from headgate.simulation.measure.excess import depths
from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.world.record import SimulationRun

    Floats = NDArray[np.float64]

FACTOR = 2.0
"""A delay may be this many times the central bucket's …"""

GRACE_S = 0.3
"""… and this much longer."""


@dataclass(frozen=True, slots=True)
class ToldDelays:
    """How long refused callers were asked to wait.

    Attributes:
        refusals: How many there were, excluding requests that can never pass.
        kept: How many of them were given at most `FACTOR` × central + `GRACE_S`.
    """

    refusals: int
    kept: int

    @property
    def part(self) -> float | None:
        """The fraction of refusals with a sensible delay; None without any."""
        return self.kept / self.refusals if self.refusals else None


def told_delays(run: SimulationRun, group: int) -> ToldDelays:
    """Check every delay that a group's callers were given.

    Requests above the burst of a bucket that may not owe, and refusals while the
    rate is 0 or unlimited, are left out: no delay is finite there.
    """
    refused = np.concatenate(run.refused[group])
    table = RateTable(run.scenario.limits(group), run.scenario.seconds)
    times, costs, told_s = refused.T
    may_owe = run.scenario.groups[group].owes
    rate, burst = table.rate_at(times), table.burst_at(times)
    possible = np.isfinite(rate) & (rate > 0) & (may_owe | (costs <= burst))
    times, costs, told_s = times[possible], costs[possible], told_s[possible]
    rate = rate[possible]
    missing = (0.0 if may_owe else costs) - _levels(run, group, table, times)
    central_s = np.maximum(missing, 0.0) / rate
    kept = told_s <= FACTOR * central_s + GRACE_S
    return ToldDelays(len(times), int(kept.sum()))


def _levels(run: SimulationRun, group: int, table: RateTable, times: Floats) -> Floats:
    """Return the level at each time of a bucket fed with what agents admitted."""
    admitted = merged(run.admitted[group])
    burst = table.burst_at(times)
    if not len(admitted[0]):
        return burst
    after = -depths(admitted, table)
    last = np.searchsorted(admitted[0], times, side="right") - 1
    known = np.maximum(last, 0)
    earned = table.integral(times) - table.integral(admitted[0][known])
    level = np.minimum(after[known] + earned, burst)
    levels: Floats = np.where(last >= 0, level, burst)
    return levels
