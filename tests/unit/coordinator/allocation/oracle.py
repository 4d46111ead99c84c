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


class Ledger:
    """One ledger seen by one agent, in the words of the design."""

    def __init__(self, rate: float, burst: float, level: float) -> None:
        self.rate, self.burst, self.level = rate, burst, level
        self.at = 0.0
        self.ahead: list[float] = []
        self.burn: list[float] = []
        self.held: list[float] = []

    def settle(self, now: float, margin: float) -> float:
        """Bring to `now`; return E."""
        elapsed = now - self.at
        self.at = now
        for j in range(len(self.ahead)):
            self.ahead[j] += self.burn[j] * elapsed
        self.level += self.rate * elapsed
        held = sum(self.held)
        outstanding = sum(self.ahead[1:]) + held
        most = self.burst - max(held - margin, 0.0)
        belief = max(min(self.level - outstanding, most), -self.rate)
        self.level = belief + outstanding
        return belief


def poisson_deviance(came: float, due: float) -> float:
    """Return how unlikely `came` is where `due` were expected."""
    if came == 0:
        return 2.0 * due
    return 2.0 * (came * log(came / due) - (came - due))
