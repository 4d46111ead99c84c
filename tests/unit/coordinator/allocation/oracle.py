"""Scalar twins of what the coordinator computes over arrays: slow and plain."""

from __future__ import annotations

from math import inf, log


def max_min(
    demands: list[float], weights: list[float], available: float
) -> tuple[float, list[float]]:
    """Return (θ, shares) by satisfying the most modest first."""
    order = sorted(
        (j for j in range(len(demands)) if weights[j] > 0),
        key=lambda j: demands[j] / weights[j],
    )
    shares = [0.0] * len(demands)
    rest = available
    whole = sum(weights[j] for j in order)
    for j in order:
        theta = rest / whole
        if demands[j] > weights[j] * theta:
            for k in order[order.index(j) :]:
                shares[k] = weights[k] * theta
            return theta, shares
        shares[j] = demands[j]
        rest -= demands[j]
        whole -= weights[j]
    return inf, shares


def poisson_deviance(came: float, due: float) -> float:
    """Return how unlikely `came` is where `due` were expected."""
    if came == 0:
        return 2.0 * due
    return 2.0 * (came * log(came / due) - (came - due))
