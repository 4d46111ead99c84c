"""What sets an agent's ceilings: the real coordinator or another strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from headgate.coordinator import Configuration, Coordinator, Group, Limit, Settings
from headgate.simulation.scenario.scenario import DIMENSION

if TYPE_CHECKING:
    from headgate.coordinator import Effect, Event
    from headgate.simulation.scenario.scenario import Scenario

Strategy = Literal["headgate", "static", "usage-proportional", "steal", "max-min"]
STRATEGIES: tuple[Strategy, ...] = (
    "headgate",
    "static",
    "usage-proportional",
    "steal",
    "max-min",
)


class Controller(Protocol):
    """Turns events into effects."""

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        """Handle one event and return its effects."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a new process knows about itself.

    Attributes:
        index: Index of the agent in the scenario.
        agent: Its id.
        incarnation: Larger than that of its earlier lives.
        seed: Its own.
        now: Simulated time.
        wall_s: Its wall clock.
    """

    index: int
    agent: str
    incarnation: int
    seed: int
    now: float
    wall_s: float


def agent_name(index: int) -> str:
    """Return the id of an agent of a scenario."""
    return f"agent-{index}"


def settings_of(scenario: Scenario, index: int) -> Settings:
    """Return the coordinator's parameters for one agent, as the agent sets them."""
    interval_s = scenario.interval_s
    usual = Settings()
    return Settings(
        weight=scenario.weights[index],
        interval_s=interval_s,
        tick_s=min(usual.tick_s, interval_s),
        presumed_dead_s=max(
            usual.presumed_dead_s, usual.lease_max_intervals * interval_s
        ),
    )


def real_coordinator(scenario: Scenario, birth: Birth) -> Controller:
    """Return the coordinator that real agents run."""
    return Coordinator(
        settings_of(scenario, birth.index),
        agent=birth.agent,
        incarnation=birth.incarnation,
        seed=birth.seed,
        now=birth.now,
    )


def configuration_at(scenario: Scenario, now: float) -> Configuration:
    """Return the configuration in force; its revision counts the changes so far."""
    changes = sum(change.at_s <= now for change in scenario.changes)
    ids = {group.name: place + 1 for place, group in enumerate(scenario.groups)}
    groups: list[Group] = []
    for place, spec in enumerate(scenario.groups):
        _, rate, burst = [s for s in scenario.limits_as_set(place) if s[0] <= now][-1]
        limit = Limit(
            dimension=DIMENSION,
            rate=rate,
            burst=burst,
            minimum=spec.minimum,
            maximum=spec.maximum,
        )
        group = Group(
            id=ids[spec.name],
            name=spec.name,
            limits=(limit,),
            parent=None if spec.parent is None else ids[spec.parent],
            weight=spec.weight,
            mode=spec.mode,
            may_owe=spec.may_owe,
            isolation=spec.isolation,
        )
        groups.append(group)
    return Configuration(revision=changes + 1, groups=tuple(groups))
