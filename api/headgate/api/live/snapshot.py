"""The picture: what the cluster was seen to do at one moment, as frozen values.

The observer paints one each second; history, event streams, metrics and the page
only read it.  Rates are units per second, levels are units.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import Literal

from headgate.coordinator.config.configuration import Period
from headgate.coordinator.escrow.slots import SlotView
from headgate.coordinator.explain.views import MemberState

Pressure = Literal["over", "near", "calm"]
"""``over`` refuses, ``near`` is at the soft threshold, ``calm`` is below."""

NEAR = 0.8
"""Fraction of the rate from which a limit without a soft threshold counts as near."""

OVER_REFUSED = 0.02
"""Fraction of attempts below which refusals are just the noise of arrivals: local
buckets are small, and now and then one refuses what the cluster had room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAgentUse:
    """One agent's part of one limit.

    Attributes:
        agent: Its id.
        demand_per_s: Attempted units/s, refused ones included.
        share_per_s: Allocated units/s.
        ceiling_per_s: Units/s that its local bucket refills at.
        admitted_per_s: Admitted units/s, lately.
        refused_per_s: Refused units/s, lately.
        held_units: Tokens in its local bucket; below zero it is a debt.
        subjects: Limiters (topics, producers) that use the limit there.
        age_s: Seconds since the row was true.
        state: As in `headgate.coordinator.explain.views.MemberView`.
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

    @property
    def attempted_per_s(self) -> float:
        """Units/s admitted or refused lately: unlike the demand, it adds up."""
        return self.admitted_per_s + self.refused_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One limit (group × dimension, cluster scope) that agents use.

    Attributes:
        group_id: Id of the group.
        group: Its name.
        dimension: What is counted.
        rate: Units per period; infinite where unlimited.
        period_s: Seconds that `rate` counts for.
        period: Its calendar period, if it has one; else None.
        burst: B, units.
        soft_threshold: Part of the rate from which callers are warned, or None.
        level: E, tokens left as believed; below zero a debt.
        available_per_s: Q', units/s shared out now.
        error_units: How far the cluster is believed to be over (+) or under (−)
            what a single bucket would have admitted.
        agents: One row per agent, by id.
    """

    group_id: int
    group: str
    dimension: str
    rate: float
    period_s: float
    period: Period | None = None
    burst: float
    soft_threshold: float | None = None
    level: float
    available_per_s: float
    error_units: float = 0.0
    agents: tuple[LiveAgentUse, ...] = ()

    @property
    def rate_per_s(self) -> float:
        """Q: the limit in units per second."""
        return self.rate / self.period_s

    @property
    def demand_per_s(self) -> float:
        """Demand of all agents' callers, units/s."""
        return sum(row.demand_per_s for row in self.agents)

    @property
    def admitted_per_s(self) -> float:
        """Units/s admitted by all agents."""
        return sum(row.admitted_per_s for row in self.agents)

    @property
    def attempted_per_s(self) -> float:
        """Units/s that all agents admitted or refused lately."""
        return self.admitted_per_s + self.refused_per_s

    @property
    def refused_per_s(self) -> float:
        """Units/s refused by all agents."""
        return sum(row.refused_per_s for row in self.agents)

    @property
    def used_units(self) -> float | None:
        """Units used of the present calendar period; None without one, or no limit."""
        if self.period is None or self.rate == inf:
            return None
        return max(0.0, self.rate - self.level)

    @property
    def utilisation(self) -> float:
        """Admitted part of the rate; 0 where unlimited, 1 where the rate is 0.

        For a calendar period, the fraction of its units that is used.
        """
        if self.rate == 0:
            return 1.0 if self.demand_per_s > 0 else 0.0
        used = self.used_units
        if used is not None:
            return used / self.rate
        return self.admitted_per_s / self.rate_per_s

    @property
    def pressure(self) -> Pressure:
        """Return how close demand is to the limit, as a state."""
        refuses = self.refused_per_s > OVER_REFUSED * self.demand_per_s
        # Refusals by a group inside this one, or by one around it, count as well.
        short = self.demand_per_s > self.rate_per_s or self.level < 0.5 * self.burst
        if refuses and short:
            return "over"
        near = NEAR if self.soft_threshold is None else self.soft_threshold
        return "near" if self.utilisation >= near else "calm"


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The slots of one group.

    Attributes:
        group: Its name.
        group_id: Id of the group.
        slots: Most requests in flight at once.
        holders: The agents that hold, want or may hand out some, by id.
    """

    group: str
    group_id: int
    slots: int
    holders: tuple[SlotView, ...] = ()

    @property
    def in_use(self) -> int:
        """Slots that are held, as last reported."""
        return sum(holder.in_use for holder in self.holders)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSeen:
    """One agent as the observer hears it.

    Attributes:
        agent: Its id.
        incarnation: Its life.
        age_s: Seconds since it was last heard.
        lag_s: How long its reports take to arrive.
        loss: Fraction of its reports that do not arrive.
        state: ``silent`` past the lease, ``disbelieved`` when it can't be true.
        revision: Revision of its configuration.
    """

    agent: str
    incarnation: int
    age_s: float
    lag_s: float
    loss: float
    state: MemberState
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Everything that was seen at one moment.

    Attributes:
        at_s: Wall clock, seconds since the epoch.
        number: Grows by one with each picture of this process.
        revision: Revision of the observer's configuration.
        uses: Limits in use, each once.
        in_flight: Groups that limit requests in flight, each once.
        agents: All agents that are known, by id.
        lag_s: How long a report takes from sender to here.
        bus_open: Whether the bus could be opened.
        partitions: Number of partitions of the bus; with several, each agent reads only
            those of its groups.
        counters: Of reports, drops and notices, by name.
    """

    at_s: float
    number: int = 0
    revision: int = 0
    uses: tuple[Use, ...] = ()
    in_flight: tuple[InFlight, ...] = ()
    agents: tuple[AgentSeen, ...] = ()
    lag_s: float = 0.0
    bus_open: bool = True
    partitions: int = 1
    counters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def cut_to(
    picture: ClusterSnapshot | None, groups: Collection[str]
) -> ClusterSnapshot | None:
    """Return `picture` with only these `groups`, and nothing about agents."""
    if picture is None:
        return None
    uses = tuple(use for use in picture.uses if use.group in groups)
    in_flight = tuple(one for one in picture.in_flight if one.group in groups)
    return replace(picture, uses=uses, in_flight=in_flight, agents=())
