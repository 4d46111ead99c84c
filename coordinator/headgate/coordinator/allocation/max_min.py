"""Shares: exact weighted max-min over many ledgers at once.

For each ledger find the water level θ with Σ_j min(λ_j, w_j·θ) = Q'.  Then
share_j = min(λ_j, w_j·θ); where all demand fits θ is infinite and the rest of Q'
is slack.  All agents hold the same rows, so all compute the same shares and
nobody negotiates.

**Newton's method is exact here.**  f(θ) = Σ min(λ_j, w_j·θ) is concave, rising and
piecewise linear.  A tangent of a concave function lies above it, so its root lies
at or below θ*: after one step from anywhere the iteration climbs from below, and
each step either finds a new agent satisfied or has found θ*, which is then the
exact root of its own piece, (Q' − Σ_satisfied λ) / Σ_others w.  At most A + 1
steps; two or three as a rule.  Agents usually weigh the same; one row of weights
then takes half of the time.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, cast

import numpy as np

from headgate.coordinator.table.one_or_many import lesser

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Floats, Numbers

FINITE = 1e290
"""Replaces an infinite θ: times a weight above 0 it is more than anyone can want, and
times 0 it is 0."""


def water_level(demand: Floats, weight: Floats, available: Floats | float) -> Floats:
    """Return θ, ``float64[G]``: infinite where all demand fits.

    Args:
        demand: ``float64[A, G]`` λ ≥ 0.
        weight: ``float64[A, G]``; 0 keeps an agent out.
        available: ``float64[G]`` Q' ≥ 0; of one ledger as of `level_of`.
    """
    demand = np.where(weight > 0.0, demand, 0.0)
    return level_of(demand, weight, cast("Floats", available), demand.sum(axis=0))


def level_of(
    demand: Floats, weight: Floats, available: Floats, wanted: Floats
) -> Floats:
    """Return θ as `water_level` does, for demands whose sums are known.

    Args:
        demand: ``float64[A, G]`` λ, 0 where the weight is.  For a single ledger, pass
            its column as ``float64[A]``, and numbers for what follows.
        weight: ``float64[A, G]``; ``float64[1, G]`` if all that take part weigh the
            same.
        available: ``float64[G]`` Q'.
        wanted: ``float64[G]`` Σ λ.
    """
    if demand.ndim == 1:
        if not wanted > available:
            return cast("Floats", inf)
        wants, weights = demand.tolist(), weight.tolist()
        return cast("Floats", _level_of_one(wants, weights, float(available)))
    theta = np.full(available.shape, inf)
    short = (wanted > available).nonzero()[0]
    if len(short) == 0:
        return theta
    if len(short) < len(available):
        demand, weight = demand[:, short], weight[:, short]
        available = available[short]
    theta[short] = _climb(demand, weight, available)
    return theta


def _level_of_one(demand: list[float], weight: list[float], available: float) -> float:
    """Return θ of one ledger short of Q', by the same steps on plain numbers."""
    rest, level = available, available / sum(weight)
    hungry = [*zip(demand, weight, strict=True)]
    while True:
        still: list[tuple[float, float]] = []
        satisfied = open_weight = 0.0
        for one in hungry:
            wanted, its_weight = one
            if wanted > its_weight * level:
                still.append(one)
                open_weight += its_weight
            else:
                satisfied += wanted
        if len(still) == len(hungry) or not still:
            return level
        rest -= satisfied
        higher = rest / open_weight
        if not higher > level:
            return level
        level, hungry = higher, still


def _climb(wanted: Floats, weight: Floats, available: Floats) -> Floats:
    alike = len(weight) < len(wanted)
    whole = weight[0] * len(wanted) if alike else weight.sum(axis=0)
    level: Floats = available / whole
    before: Numbers | None = None
    while True:
        satisfied = wanted <= weight * level
        count = np.add.reduce(satisfied.view(np.uint8), axis=0, dtype=np.int32)
        # With the same agents satisfied as before, it is the root of its piece.
        if before is not None and not (count > before).any():
            return level
        before = count
        # Multiply by a flag instead of using `where`: which agents are hungry is
        # unpredictable, and a mispredicted branch per cell costs six times as
        # much.
        rest = available - (wanted * satisfied).sum(axis=0)
        hungry = len(wanted) - count
        open_weight = weight[0] * hungry if alike else (weight * ~satisfied).sum(axis=0)
        # At the root itself, rounding may make everyone look satisfied: stay there.
        higher = np.where(hungry > 0, rest / np.maximum(open_weight, 1e-200), level)
        level = np.maximum(higher, level)


def shares_at(theta: Floats, demand: Floats, weight: Floats) -> Floats:
    """Return min(λ, w·θ), ``float64[A, G]``, for arguments as of `level_of`."""
    return lesser(demand, weight * lesser(theta, FINITE))
