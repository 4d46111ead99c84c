"""Trees of groups: how much of its parent's rate each child is due.

An independent twin of the coordinator's tree: minima first, then weighted max-min up
to demand and maximum, by bisection instead of a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.rates import RateTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario

    Floats = NDArray[np.float64]

HALVINGS = 100
"""Steps of the bisection: beyond the precision of a float."""


@dataclass(frozen=True, slots=True, eq=False)
class Dues:
    """What each group's own callers are due, ``float64[groups, K]`` units/s.

    Attributes:
        part: What max-min gives them.
        bound: That plus the slack: what they may use without others running short.
    """

    part: Floats
    bound: Floats


def dues(scenario: Scenario, wanted: Floats, times: Floats) -> Dues:
    """Return what each group is due.

    Args:
        scenario: With the groups and their limits.
        wanted: ``[groups, K]`` units/s that each group's own callers want.
        times: ``[K]`` when; this decides which limits are in force.
    """
    groups = range(len(scenario.groups))
    rates = np.array(
        [RateTable(scenario.limits(g), scenario.seconds).rate_at(times) for g in groups]
    )
    part, bound = np.zeros(wanted.shape), np.zeros(wanted.shape)
    for g in groups:
        if scenario.groups[g].parent is None:
            for k in range(len(times)):
                node = _Node(scenario, wanted[:, k], rates[:, k], g)
                node.fill(float(rates[g, k]), part[:, k], bound[:, k])
    return Dues(part, bound)


class _Node:
    """One group at one time, with its descendants."""

    def __init__(
        self, scenario: Scenario, wanted: Floats, rates: Floats, group: int
    ) -> None:
        self.group = group
        self.spec = scenario.groups[group]
        self.own = float(wanted[group])
        self.children: list[_Node] = [
            _Node(scenario, wanted, rates, place)
            for place, other in enumerate(scenario.groups)
            if other.parent == self.spec.name
        ]
        below = sum(c.usable for c in self.children)
        self.usable: float = min(self.own + below, float(rates[group]))
        self.rate = float(rates[group])

    def fill(self, available: float, part: Floats, bound: Floats) -> None:
        """Divide what this group has among its own callers and its children."""
        available = min(available, self.rate)
        high = [self.own] + [c.usable for c in self.children]
        low = [0.0] + [
            min(c.spec.minimum, h) for c, h in zip(self.children, high[1:], strict=True)
        ]
        weights = [1.0] + [c.spec.weight for c in self.children]
        given = _fill(available, low, high, weights)
        slack = max(0.0, available - sum(given)) if available < inf else inf
        part[self.group] = given[0]
        bound[self.group] = given[0] + slack
        for child, share in zip(self.children, given[1:], strict=True):
            child.fill(share + slack, part, bound)


def _fill(
    available: float, low: list[float], high: list[float], weights: list[float]
) -> list[float]:
    if sum(high) <= available:
        return high
    least = sum(low)
    if least >= available:
        return [part * available / least if least else 0.0 for part in low]
    below, above = 0.0, max(h / w for h, w in zip(high, weights, strict=True))
    given = high
    for _ in range(HALVINGS):
        theta = (below + above) / 2
        given = [
            max(lo, min(hi, w * theta))
            for lo, hi, w in zip(low, high, weights, strict=True)
        ]
        below, above = (theta, above) if sum(given) < available else (below, theta)
    return given
