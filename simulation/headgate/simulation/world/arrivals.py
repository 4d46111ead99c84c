"""Arrival times of requests: one seeded stream per (piece of demand, agent).

The streams depend only on the file and the seed, so every strategy gets the same
arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, pi
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.scenario.scenario import Scenario, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import DemandPiece

SINE_STEPS = 2_000
"""Grid points per period on which a sine's arrivals are placed: 0.05 % of it."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentArrivals:
    """First attempts of one agent's callers in one group, in order of time.

    Attributes:
        time_s: ``float64[N]``.
        cost: ``float64[N]`` units.
        retry: ``bool[N]`` whether a refused request is retried.
    """

    time_s: NDArray[np.float64]
    cost: NDArray[np.float64]
    retry: NDArray[np.bool_]

    def outside(self, gaps: list[tuple[float, float]]) -> AgentArrivals:
        """Return the arrivals outside all of the spans [from, until)."""
        keep = np.ones(len(self.time_s), dtype=np.bool_)
        for start, until in gaps:
            keep &= (self.time_s < start) | (self.time_s >= until)
        return AgentArrivals(self.time_s[keep], self.cost[keep], self.retry[keep])


def generate(scenario: Scenario, seed: int) -> list[list[AgentArrivals]]:
    """Return the arrivals of each [group][agent] over the whole scenario.

    Demand beyond the end of the scenario is cut off.
    """
    parts: list[list[list[AgentArrivals]]] = [
        [[] for _ in range(scenario.agents)] for _ in scenario.groups
    ]
    for number, piece in enumerate(scenario.demands):
        generators: dict[int, np.random.Generator] = {}
        for start, end, agents in spans(piece, scenario.agents):
            until = min(end, scenario.seconds)
            for agent in agents:
                key = [seed, number, agent]
                rng = generators.setdefault(agent, np.random.default_rng(key))
                times = _times(piece, agent, start, until, rng)
                parts[piece.group][agent].append(
                    AgentArrivals(
                        times,
                        np.full(len(times), piece.cost),
                        np.full(len(times), piece.retry),
                    )
                )
    return [[_merge(pieces) for pieces in group] for group in parts]


def demand_rate(
    scenario: Scenario, group: int, times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the true demand ``[agents, times]`` in units/s, sines included."""
    rates = np.zeros((scenario.agents, len(times)))
    for piece in scenario.demands:
        if piece.group != group:
            continue
        for start, until, agents in spans(piece, scenario.agents):
            inside = (times >= start) & (times < until)
            for agent in agents:
                shape = np.ones(len(times))
                if piece.period_s is not None:
                    turns = times / piece.period_s + agent * piece.phase_per_agent
                    shape = 1.0 + np.sin(2 * pi * turns)
                rates[agent] += np.where(inside, piece.rate * shape, 0.0)
    return rates


def _times(
    piece: DemandPiece, agent: int, start: float, until: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Place requests where the integral of their rate passes given values."""
    length = until - start
    per_s = piece.rate / piece.cost
    if length <= 0 or per_s <= 0:
        return np.zeros(0)
    if piece.period_s is None:
        return start + _marks(piece, per_s * length, rng) / per_s
    steps = max(2, ceil(length / piece.period_s * SINE_STEPS))
    grid = np.linspace(start, until, steps + 1)
    phase = 2 * pi * agent * piece.phase_per_agent
    angle = 2 * pi / piece.period_s
    turned = np.cos(angle * start + phase) - np.cos(angle * grid + phase)
    total = per_s * (grid - start + turned / angle)
    total = np.maximum.accumulate(total)  # rounding errors where the rate touches zero
    return np.interp(_marks(piece, float(total[-1]), rng), total, grid)


def _marks(
    piece: DemandPiece, total: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return sorted places in [0, total): a Poisson process of rate 1, or even."""
    if piece.poisson:
        return np.sort(rng.uniform(0.0, total, rng.poisson(total)))
    first = rng.uniform()  # agents with the same even rate must not be synchronised
    return np.arange(first, total, 1.0)


def _merge(pieces: list[AgentArrivals]) -> AgentArrivals:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return AgentArrivals(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))
    time_s = np.concatenate([p.time_s for p in pieces])
    order = np.argsort(time_s, kind="stable")
    return AgentArrivals(
        time_s[order],
        np.concatenate([p.cost for p in pieces])[order],
        np.concatenate([p.retry for p in pieces])[order],
    )
