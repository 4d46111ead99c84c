"""How an allocating server divides its share among the data planes that report to it.

A data plane enforces by itself and reports every five seconds what it let through, so
each of its buckets is a *virtual agent*: it has a demand, (allowed + denied) / elapsed,
and a share.  The server is one agent of the cluster.  It takes part in the ledger with
the sum of what its data planes do, and divides what it may spend by the same max-min
that agents use among one another.

**The rate.**  Reports come every five seconds, but what a data plane does with a share
can be predicted: it lets min(d, share) through.  So the level is steered over
`HORIZON_S`, nearly as fast as by agents, and within `MOST_SURPLUS` of the quota::

    Q' = Q + (E + V - m)/H    S = the server's max-min part of Q' among all agents
    θ:  Σ min(d_i, θ) = S     share_i = min(d_i, θ) + an even part of what is left

If it were steered over much longer, the other agents would pay for what the data planes
have overdrawn.

**The ledger.**  What a data plane is expected to let through is charged evenly, an
initial burst within about a second, and the difference that a report shows over the
next five seconds: nothing is lost, and others see a steady caller.

All of this is arithmetic on its arguments: no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import shares_at, water_level

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headgate.coordinator import Explanation

REPORT_S = 5.0
"""Time between two reports of an Envoy, whatever it is configured to."""

HORIZON_S = 2.0
"""H: twice that of agents, since a changed share is sent only if it is worth it."""

MOST_SURPLUS = 0.5
"""The rate shared out is within this part of the quota above or below it."""

NEAR = 1.1
"""Demand is multiplied by this: an average of five seconds is no more exact, and a data
plane that is cut to its measured demand loses every peak."""

BURST_S = 1.0
"""A data plane whose token bucket starts full is expected to spend this many seconds of
its share beyond it, most of it within that time.  If it spends more, its report will
say so."""

EXPECTED_S = 3 * REPORT_S
"""Nothing is expected of a data plane that was silent for longer."""

SHORTEST_S = 1.0
"""Reports closer together than that are added up: their rates would be noise."""


@dataclass(slots=True)
class VirtualAgent:
    """One bucket of one data plane.

    Attributes:
        heard_s: When it was last heard from.
        demand: Hits/s that it wants; infinite until a report covers some time.
        share: Hits/s that it may let through.
        ahead: Hits charged since the last report because they were expected.
        granted: Hits of an initial burst that are expected and not charged yet.
        difference: Hits that reports showed beyond what was expected, not charged yet;
            below zero, charged in vain and not made up for yet.
        pace: Rate at which that is made up for, hits/s.
        missed: Reports of it were lost.
        gone: Its stream has ended: its share stays reserved until its lease ends.
        since_s: Until when its demand is known.
        attempted: Hits since then.
    """

    heard_s: float
    demand: float = inf
    share: float = 0.0
    ahead: float = 0.0
    granted: float = 0.0
    difference: float = 0.0
    pace: float = 0.0
    missed: bool = False
    gone: bool = False
    since_s: float = -inf
    attempted: float = 0.0

    def __post_init__(self) -> None:
        self.since_s = self.heard_s

    def begin(self, now: float, attempted: float, elapsed_s: float) -> None:
        """Note what it wanted before it had a share, if that covers enough time."""
        self.heard_s = self.since_s = now
        if elapsed_s >= SHORTEST_S:
            self.demand = attempted / elapsed_s

    def assign(self, share: float, *, fresh: bool) -> None:
        """Note its share; the token bucket of a `fresh` one starts full."""
        self.share = share
        burst = share * BURST_S
        self.granted = burst if fresh else min(self.granted, burst)

    def resume(self) -> None:
        """Go on in another stream; what it reported while it had none is lost."""
        self.gone = False
        self.missed = True

    def report(self, now: float, allowed: float, denied: float) -> None:
        """Note what it did since the report before."""
        self.heard_s = now
        difference = allowed - self.ahead
        if self.missed or self.demand == inf:
            # It can't be compared with what was expected, which therefore stands.
            difference = max(difference, 0.0)
        self.missed = False
        self.difference += difference
        self.pace = self.difference / REPORT_S
        self.ahead = 0.0
        self.attempted += allowed + denied
        elapsed_s = now - self.since_s
        if elapsed_s < SHORTEST_S:
            return
        self.demand = self.attempted / elapsed_s
        self.attempted = 0.0
        self.since_s = now

    def spend(self, now: float, elapsed_s: float) -> tuple[float, float]:
        """Return the hits to charge and to count as refused for some time until now."""
        if now - self.heard_s > EXPECTED_S:
            return 0.0, 0.0
        expected = min(self.demand, self.share) * elapsed_s
        later = self.pace * elapsed_s
        if later > 0.0:
            later = min(later, self.difference)
        else:  # nothing is given back, and others still see that it wants something
            later = max(later, self.difference, -expected / 2)
        burst = self.granted * min(1.0, elapsed_s / BURST_S)
        self.granted -= burst
        expected += burst
        self.ahead += expected
        self.difference -= later
        wanted = 0.0 if self.demand == inf else self.demand * elapsed_s
        return expected + later, max(0.0, wanted - expected)


def shared_out(limit: Explanation) -> float:
    """Return the hits/s that all agents divide among themselves: Q'."""
    # Without what the others don't know of yet: all must steer by one level.
    level = min(limit.level + limit.unseen, limit.burst)
    steered = limit.rate + (level - limit.margin) / HORIZON_S
    least, most = 1.0 - MOST_SURPLUS, 1.0 + MOST_SURPLUS
    return min(max(steered, limit.rate * least), limit.rate * most)


def server_rate(
    limit: Explanation, demand: float, weight: float, weights: Mapping[str, float]
) -> float:
    """Return the hits/s that the server's data planes may let through together.

    Args:
        limit: The limit as the server's agent sees it.
        demand: Of all its data planes, hits/s; may be infinite.
        weight: Of the server's agent.
        weights: Of the other agents, by id; those that use the limit have a row there.
    """
    available = shared_out(limit)
    others = [row for row in limit.agents if row.agent != limit.agent]
    demands = np.array([demand, *(row.demand for row in others)])
    demands = np.minimum(demands, 2.0 * limit.rate * (1.0 + MOST_SURPLUS))
    parts = np.array([weight, *(weights.get(row.agent, 1.0) for row in others)])
    theta = water_level(demands[:, None], parts[:, None], np.array([available]))
    shares = shares_at(theta, demands[:, None], parts[:, None])[:, 0]
    left = max(0.0, available - float(shares.sum()))
    return float(shares[0]) + left * weight / float(parts.sum())


def divide(rate: float, agents: Sequence[VirtualAgent]) -> list[float]:
    """Return the share of each virtual agent; together they are `rate`.

    Those whose stream has ended keep theirs until their lease ends: a data plane goes
    by its assignment also when it can't be reached.
    """
    kept = sum(one.share for one in agents if one.gone)
    here = [one for one in agents if not one.gone]
    available = max(0.0, rate - kept)
    if not here:
        return [one.share for one in agents]
    demand = np.array([min(one.demand * NEAR, rate + 1.0) for one in here])
    even = np.ones(len(here))
    theta = water_level(demand[:, None], even[:, None], np.array([available]))
    shares = shares_at(theta, demand[:, None], even[:, None])[:, 0]
    left = max(0.0, available - float(shares.sum())) / len(here)
    dealt = iter((shares + left).tolist())
    return [one.share if one.gone else next(dealt) for one in agents]
