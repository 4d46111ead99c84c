"""The contents of a scenario file as frozen values: groups, demand, faults, changes.

Times are simulated seconds from 0; rates are units/s; agents are indices from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isinf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Isolation, Mode

FaultKind = Literal[
    "crash",
    "leave",
    "pause",
    "partition",
    "cut",
    "loss",
    "duplicate",
    "reorder",
    "delay",
    "clock-jump",
    "duplicate-id",
    "liar",
    "corrupt",
]

Steps = tuple[tuple[float, float, float], ...]
"""Limits in order of time: from when (s), rate (units/s), burst (units)."""

DIMENSION = "requests"
"""The one dimension that a scenario counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One group at time 0.

    Attributes:
        name: Unique among the groups of the scenario.
        rate: Q, units/s; infinite where unlimited.
        burst: B, units, or None for one second of the rate that is in force.
        mode: Balanced or strict.
        may_owe: Whether a bucket admits while its level is ≥ 0.
        isolation: What an agent that is cut off may spend.
        parent: Name of the group that this one is part of, or None.
        weight: Among the siblings.
        minimum: Units/s set aside inside the parent.
        maximum: Units/s that it may take from its parent.
    """

    name: str = "group"
    rate: float
    burst: float | None = None
    mode: Mode = "balanced"
    may_owe: bool = True
    isolation: Isolation = "fair"
    parent: str | None = None
    weight: float = 1.0
    minimum: float = 0.0
    maximum: float = inf

    @property
    def owes(self) -> bool:
        """Whether one central bucket of this group may owe.

        A strict group keeps to Q·W + B in every window; a bucket that owes does not.
        """
        return self.may_owe and self.mode != "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPiece:
    """One piece of the demand; pieces add up.

    Attributes:
        agents: The agents whose callers make it.
        start_s: When it begins.
        until_s: When it ends.
        rate: Units/s for each agent (the mean if it is a sine).
        cost: Units of one request.
        poisson: Exponential gaps, or even ones.
        retry: A refused request comes again (see `RETRY_S`).
        group: Index of the group.
        period_s: Period of the sine, or None for a constant rate.
        phase_per_agent: Turns by which an agent's sine is ahead of its predecessor's.
        moves_every_s: Time after which the piece moves on to the next agents, or None.
    """

    agents: tuple[int, ...]
    start_s: float
    until_s: float
    rate: float
    cost: float = 1.0
    poisson: bool = True
    retry: bool = False
    group: int = 0
    period_s: float | None = None
    phase_per_agent: float = 0.0
    moves_every_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong for a span of time.

    Attributes:
        kind: What goes wrong.
        agents: The agents it affects; with a duplicate id, the first one's id is used.
        start_s: When it begins.
        until_s: When it ends.
        amount: The probability, the seconds or the multiplier of the kind.
    """

    kind: FaultKind
    agents: tuple[int, ...]
    start_s: float
    until_s: float
    amount: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """A group's limit changes.

    Attributes:
        at_s: When.
        rate: The new rate, units/s; infinite where unlimited.
        burst: The new burst; None keeps an explicit one, and a default one follows
            the rate.
        group: Index of the group.
    """

    at_s: float
    rate: float
    burst: float | None = None
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How reports travel, when nothing is wrong.

    Attributes:
        delay_s: One way.
        jitter_s: A random delay between 0 and this is added.
        loss: Probability per (report, receiver) that it is lost.
        duplicate: Likewise, that it arrives twice.
        reorder: Likewise, that it is held up long enough for later ones to pass it.
    """

    delay_s: float = 0.02
    jitter_s: float = 0.01
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole scenario file.

    Attributes:
        name: The file's name without its suffix.
        seconds: Simulated time.
        measure_from: Seconds of warm-up that are left out of the averages.
        seed: Where all randomness comes from.
        groups: At least one.
        agents: How many.
        weights: One per agent, in every group.
        interval_s: T, between two heartbeats.
        network: How reports travel.
        demands: Pieces of demand.
        faults: What goes wrong.
        changes: Of limits, in order of time.
        tree: Whether the file names its groups (`[[group]]`).
    """

    name: str
    seconds: float
    measure_from: float = 0.0
    seed: int = 1
    groups: tuple[GroupSpec, ...]
    agents: int
    weights: tuple[float, ...]
    interval_s: float = 1.0
    network: Network = field(default_factory=Network)
    demands: tuple[DemandPiece, ...] = ()
    faults: tuple[Fault, ...] = ()
    changes: tuple[LimitChange, ...] = ()
    tree: bool = False

    @property
    def slowest_s(self) -> float:
        """The longest that one report may be on its way, seconds."""
        delays = [fault.amount for fault in self.faults if fault.kind == "delay"]
        return self.network.delay_s + self.network.jitter_s + max(delays, default=0.0)

    def limits(self, group: int) -> Steps:
        """Return (from when, rate, burst) that a group is held to, in order of time.

        Inside another group, an unlimited one has that one's limit, and a maximum is a
        rate.
        """
        spec, own = self.groups[group], self.limits_as_set(group)
        if spec.parent is None:
            return own
        names = [other.name for other in self.groups]
        above = self.limits(names.index(spec.parent))
        held: list[tuple[float, float, float]] = []
        for start in sorted({start for start, _, _ in own + above}):
            rate, burst = _at(own, start)
            if isinf(rate):
                rate, burst = _at(above, start)
            if spec.maximum < inf:
                burst = spec.maximum if isinf(rate) else burst
                rate = min(rate, spec.maximum)
            if not held or held[-1][1:] != (rate, burst):
                held.append((start, rate, burst))
        return tuple(held)

    def limits_as_set(self, group: int) -> Steps:
        """Return (from when, rate, burst) as the group's file and its changes say."""
        spec = self.groups[group]
        explicit = spec.burst
        steps = [(0.0, spec.rate, default_burst(spec.rate, explicit))]
        for change in self.changes:
            if change.group != group:
                continue
            explicit = explicit if change.burst is None else change.burst
            step = (change.at_s, change.rate, default_burst(change.rate, explicit))
            steps.append(step)
        return tuple(steps)

    def demand_edges(self, group: int) -> tuple[float, ...]:
        """Return the times in (0, seconds) when a rate of demand steps."""
        edges: set[float] = set()
        for piece in self.demands:
            if piece.group != group or piece.until_s <= piece.start_s:
                continue
            edges.update((piece.start_s, piece.until_s))
            if piece.moves_every_s is not None:
                edges.update(start for start, _, _ in spans(piece, self.agents))
        return tuple(sorted(t for t in edges if 0 < t < self.seconds))

    @property
    def piecewise_constant(self) -> bool:
        """Whether no piece of demand is a sine."""
        return all(piece.period_s is None for piece in self.demands)


def _at(steps: Steps, time_s: float) -> tuple[float, float]:
    _, rate, burst = [step for step in steps if step[0] <= time_s][-1]
    return rate, burst


def default_burst(rate: float, explicit: float | None) -> float:
    """Return the burst in units: what was said, or one second of the rate."""
    if isinf(rate):
        return inf
    return rate if explicit is None else explicit


def spans(
    piece: DemandPiece, agents: int
) -> list[tuple[float, float, tuple[int, ...]]]:
    """Return (from, until, whose) for a piece that may move from agent to agent."""
    if piece.moves_every_s is None:
        return [(piece.start_s, piece.until_s, piece.agents)]
    moves = [piece.start_s]
    while moves[-1] < piece.until_s:
        moves.append(
            min(piece.start_s + len(moves) * piece.moves_every_s, piece.until_s)
        )
    return [
        (a, b, tuple((agent + step) % agents for agent in piece.agents))
        for step, (a, b) in enumerate(pairwise(moves))
    ]
