"""The record of a run, for metrics, checkers and plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.coordinator import Report
    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.arrivals import AgentArrivals
    from headgate.simulation.world.node import AppliedCeilings, Life

Admissions = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""Times and units of what was admitted, in order of time."""


@dataclass(frozen=True, slots=True)
class Published:
    """A report that an agent put on the bus.

    Attributes:
        at_s: When.
        index: Index of the agent.
        size: Bytes.
        report: What receivers decode.
    """

    at_s: float
    index: int
    size: int
    report: Report


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        time: Simulated seconds.
        name: Name of the invariant.
        detail: What was seen and what was expected.
    """

    time: float
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class UnreportedUsage:
    """What a killed process admitted without ever reporting it.

    Attributes:
        agent: Its id.
        incarnation: Its life.
        group: Index of the group.
        units: Admitted since the last report that was delivered.
    """

    agent: str
    incarnation: int
    group: int
    units: float


@dataclass(slots=True, eq=False, kw_only=True)
class SimulationRun:
    """One scenario with one seed and one strategy.

    Attributes:
        scenario: What was simulated.
        seed: Source of the randomness.
        strategy: Its name.
        gaps: Spans in which the arrivals of an agent are lost, [agent].
        arrivals: First attempts that were offered, [group][agent].
        admitted: What agents admitted, [group][agent].
        refused: What they refused, [group][agent]: ``float64[N, 3]`` of time, cost
            and the seconds that the caller was asked to wait.
        central: What the yardstick admitted, [group].
        ceilings: The ceilings that were applied to buckets, [group][agent].
        lives: All incarnations, in order of birth.
        published: All reports, in order of time.
        noticed: Anomalies that controllers noticed, counted by kind.
        untold: What killed processes never reported.
        violations: Invariants broken.
    """

    scenario: Scenario
    seed: int
    strategy: str
    gaps: list[list[tuple[float, float]]]
    arrivals: list[list[AgentArrivals]]
    admitted: list[list[Admissions]] = field(default_factory=list["list[Admissions]"])
    refused: list[list[NDArray[np.float64]]] = field(
        default_factory=list["list[NDArray[np.float64]]"]
    )
    central: list[Admissions] = field(default_factory=list["Admissions"])
    ceilings: list[list[AppliedCeilings]]
    lives: list[Life] = field(default_factory=list["Life"])
    published: list[Published] = field(default_factory=list[Published])
    noticed: dict[str, int] = field(default_factory=dict[str, int])
    untold: list[UnreportedUsage] = field(default_factory=list[UnreportedUsage])
    violations: list[Violation] = field(default_factory=list[Violation])
