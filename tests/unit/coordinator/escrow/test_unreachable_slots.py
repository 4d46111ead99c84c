"""Slots of an agent that can reach nobody: none is handed out twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.scenarios.world import DIMENSION, Process, World

from headgate.coordinator import (
    ApiAnswers,
    Counted,
    Group,
    Limit,
    SetSlots,
    SlotCount,
)

if TYPE_CHECKING:
    from headgate.coordinator import Effect

SLOTS = 30


class SlotWorld(World):
    """A world with a group of slots, of which each agent wants more than its part."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, SetSlots] = {}
        limit = Limit(dimension=DIMENSION, rate=1000.0, burst=1000.0)
        self.groups[1] = Group(id=1, name="g", limits=(limit,), slots=SLOTS)
        self._configure()

    def _counted(self, process: Process) -> Counted:
        return replace(super()._counted(process), slots=(SlotCount(1, 0, 20),))

    def _perform(self, process: Process, effect: Effect) -> None:
        if isinstance(effect, SetSlots):
            self.given[process.name] = effect
        else:
            super()._perform(process, effect)

    def held(self) -> dict[str, int]:
        """Return how many slots each may hand out now."""
        return {
            name: sum(given.may_hold.values()) if given.deadline_s > self.now else 0
            for name, given in self.given.items()
        }


@pytest.mark.long
def test_an_agent_that_reaches_nobody_hands_out_no_slots_that_others_may_have() -> None:
    world = SlotWorld()
    for name in "abc":
        world.start(name)
    world.run(4.0)
    assert sum(world.held().values()) == SLOTS
    world.apart.append({"c"})
    world.step(world.processes["c"], ApiAnswers(answers=False))
    world.vouch("c", alive=False)
    for _ in range(200):
        world.run(0.025)
        assert sum(world.held().values()) <= SLOTS
    assert world.held()["c"] == 0
    assert sum(world.held().values()) == SLOTS
