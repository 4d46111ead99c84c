"""How the coordinator behaves: one frozen set of parameters, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite


class InvalidSettings(ValueError):
    """A parameter of the coordinator is outside what it can work with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Parameters of one agent's coordinator; the same on every agent of a cluster.

    Attributes:
        cluster: Name of the cluster; reports of other clusters are ignored.
        weight: Of this agent among all, > 0; told to the others in its reports.
        interval_s: T, the heartbeat.  1 s: thanks to urgent reports a shorter one buys
            nothing, and 5 s loses only the steadiness of totals.
        tick_s: Step between two looks at the counters while there is load.
            25 ms: the newest evidence that the demand estimate can be reset to.
        rest_tick_s: The same while no local bucket is used.
        urgent_gap_s: Least time between two reports.  50 ms bounds an agent to
            twenty reports a second whatever its demand does (27 if its looks take so
            long that it would speak more than a tick later otherwise).
        answer_gap_s: Least time between two answers to hellos.
        answer_gap_each_s: The same per other agent, if that is longer: an agent that is
            asked over and over, say by a hundred that start within seconds, then costs
            everyone a hundred messages a second, not two thousand.
        keyframe_every: Heartbeats from one report of all rows to the next.
        horizon_s: Longest H over which a surplus or debt is worked off.
        lease_min_intervals: Silence, in T, until a member counts as silent.
        lease_max_intervals: The same at worst, when reports are being lost.
        presumed_dead_s: M, how long after its lease a silent member is kept.
        slack_part: σ, the part of the slack that each ceiling may use.
        refresh_s: Oldest age of a busy ledger's allocation when nothing is heard.
        members_max: Members kept in the table; further ones are ignored.
    """

    cluster: str = "default"
    weight: float = 1.0
    interval_s: float = 1.0
    tick_s: float = 0.025
    rest_tick_s: float = 0.025
    urgent_gap_s: float = 0.05
    answer_gap_s: float = 0.05
    answer_gap_each_s: float = 0.01
    keyframe_every: int = 10
    horizon_s: float = 1.0
    lease_min_intervals: float = 3.0
    lease_max_intervals: float = 9.0
    presumed_dead_s: float = 30.0
    slack_part: float = 0.5
    refresh_s: float = 0.05
    members_max: int = 4096

    def __post_init__(self) -> None:
        for name in ("weight", "interval_s", "tick_s", "horizon_s", "presumed_dead_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                message = f"{name}: expected a finite number > 0, got {value}"
                raise InvalidSettings(message)
        if self.tick_s > self.interval_s:
            message = "tick_s: expected at most interval_s"
            raise InvalidSettings(message)
        if self.presumed_dead_s < self.lease_min_intervals * self.interval_s:
            message = "presumed_dead_s: expected at least a lease (3 × interval_s)"
            raise InvalidSettings(message)
