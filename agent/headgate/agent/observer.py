"""An observer hears every report and sends none; it serves the API, pages and metrics.

It keeps the same ledgers as the agents, with the same coordinator, so people see what
the agents compute.  It has no share of any group.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Self

import numpy as np

from headgate.agent.follow.liveness import LivenessFeed
from headgate.agent.runtime import Runtime, RuntimeOptions
from headgate.coordinator import Counted, Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headgate.agent.follow.policies import Policies
    from headgate.agent.follow.snapshot import Snapshot
    from headgate.coordinator import (
        AgentRow,
        Configuration,
        Explanation,
        Group,
        Limit,
        MemberView,
        Restored,
        SetCeilings,
        SetSlots,
        SlotView,
    )
    from headgate.coordinator.explain.views import MemberState

LEAST_WINDOW_S = 0.9
"""Shortest time over which rates are measured; a shorter one shows single requests."""

WINDOW_S = 2.5
"""Longest such time, roughly: long enough to even out a prediction that was taken back,
short enough to show a change while it matters."""

MOST_LIMITS = 2_000
"""Limits examined by one `look`, at 0.3 ms each; if more are in use, they take turns.
A limit that nobody uses costs nothing."""

FORGET_S = 60.0
"""How long an agent's counters are remembered after its row was last seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUse:
    """One agent's use of one limit.

    Attributes:
        agent: Its id.
        demand_per_s: Attempted units/s, refused ones included.
        share_per_s: Allocated units/s.
        ceiling_per_s: Units/s that its local bucket refills at.
        admitted_per_s: Admitted units/s, from its counters.
        refused_per_s: Refused units/s, from its counters.
        held_units: Tokens in its local bucket; below zero, a debt.
        subjects: Limiters (topics, producers) there that use the limit.
        age_s: Seconds since the row was true.
        state: As in `headgate.coordinator.explain.views.MemberView`.
        counted_units: What it has admitted since its incarnation began, as far as it is
            known or expected.
        incarnation: Its life.
    """

    agent: str
    demand_per_s: float
    share_per_s: float
    ceiling_per_s: float
    admitted_per_s: float
    refused_per_s: float
    held_units: float
    subjects: int
    age_s: float
    state: MemberState
    counted_units: float = 0.0
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """One cluster-scoped limit that agents use.

    Attributes:
        group: As configured.
        limit: As configured.
        level: E, tokens believed to be left; below zero, a debt.
        available_per_s: Q', units/s shared out now.
        theta_per_s: Water level of the max-min; infinite if all demand fits.
        error_units: Units by which the cluster is believed to have admitted more (+)
            or less (−) than a single bucket would have.
        agents: One row per agent, by id.
    """

    group: Group
    limit: Limit
    level: float
    available_per_s: float
    theta_per_s: float
    error_units: float
    agents: tuple[AgentUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything seen at one moment.

    Attributes:
        revision: Revision of the observer's configuration; None before the first.
        limits: Those that agents use, by dimension and group.
        in_flight: The groups that limit requests in flight, and who holds slots.
        members: All known agents, by id.
        lag_s: Lag of the bus, as far as a listener can tell.
        bus_open: Whether the bus could be opened.
        partitions: Number of the bus's partitions, all of which the observer reads;
            0 without a bus.
        counters: Of reports, drops and notices, by name.
    """

    revision: int | None
    limits: tuple[LimitUse, ...]
    in_flight: tuple[tuple[Group, tuple[SlotView, ...]], ...]
    members: tuple[MemberView, ...]
    lag_s: float
    bus_open: bool
    partitions: int
    counters: Mapping[str, int]


class Observer:
    """A member that only listens; as a context manager, it closes itself.

    Args:
        source: Returns the newest snapshot, or None if there is none yet; called by
            each `look`.
    """

    def __init__(self, source: Callable[[], Snapshot | None]) -> None:
        self._source = source
        name = f"observer-{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"
        options = RuntimeOptions(agent=name, observing=True)
        self._runtime = Runtime(_NoEnforcement(), options)
        self._liveness = LivenessFeed(self._runtime.identity, self._runtime.vouch)
        self._given: Snapshot | None = None
        self._meters: dict[tuple[int, str, str], RowMeter] = {}
        self._known: dict[tuple[str, int], tuple[Group, Limit]] = {}
        self._seen: dict[tuple[str, int], LimitUse] = {}
        self._begun: set[tuple[str, int]] = set()
        self._turn = 0
        self._looking = threading.Lock()
        self._leaving = threading.Lock()
        self._following = threading.Lock()
        self._runtime.start()
        self._follow()

    @property
    def listening(self) -> bool:
        """Whether the bus is open; from any thread."""
        return self._runtime.bus is not None

    def look(self) -> Sight:
        """Return the present state; call it about once a second, from any thread."""
        with self._looking:
            self._follow()
            now = monotonic()
            runtime = self._runtime
            snapshot, bus = runtime.snapshot, runtime.bus
            configuration = snapshot.configuration if snapshot is not None else None
            limits = self._limits(now)
            self._forget(now)
            return Sight(
                revision=configuration.revision if configuration else None,
                limits=tuple(limits),
                in_flight=self._in_flight(configuration),
                members=tuple(runtime.members()),
                lag_s=0.0 if bus is None else bus.lag(),
                bus_open=bus is not None,
                partitions=len(runtime.reads),
                counters={
                    **runtime.counters,
                    **({} if bus is None else bus.counters),
                },
            )

    def left(self) -> list[LimitUse]:
        """Return limits that agents used and have left, until `forget` is called.

        From any thread.
        """
        with self._leaving:
            used = self._note_begun()
            return self._look_at_each(self._begun - used)

    def use_of(self, limits: Iterable[tuple[str, int]]) -> list[LimitUse]:
        """Return some limits' use, of those in use or `left`.

        Args:
            limits: (dimension, group id) of each; from any thread.
        """
        with self._leaving:
            asked = set(limits)
            if not asked <= self._begun:
                self._note_begun()
            return self._look_at_each(asked & self._begun)

    def _note_begun(self) -> set[tuple[str, int]]:
        """Note which limits agents have begun to use; return those in use."""
        self._follow()
        used = set(self._runtime.used())
        self._begun.update(self._runtime.appeared(), used)
        return used

    def _look_at_each(self, keys: Iterable[tuple[str, int]]) -> list[LimitUse]:
        now = monotonic()
        seen = [self._look_at(key, now) for key in keys]
        return [use for use in seen if use is not None]

    def forget(self, left: Iterable[LimitUse]) -> None:
        """Return these no more, unless agents use them again."""
        with self._leaving:
            keys = {(use.limit.dimension, use.group.id) for use in left}
            self._begun = (self._begun & self._known.keys()) - keys

    def restore(self, levels: Restored) -> None:
        """Adopt levels that were stored before the observer started."""
        self._runtime.vouch(levels)

    def hear_of(self, presence: dict[str, object]) -> None:
        """Take what the API says about which agents are there, as agents get it."""
        self._liveness.take({"alive": presence})

    def explain(self, group_id: int, dimension: str) -> Explanation:
        """Return one ledger with all inputs, as the observer sees it.

        Raises:
            KeyError: There is no such cluster-scoped limit.
        """
        return self._runtime.explain(group_id, dimension)

    def _in_flight(
        self, configuration: Configuration | None
    ) -> tuple[tuple[Group, tuple[SlotView, ...]], ...]:
        groups = configuration.groups if configuration is not None else ()
        limited = (group for group in groups if group.slots is not None)
        return tuple((g, tuple(self._runtime.slots(g.id))) for g in limited)

    def slots(self, group_id: int) -> list[SlotView]:
        """Return how many slots in flight of a group each agent holds, by id."""
        return self._runtime.slots(group_id)

    def follow(self) -> None:
        """Adopt the newest configuration within some 0.1 s; from any thread."""
        self._follow()

    @property
    def revision(self) -> int:
        """Revision of the configuration that is followed; −1 before the first."""
        snapshot = self._runtime.snapshot
        return -1 if snapshot is None else snapshot.configuration.revision

    def grantable(self, group_id: int, dimension: str, agent: str) -> bool:
        """Return whether nobody can own a part of a strict limit that `agent` claims.

        False also if this observer has not listened since before the limit was made.
        """
        return self.listening and self._runtime.grantable(group_id, dimension, agent)

    def close(self) -> None:
        """Stop listening."""
        self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> None:
        """Adopt the newest configuration if it has changed."""
        with self._following:
            snapshot = self._source()
            if snapshot is not None and snapshot is not self._given:
                self._given = snapshot
                self._runtime.follow(snapshot)
                self._known = {
                    (limit.dimension, group.id): (group, limit)
                    for group in snapshot.configuration.groups
                    for limit in group.limits
                    if limit.scope == "cluster"
                }

    def _limits(self, now: float) -> list[LimitUse]:
        """Return the limits that agents use, some as they were a few looks ago."""
        used = turn = [key for key in self._runtime.used() if key in self._known]
        if len(used) > MOST_LIMITS:
            first = self._turn % len(used)
            self._turn = first + MOST_LIMITS
            turn = (used + used)[first : first + MOST_LIMITS]
        looked = {key: self._look_at(key, now) for key in turn}
        seen = {key: looked.get(key) or self._seen.get(key) for key in used}
        self._seen = {key: use for key, use in seen.items() if use and use.agents}
        return list(self._seen.values())

    def _look_at(self, key: tuple[str, int], now: float) -> LimitUse | None:
        """Return one limit's use; None if the runtime has no such limit."""
        if key not in self._known:
            return None
        group, limit = self._known[key]
        try:
            seen = self._runtime.explain(group.id, limit.dimension)
        except KeyError:
            return None  # the runtime has not adopted this configuration yet
        return LimitUse(
            group=group,
            limit=limit,
            level=seen.level,
            available_per_s=seen.available,
            theta_per_s=seen.theta,
            error_units=seen.error,
            agents=tuple(self._use(group.id, seen, row, now) for row in seen.agents),
        )

    def _use(
        self, group_id: int, seen: Explanation, row: AgentRow, now: float
    ) -> AgentUse:
        """Return one agent's use, with rates from its counters."""
        key = (group_id, seen.dimension, row.agent)
        meter = self._meters.setdefault(key, RowMeter())
        meter.read(row, now)
        return AgentUse(
            agent=row.agent,
            demand_per_s=row.attempted,
            share_per_s=row.share,
            ceiling_per_s=row.ceiling,
            admitted_per_s=meter.admitted_per_s,
            refused_per_s=meter.refused_per_s,
            held_units=row.held,
            counted_units=row.admitted + row.predicted,
            incarnation=row.incarnation,
            subjects=row.subjects,
            age_s=row.age_s,
            state=row.state,
        )

    def _forget(self, now: float) -> None:
        """Drop the meters of agents that are gone."""
        for key, meter in list(self._meters.items()):
            if now - meter.read_s > FORGET_S:
                del self._meters[key]


class RowMeter:
    """Turns the cumulative counters of one row into rates.

    A row that was not sent again is *as extrapolated*: what is admitted follows the
    prediction, and the rest of the demand is refused, if anything was refused before.
    """

    __slots__ = (
        "_admitted",
        "_measured",
        "_refused",
        "_refused_s",
        "admitted_per_s",
        "read_s",
        "refused_per_s",
    )

    def __init__(self) -> None:
        self.admitted_per_s = self.refused_per_s = 0.0
        self.read_s = 0.0
        self._admitted: deque[tuple[float, float]] = deque()
        self._refused, self._refused_s = 0.0, -np.inf
        self._measured = -1.0  # below zero: not yet

    def read(self, row: AgentRow, now: float) -> None:
        """Enter the counters of a row read at `now`."""
        self.read_s = now
        readings = self._admitted
        readings.append((now, row.admitted + row.predicted))
        while len(readings) > 2 and now - readings[1][0] >= WINDOW_S:
            readings.popleft()
        elapsed_s = now - readings[0][0]
        if elapsed_s >= LEAST_WINDOW_S:
            # A new incarnation counts from 0 again: no rate below zero.
            grown = max(readings[-1][1] - readings[0][1], 0.0)
            self.admitted_per_s = grown / elapsed_s
        self._read_refused(row, now - row.age_s)

    def _read_refused(self, row: AgentRow, told_s: float) -> None:
        """Enter the refused units of a row that held at `told_s`."""
        elapsed_s = told_s - self._refused_s
        fresh = row.age_s <= WINDOW_S
        if elapsed_s >= LEAST_WINDOW_S:
            grown = row.refused - self._refused
            self._measured = grown / elapsed_s if elapsed_s < FORGET_S else -1.0
            self._refused, self._refused_s = row.refused, told_s
        if fresh and self._measured >= 0.0:
            self.refused_per_s = min(self._measured, row.attempted)
        elif len(self._admitted) > 1:
            # If nothing was refused last, demand is the average of what has passed.
            rest = max(row.attempted - self.admitted_per_s, 0.0)
            self.refused_per_s = rest if self._measured else 0.0


class _NoEnforcement:
    """Enforces nothing: the `EnforcementPort` of a runtime that only observes."""

    def __init__(self) -> None:
        none = np.zeros(0)
        numbers = np.zeros(0, np.int64)
        self._counted = Counted(
            keys=Keys((), numbers, numbers),
            refused=none,
            admitted=none,
            held=none,
            cost=none,
            subjects=numbers,
        )

    def configure(
        self,
        configuration: Configuration,
        now: float,
        policies: Policies,
        wall_s: float | None = None,
    ) -> None:
        """Do nothing."""

    def counts(self, now: float) -> Counted:
        """Return no counters."""
        return self._counted

    def at_rest(self) -> bool:
        """Return False: people look at an observer's ledgers at any time."""
        return False

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Do nothing."""

    def hold(self, slots: SetSlots) -> None:
        """Do nothing."""
