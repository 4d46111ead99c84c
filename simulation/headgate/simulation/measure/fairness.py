"""How much of its due each agent got, by exact weighted max-min of what was offered."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.max_min import max_min
from headgate.simulation.measure.hierarchy import dues
from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.world.record import SimulationRun

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Fairness:
    """What each agent was admitted, and what it was due.

    Attributes:
        admitted: ``float64[agents]`` units from `measure_from` on.
        fair: ``float64[agents]`` m_j: the sum over seconds of max-min shares.
    """

    admitted: Floats
    fair: Floats

    def parts(self) -> Floats:
        """Return x_j = admitted_j / m_j of the agents with m_j > 0."""
        due = self.fair > 0
        parts: Floats = self.admitted[due] / self.fair[due]
        return parts

    def jain(self) -> float | None:
        """Return Jain's index, 1 when all x_j are equal; None without agents."""
        parts = self.parts()
        square = float((parts**2).sum())
        if not len(parts):
            return None
        return float(parts.sum()) ** 2 / (len(parts) * square) if square > 0 else 0.0

    def worst(self) -> float | None:
        """Return the smallest x_j; None without agents."""
        parts = self.parts()
        return float(parts.min()) if len(parts) else None


def offered_per_second(run: SimulationRun, group: int) -> tuple[Floats, Floats]:
    """Return (edges ``[K + 1]``, offered units ``[agents, K]``) from the warm-up on.

    The first and the last interval may be shorter than a second.
    """
    scenario = run.scenario
    inner = np.arange(ceil(scenario.measure_from), int(scenario.seconds) + 1)
    edges = np.unique(np.r_[scenario.measure_from, inner, scenario.seconds])
    offered = np.array(
        [
            np.histogram(a.time_s, bins=edges, weights=a.cost)[0]
            for a in run.arrivals[group]
        ]
    )
    return edges.astype(np.float64), offered


def _earned(run: SimulationRun, group: int, edges: Floats) -> Floats:
    """Return the units that a group's own callers may spend in each interval."""
    if run.scenario.tree:
        every = range(len(run.scenario.groups))
        offered = [offered_per_second(run, g)[1].sum(axis=0) for g in every]
        lengths = np.diff(edges)
        due = dues(run.scenario, np.array(offered) / lengths, edges[:-1])
        parts: Floats = due.part[group] * lengths
        return parts
    rates = RateTable(run.scenario.limits(group), run.scenario.seconds)
    unlimited = ~np.isfinite(rates.rate_at(edges[:-1]))
    return np.where(unlimited, inf, np.diff(rates.integral(edges)))


def fair_parts(run: SimulationRun, group: int) -> Fairness:
    """Return what each agent got of one group, and what it was due."""
    edges, offered = offered_per_second(run, group)
    shares = max_min(
        offered, np.array(run.scenario.weights), _earned(run, group, edges)
    )
    start = run.scenario.measure_from
    admitted = [
        float(units[times >= start].sum()) for times, units in run.admitted[group]
    ]
    return Fairness(np.array(admitted), shares.sum(axis=1))
