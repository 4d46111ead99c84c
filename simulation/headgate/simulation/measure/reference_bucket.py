"""The yardstick: one token bucket for the whole cluster, on the same arrivals."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.measure.hierarchy import dues
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.world.arrivals import AgentArrivals
from headgate.simulation.world.bucket_replay import BucketReplay, serve_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]


class ReferenceBucket:
    """A bucket that is full at time 0 and follows changes of the limit at once.

    A rate of 0 lets nothing through, whatever the level.
    """

    def __init__(
        self, limits: tuple[tuple[float, float, float], ...], *, may_owe: bool
    ) -> None:
        """Make the bucket of (from when, rate, burst), in order of time."""
        self._limits = [*limits, (inf, 0.0, 0.0)]
        self._place = 0
        _, self._rate, self._burst = limits[0]
        self._level = self._burst
        self._updated_s = 0.0
        self._may_owe = may_owe

    def try_acquire_at(self, now: float, cost: float) -> float:
        """Admit and charge (0.0) or refuse (1.0)."""
        if not self.admits_at(now, cost):
            return 1.0
        self.charge(cost)
        return 0.0

    def admits_at(self, now: float, cost: float) -> bool:
        """Return whether a cost would be admitted."""
        while now >= self._limits[self._place + 1][0]:
            self._place += 1
            at_s, rate, burst = self._limits[self._place]
            self._refill(at_s)
            self._rate, self._burst = rate, burst
            # After a time without any limit the bucket is full.
            self._level = min(self._level, burst) if rate < inf else inf
        if self._rate == inf:
            self._updated_s = now
            return True
        self._refill(now)
        return self._rate > 0 and self._level >= (0.0 if self._may_owe else cost)

    def charge(self, cost: float) -> None:
        """Charge a cost that was admitted."""
        self._level -= cost

    def _refill(self, now: float) -> None:
        if self._rate < inf:
            level = self._level + (now - self._updated_s) * self._rate
            self._level = min(level, self._burst)
        self._updated_s = now


def central_of(run: SimulationRun) -> list[Admissions]:
    """Return what the central bucket admits, for each group.

    In a tree, each group's bucket refills at the rate due to its own callers (max-min
    of what was offered in each second, plus the slack), and a request must also pass
    the buckets of its ancestors.
    """
    scenario = run.scenario
    limits = [scenario.limits(g) for g in range(len(scenario.groups))]
    if not scenario.tree:
        return [
            central_admissions(
                limits[group],
                run.arrivals[group],
                run.gaps,
                may_owe=spec.owes,
                until_s=scenario.seconds,
            )
            for group, spec in enumerate(scenario.groups)
        ]
    return _tree_admissions(run)


def _tree_admissions(run: SimulationRun) -> list[Admissions]:
    scenario = run.scenario
    groups = range(len(scenario.groups))
    whole = [
        ReferenceBucket(scenario.limits(g), may_owe=scenario.groups[g].owes)
        for g in groups
    ]
    edges = np.arange(0.0, scenario.seconds, 1.0)
    bins = np.r_[edges, scenario.seconds]
    offered = np.array([_offered(run.arrivals[g], bins) for g in groups])
    bound = dues(scenario, offered / np.diff(bins), edges).bound
    own = [
        ReferenceBucket(_stepwise(scenario, g, edges, bound[g]), may_owe=True)
        for g in groups
    ]
    names = [spec.name for spec in scenario.groups]
    served: list[tuple[BucketReplay, Callable[[float, float], float]]] = []
    streams: list[list[BucketReplay]] = []
    for g in groups:
        chain = [own[g], whole[g]]
        above = scenario.groups[g].parent
        while above is not None:
            chain.append(whole[names.index(above)])
            above = scenario.groups[names.index(above)].parent
        acquire = partial(_acquire_all, chain)
        here = [
            BucketReplay(a, gap)
            for a, gap in zip(run.arrivals[g], run.gaps, strict=True)
        ]
        streams.append(here)
        served += [(stream, acquire) for stream in here]
    serve_in_order(served, scenario.seconds)
    return [_joined(here) for here in streams]


def _offered(arrivals: list[AgentArrivals], bins: Floats) -> Floats:
    """Return the units of all agents in each interval."""
    counts = [np.histogram(a.time_s, bins, weights=a.cost)[0] for a in arrivals]
    offered: Floats = np.sum(counts, axis=0)
    return offered


def _stepwise(
    scenario: Scenario, group: int, edges: Floats, rates: Floats
) -> tuple[tuple[float, float, float], ...]:
    table = RateTable(scenario.limits(group), scenario.seconds)
    bursts = table.burst_at(edges)
    return tuple(zip(edges.tolist(), rates.tolist(), bursts.tolist(), strict=True))


def _acquire_all(chain: list[ReferenceBucket], now: float, cost: float) -> float:
    if all([bucket.admits_at(now, cost) for bucket in chain]):
        for bucket in chain:
            bucket.charge(cost)
        return 0.0
    return 1.0


def central_admissions(
    limits: tuple[tuple[float, float, float], ...],
    arrivals: list[AgentArrivals],
    gaps: list[list[tuple[float, float]]],
    *,
    may_owe: bool,
    until_s: float = inf,
) -> Admissions:
    """Return times and units of all agents' arrivals that one bucket admits.

    Requests that it refuses are retried by the same rule as with the agents.

    Args:
        limits: (from when, rate, burst) of the group.
        arrivals: One per agent, without lost ones.
        gaps: Per agent, the spans in which its attempts are lost.
        may_owe: The group's owing rule.
        until_s: When the simulation ends; later retries don't count.
    """
    bucket = ReferenceBucket(limits, may_owe=may_owe)
    if not any(bool(a.retry.any()) for a in arrivals):
        merged = _merged(arrivals)
        stream = BucketReplay(merged, [])
        stream.advance(until_s, bucket.try_acquire_at)
        return stream.admitted()
    return _with_retries(bucket, arrivals, gaps, until_s)


def _merged(arrivals: list[AgentArrivals]) -> AgentArrivals:
    time_s = np.concatenate([a.time_s for a in arrivals])
    order = np.argsort(time_s, kind="stable")
    cost = np.concatenate([a.cost for a in arrivals])[order]
    retry = np.concatenate([a.retry for a in arrivals])[order]
    return AgentArrivals(time_s[order], cost, retry)


def _with_retries(
    bucket: ReferenceBucket,
    arrivals: list[AgentArrivals],
    gaps: list[list[tuple[float, float]]],
    until_s: float,
) -> Admissions:
    streams = [BucketReplay(a, g) for a, g in zip(arrivals, gaps, strict=True)]
    serve_in_order([(stream, bucket.try_acquire_at) for stream in streams], until_s)
    return _joined(streams)


def _joined(streams: list[BucketReplay]) -> Admissions:
    times = np.concatenate([s.admitted()[0] for s in streams])
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([s.admitted()[1] for s in streams])[order]
