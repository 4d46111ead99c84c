"""Exact weighted max-min shares (water-filling) of many cases at once.

The coordinator has its own; this independent twin computes what the coordinator is
compared with, so neither can hide an error of the other.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def max_min(demand: Floats, weights: Floats, rate: Floats) -> Floats:
    """Return exact weighted max-min shares.

    Args:
        demand: ``[agents, K]`` wanted in each of K cases.
        weights: ``[agents]``, > 0.
        rate: ``[K]`` to be shared out, infinite where unlimited.

    Returns:
        ``[agents, K]``: min(demand_j, w_j·θ) with Σ = min(rate, Σ demand).
    """
    level = demand / weights[:, None]
    order = np.argsort(level, axis=0, kind="stable")
    sorted_level = np.take_along_axis(level, order, axis=0)
    sorted_demand = np.take_along_axis(demand, order, axis=0)
    sorted_weight = weights[order]
    below = np.cumsum(sorted_demand, axis=0) - sorted_demand
    above = np.cumsum(sorted_weight[::-1], axis=0)[::-1]
    # θ if agents from this place on are cut; the first place where it fits counts.
    with np.errstate(invalid="ignore"):
        theta = (rate - below) / above
    cut = theta < sorted_level
    first = np.argmax(cut, axis=0)
    found = np.take_along_axis(theta, first[None, :], axis=0)[0]
    water = np.where(cut.any(axis=0), found, inf)
    shares: Floats = np.minimum(demand, weights[:, None] * np.maximum(water, 0.0))
    return shares
