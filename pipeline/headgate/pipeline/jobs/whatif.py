"""What if a group had another limit: recorded demand through the real ledgers.

One real coordinator and one real bucket per agent, as in production, on simulated
time: requests come evenly within each recorded window, reports arrive a tick after
they were sent.  Only the callers are modelled here; the admission is the real one.

Cost: about `TICK_S`⁻¹ steps per agent and second, each hearing its peers: an hour of
ten agents takes about a minute of one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from headgate.agent.enforcement.bucket_registry import Registry
from headgate.agent.enforcement.sampling import Columns
from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Group,
    Heard,
    Publish,
    SetCeilings,
    Settings,
    WakeAt,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from headgate.coordinator import Event, Report

    Floats = NDArray[np.float64]

TICK_S = 0.1
"""Step of the replay: a report is on its way for as long, a tenth of a heartbeat."""

REQUESTS_PER_TICK = 8
"""Requests that a tick's units are grouped into, at most: the buckets' grain."""

REST_WINDOWS = 6
"""Windows without any demand after which the replay skips ahead: a minute of 10 s
windows, in which any burst is full again."""

WARM_UP_S = 3.0
"""Time before the first request in which the agents get to know each other: the
recorded ones did not all start with the recording."""

RESULT = (
    "group_id long, dimension string, agent string, attempted double, "
    "admitted double, admitted_then double, refused_then double"
)
"""Columns of `what_if`: what was, and what would have been."""


@dataclass(frozen=True, slots=True)
class ReplayTotals:
    """Totals of each agent under the other limit, ``float64[A]`` units."""

    admitted: Floats
    refused: Floats


def what_if(usage: DataFrame, group: Group, window_s: float) -> DataFrame:
    """Return the effect on each agent of giving a group other limits.

    Args:
        usage: Rows of `schema.USAGE`; those of other groups are left alone.
        group: With the limits to try.
        window_s: Length of the windows.
    """
    dimensions = [limit.dimension for limit in group.limits]

    def replay_all(series: pa.Table) -> pa.Table:
        return _replayed(series, group, window_s)

    return (
        usage.where(
            (f.col("group_id") == group.id)
            & f.col("dimension").isin(dimensions)
            & ~f.col("displaced")
        )
        .withColumn("second", f.unix_seconds("window_start"))
        .groupBy("group_id", "dimension")
        .applyInArrow(  # pyright: ignore[reportUnknownMemberType]  # pyspark's own hint
            replay_all, RESULT
        )
    )


def replay(
    demand: Floats, group: Group, dimension: str, window_s: float
) -> ReplayTotals:
    """Let recorded demand through real coordinators and buckets.

    Args:
        demand: ``float64[W, A]`` units attempted per window and agent.
        group: With the limits to try.
        dimension: Which of them.
        window_s: Length of a window.
    """
    cluster = _Cluster(group, dimension, demand.shape[1])
    still: Floats = np.zeros(len(demand.T))
    cluster.run(still, WARM_UP_S)
    rest = 0
    rates: Floats = demand / window_s
    for place, used in enumerate((demand.sum(axis=1) > 0).tolist()):
        rest = 0 if used else rest + 1
        if rest <= REST_WINDOWS:
            rate: Floats = rates[place]
            cluster.run(rate, window_s)
    return cluster.outcome()


class _Cluster:
    """The agents of one group on simulated time."""

    def __init__(self, group: Group, dimension: str, agents: int) -> None:
        self._now = 1.0
        self._agents = [
            _Agent(group, dimension, number, self._now) for number in range(agents)
        ]
        self._underway: list[Report] = []

    def run(self, rate: Floats, seconds: float) -> None:
        """Run one window; `rate` is what each agent's callers attempt, units/s."""
        for _ in range(round(seconds / TICK_S)):
            self._now += TICK_S
            heard, self._underway = self._underway, []
            for agent, per_s in zip(self._agents, rate.tolist(), strict=True):
                for report in heard:
                    agent.step(self._now, Heard((report,)))
                agent.serve(self._now, per_s * TICK_S)
                self._underway += agent.reports()

    def outcome(self) -> ReplayTotals:
        """Return the totals so far."""
        return ReplayTotals(
            np.array([agent.bucket.admitted for agent in self._agents]),
            np.array([agent.bucket.refused for agent in self._agents]),
        )


class _Agent:
    """One coordinator with its bucket."""

    def __init__(self, group: Group, dimension: str, number: int, now: float) -> None:
        # Its parents are not replayed: the group has none here.
        alone = Configuration(revision=1, groups=(group,))
        self._registry = Registry(number)
        self._registry.follow({group.id: group}, now)
        local = self._registry.get(group, dimension, "cluster", now)
        if local is None:
            raise ValueError(f"{group.name}: no {dimension} limit of scope cluster")
        self.bucket = local.bucket
        self._columns = Columns([local], None)
        self._uses = {group.id: 1}
        self._due = 0.0
        self._wake_s = now
        self._outbox: list[Report] = []
        self._brain = Coordinator(
            Settings(tick_s=TICK_S, rest_tick_s=TICK_S),
            agent=f"agent-{number}",
            incarnation=1,
            seed=number,
            now=now,
        )
        self.step(now, Configured(alone))

    def serve(self, now: float, units: float) -> None:
        """Let a tick's requests through the bucket, then count."""
        self._due += units
        whole = int(self._due)
        self._due -= whole
        parts = min(whole, REQUESTS_PER_TICK)
        for part in range(parts):
            cost = whole // parts + (part < whole % parts)
            at = now - TICK_S + TICK_S * (part + 1) / parts
            self.bucket.try_acquire_at(at, float(cost))
        if now >= self._wake_s:
            self.step(now, self._columns.counted(now, self._uses))

    def step(self, now: float, event: Event) -> None:
        """Step the coordinator and carry out its effects."""
        for effect in self._brain.step(now, event, wall_s=now):
            if isinstance(effect, SetCeilings):
                if effect.keys is self._columns.keys:
                    self._columns.apply(effect, now)
            elif isinstance(effect, WakeAt):
                self._wake_s = effect.at_s
            elif isinstance(effect, Publish):
                self._outbox.append(effect.report)

    def reports(self) -> list[Report]:
        """Return what is to be sent since the last call."""
        sent, self._outbox = self._outbox, []
        return sent


_ARROW: dict[str, pa.DataType] = {
    "group_id": pa.int64(),
    "dimension": pa.string(),
    "agent": pa.string(),
    "attempted": pa.float64(),
    "admitted": pa.float64(),
    "admitted_then": pa.float64(),
    "refused_then": pa.float64(),
}


def _replayed(series: pa.Table, group: Group, window_s: float) -> pa.Table:
    """Return the effect on each agent of one group and dimension."""
    names = np.array(series.column("agent").to_pylist(), dtype=str)
    agents, agent = np.unique(names, return_inverse=True)
    second: NDArray[np.int64] = series.column("second").to_numpy()
    window = ((second - second.min()) // round(window_s)).astype(np.int64)
    attempted: Floats = series.column("attempted").to_numpy()
    admitted: Floats = series.column("admitted").to_numpy()
    demand = np.zeros((int(window.max()) + 1, len(agents)))
    np.add.at(demand, (window, agent), attempted)
    dimension = str(series.column("dimension").to_pylist()[0])
    then = replay(demand, group, dimension, window_s)
    rows = [
        {
            "group_id": group.id,
            "dimension": dimension,
            "agent": name,
            "attempted": float(attempted[agent == place].sum()),
            "admitted": float(admitted[agent == place].sum()),
            "admitted_then": float(then.admitted[place]),
            "refused_then": float(then.refused[place]),
        }
        for place, name in enumerate(agents.tolist())
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(_ARROW))
