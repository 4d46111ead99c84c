"""A caller that comes back after the delay it was given, while nobody else asks."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.sample import thorough

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.world.arrivals import AgentArrivals
from headgate.simulation.world.bucket_replay import BucketReplay
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from collections.abc import Callable

BATCHES, COST = 7, 80.0
NOTHING = AgentArrivals(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))


class Patient(BucketReplay):
    """Asks for one batch after the other, each again after the delay it was given."""

    def __init__(self, at_s: float) -> None:
        super().__init__(NOTHING, [])
        self.due_s, self.costs = at_s, deque([COST] * BATCHES)
        self.refusals = [0] * BATCHES

    @property
    def next_s(self) -> float:
        return self.due_s if self.costs else inf

    def advance(self, until_s: float, acquire: Callable[[float, float], float]) -> None:
        while self.next_s < until_s:
            delay_s = acquire(self.due_s, self.costs[0])
            if delay_s == 0.0:
                self.admitted_s.append(self.due_s)
                self.admitted_units.append(self.costs.popleft())
            else:
                self.refusals[BATCHES - len(self.costs)] += 1
                self.due_s += delay_s


@pytest.mark.long
@pytest.mark.parametrize("agents", [2, 8])
@pytest.mark.parametrize("delay_s", [0.02, *thorough(0.1, 0.2)])
def test_kip599_who_returns_after_the_delay_within_a_full_bucket_is_admitted(
    agents: int, delay_s: float
) -> None:
    """Whatever the moment between two looks at which it asks."""
    scenario = parse_scenario(
        {
            "seconds": 11,
            "group": {"rate": 5.0, "burst": 500.0},
            "agents": {"count": agents},
            "network": {"delay": delay_s},
            "demand": [{"agents": [0], "rate": 0.001}],
        },
        name="returns",
    )
    for phase in range(8):
        engine = SimulationEngine(
            scenario, seed=1, strategy="headgate", make_controller=real_coordinator
        )
        caller = Patient(8.0 + 0.011 * phase)
        engine._prepared.streams[0][0] = caller  # pyright: ignore[reportPrivateUsage]
        engine.run()
        assert not caller.costs
        assert max(caller.refusals) <= 1
