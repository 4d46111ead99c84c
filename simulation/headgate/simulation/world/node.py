"""One simulated process: a controller around the real buckets of an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.enforcement.bucket_registry import Registry
from headgate.agent.enforcement.sampling import Columns
from headgate.coordinator import (
    Claim,
    Configuration,
    Configured,
    Noticed,
    Publish,
    Renamed,
    Restored,
    SetCeilings,
    WakeAt,
)
from headgate.coordinator.config.configuration import limits_in_force
from headgate.simulation.scenario.scenario import DIMENSION
from headgate.simulation.world.bucket_replay import serve_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.local import LocalBucket
    from headgate.coordinator import Effect, Event, Report
    from headgate.coordinator.config.configuration import Group
    from headgate.simulation.controllers.controller import Birth, Controller
    from headgate.simulation.world.bucket_replay import BucketReplay


@dataclass(slots=True)
class AppliedCeilings:
    """What one bucket was set to, in order of time: lists of equal length.

    Attributes:
        at_s: When.
        ceiling: Units/s until the deadline.
        share: Allocated units/s.
        capacity: Units.
        deadline_s: When the ceiling ends.
        reserve: Units/s after the deadline.
    """

    at_s: list[float] = field(default_factory=list[float])
    ceiling: list[float] = field(default_factory=list[float])
    share: list[float] = field(default_factory=list[float])
    capacity: list[float] = field(default_factory=list[float])
    deadline_s: list[float] = field(default_factory=list[float])
    reserve: list[float] = field(default_factory=list[float])

    def add(self, now: float, values: tuple[float, float, float, float, float]) -> None:
        """Append (ceiling, share, capacity, deadline, reserve)."""
        self.at_s.append(now)
        for column, value in zip(
            (self.ceiling, self.share, self.capacity, self.deadline_s, self.reserve),
            values,
            strict=True,
        ):
            column.append(value)


@dataclass(slots=True)
class Life:
    """One incarnation of an agent, as it ended or as it is now.

    Attributes:
        birth: What it began with.
        agent: The id that it uses now.
        names: All ids that it used.
        ended_s: When the process ended, or infinity.
        killed: Whether it ended without a goodbye.
        refused: True counters at the end, units, by group index.
        admitted: Likewise.
    """

    birth: Birth
    agent: str
    names: set[str] = field(default_factory=set[str])
    ended_s: float = inf
    killed: bool = False
    refused: dict[int, float] = field(default_factory=dict[int, float])
    admitted: dict[int, float] = field(default_factory=dict[int, float])


class Node:
    """One agent from its birth to its end.

    Attributes:
        life: Its record.
        controller: What decides.
        buckets: By group index.
        wake_s: When the controller wants to be stepped next.
        wakes: How often `wake_s` has changed; older wake-up calls are void.
        called: The value of `wakes` for which a call is under way.
        outbox: Reports to be put on the bus, in order.
        claims: Questions to the API, in order.
        noticed: Counts by kind.
        followed: The configuration that it uses.
        told: What its buckets were set to, by group index.
    """

    def __init__(
        self,
        birth: Birth,
        controller: Controller,
        *,
        groups: tuple[int, ...],
        streams: dict[int, BucketReplay],
        ceilings: dict[int, AppliedCeilings],
    ) -> None:
        """Start with closed buckets.

        Args:
            birth: What the process knows about itself.
            controller: What decides.
            groups: Indices of the groups that have a bucket here.
            streams: Requests by group index; shared by all lives of an agent.
            ceilings: Where to write what buckets are set to, by group index.
        """
        self.life = Life(birth, birth.agent, {birth.agent})
        self.controller = controller
        self.wake_s = inf
        self.wakes = 0
        self.called = 0
        self.outbox: list[Report] = []
        self.claims: list[Claim] = []
        self.noticed: dict[str, int] = {}
        self._registry = Registry(birth.seed)
        self._columns: Columns | None = None
        self.buckets: dict[int, Bucket] = {}
        self._groups = groups
        self._stream_of = streams
        self._streams: list[tuple[BucketReplay, Callable[[float, float], float]]] = []
        self.told = ceilings
        self.followed = Configuration()
        self._uses = {group + 1: 1 for group in groups}

    def configure(
        self,
        now: float,
        wall_s: float,
        wanted: Configuration,
        agents: int | None = None,
    ) -> None:
        """Follow a new configuration at once.

        Args:
            now: Simulated time.
            wall_s: Its wall clock.
            wanted: The configuration in force.
            agents: The number of agents that run; None if nobody tells it.
        """
        self.followed = wanted
        groups = limits_in_force(wanted.groups)
        self._registry.follow(groups, now)
        if self._columns is None:
            self._make_buckets(now, groups)
        if now == 0.0:
            self._restore(now, wall_s, groups)
        self.step(now, wall_s, Configured(wanted, agents))
        self.tick(now, wall_s)

    def serve(self, until_s: float) -> None:
        """Pass the requests before a time through the buckets."""
        if any(bucket.above is not None for bucket in self.buckets.values()):
            serve_in_order(self._streams, until_s)
            return
        for stream, acquire in self._streams:
            stream.advance(until_s, acquire)

    def tick(self, now: float, wall_s: float) -> None:
        """Hand the counters to the controller."""
        if self._columns is not None:
            self.wake_s = inf
            self.step(now, wall_s, self._columns.counted(now, self._uses))

    def step(self, now: float, wall_s: float, event: Event) -> None:
        """Step the controller and perform its effects, except reports."""
        for effect in self.controller.step(now, event, wall_s=wall_s):
            self._perform(now, effect)

    def end(self, now: float, *, killed: bool) -> None:
        """Record the true counters of a process that ends."""
        self.life.ended_s = now
        self.life.killed = killed
        self.count()

    def count(self) -> None:
        """Record the true counters."""
        for group, bucket in self.buckets.items():
            self.life.refused[group] = bucket.refused
            self.life.admitted[group] = bucket.admitted

    def _restore(self, now: float, wall_s: float, groups: dict[int, Group]) -> None:
        """Learn from the API that nobody has used the groups yet, so they are full."""
        ids = np.array(sorted(groups), dtype=np.int64)
        limits = [groups[i].limits[0] for i in ids.tolist()]
        level = np.array([limit.burst for limit in limits])
        self.step(now, wall_s, Restored(DIMENSION, ids, level))

    def _perform(self, now: float, effect: Effect) -> None:
        if isinstance(effect, SetCeilings):
            self._set_ceilings(now, effect)
        elif isinstance(effect, WakeAt):
            if effect.at_s < self.wake_s:
                self.wake_s = effect.at_s
                self.wakes += 1
        elif isinstance(effect, Publish):
            self.outbox.append(effect.report)
        elif isinstance(effect, Claim):
            self.claims.append(effect)
        elif isinstance(effect, Renamed):
            self.life.agent = effect.agent
            self.life.names.add(effect.agent)
        elif isinstance(effect, Noticed):
            self.noticed[effect.kind] = self.noticed.get(effect.kind, 0) + 1

    def _make_buckets(self, now: float, groups: dict[int, Group]) -> None:
        locals_: list[LocalBucket] = []
        for place in self._groups:
            local = self._registry.get(groups[place + 1], DIMENSION, "cluster", now)
            if local is not None:
                locals_.append(local)
                bucket = self.buckets[place] = local.bucket
                stream = self._stream_of[place]
                self._streams.append((stream, bucket.try_acquire_at))
        self._columns = Columns(locals_, None)

    def _set_ceilings(self, now: float, effect: SetCeilings) -> None:
        if self._columns is None or self._columns.keys is not effect.keys:
            return
        self._columns.apply(effect, now)
        terms = effect.ceilings
        columns = zip(
            effect.index.tolist(),
            terms.ceiling.tolist(),
            terms.share.tolist(),
            terms.capacity.tolist(),
            effect.deadline_s.tolist(),
            terms.reserve.tolist(),
            strict=True,
        )
        for place, *told in columns:
            group = self._columns.locals[int(place)].group.id - 1
            ceiling, share, capacity, deadline_s, reserve = told
            self.told[group].add(now, (ceiling, share, capacity, deadline_s, reserve))
