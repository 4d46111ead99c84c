"""Everything that is fixed before a run: its arrivals and the buckets needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.simulation.world.arrivals import generate
from headgate.simulation.world.bucket_replay import BucketReplay
from headgate.simulation.world.faults import down_spans
from headgate.simulation.world.node import AppliedCeilings
from headgate.simulation.world.record import SimulationRun

if TYPE_CHECKING:
    from headgate.simulation.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A run that has not started.

    Attributes:
        record: With arrivals, and nothing admitted.
        streams: Requests of each agent by group index.
        used: Indices of the groups that have a bucket in every agent: the groups
            that are charged, and their ancestors.
    """

    record: SimulationRun
    streams: list[dict[int, BucketReplay]]
    used: tuple[int, ...]


def prepare(scenario: Scenario, seed: int, strategy: str) -> Prepared:
    """Draw the arrivals of a scenario, without those that hit a stopped process."""
    gaps = [down_spans(scenario, i) for i in range(scenario.agents)]
    arrivals = [
        [a.outside(gaps[i]) for i, a in enumerate(agents)]
        for agents in generate(scenario, seed)
    ]
    used = tuple(range(len(scenario.groups)))
    streams = [
        {g: BucketReplay(arrivals[g][i], gaps[i]) for g in range(len(scenario.groups))}
        for i in range(scenario.agents)
    ]
    record = SimulationRun(
        scenario=scenario,
        seed=seed,
        strategy=strategy,
        gaps=gaps,
        arrivals=arrivals,
        ceilings=[
            [AppliedCeilings() for _ in range(scenario.agents)] for _ in scenario.groups
        ],
    )
    return Prepared(record, streams, used)
