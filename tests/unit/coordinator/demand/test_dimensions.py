"""Several dimensions of one group: what one blocks, another must not set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Group,
    Heard,
    Keys,
    Limit,
    Publish,
    SetCeilings,
    Settings,
)

if TYPE_CHECKING:
    from headgate.coordinator.messages.report import Report

TICK_S = 0.025
BYTES, MESSAGES = 0, 1
GROUP = Group(
    id=1,
    name="g",
    limits=(
        Limit(dimension="bytes", rate=10_000.0, burst=10_000.0),
        Limit(dimension="messages", rate=100.0, burst=100.0),
    ),
)


class Caller:
    """An agent whose callers attempt messages of one size at a steady rate.

    Args:
        name: Of the agent.
        messages: Attempted per second.
        size: Bytes of each.
    """

    def __init__(self, name: str, *, messages: float, size: float) -> None:
        self.attempted = np.array([messages * size, messages])
        self.size = size
        self.ceiling = np.zeros(2)
        self.admitted, self.refused = np.zeros((2, 2))
        self.keys = Keys(
            ("bytes", "messages"), np.array([0, 1]), np.ones(2, dtype=np.int64)
        )
        self.coordinator = Coordinator(
            Settings(), agent=name, incarnation=1, seed=1, now=0.0
        )
        configured = Configured(Configuration(revision=1, groups=(GROUP,)))
        self.coordinator.step(0.0, configured, wall_s=0.0)

    def tick(self, now: float) -> list[Report]:
        """Let a tick's requests through the chain, and return what is told."""
        passing = min(1.0, float((self.ceiling / self.attempted).min()))
        self.admitted += passing * self.attempted * TICK_S
        self.refused += (1.0 - passing) * self.attempted * TICK_S
        counted = Counted(
            self.keys,
            self.refused.copy(),
            self.admitted.copy(),
            np.zeros(2),
            np.array([self.size, 1.0]),
            np.ones(2, dtype=np.int64),
        )
        told: list[Report] = []
        for effect in self.coordinator.step(now, counted, wall_s=now):
            if isinstance(effect, SetCeilings):
                self.ceiling[effect.index] = effect.ceilings.ceiling
            elif isinstance(effect, Publish):
                told.append(effect.report)
        return told


def admitted_bytes(callers: list[Caller], seconds: float) -> list[float]:
    """Return bytes/s that each admits over the last five seconds."""
    under_way: list[Report] = []
    before: list[float] = []
    for i in range(1, round(seconds / TICK_S) + 1):
        now = i * TICK_S
        arrived, under_way = under_way, []
        for caller in callers:
            for report in arrived:
                caller.coordinator.step(now, Heard((report,)), wall_s=now)
        for caller in callers:
            under_way += caller.tick(now)
        if i == round((seconds - 5.0) / TICK_S):
            before = [float(caller.admitted[BYTES]) for caller in callers]
    return [
        (float(caller.admitted[BYTES]) - start) / 5.0
        for caller, start in zip(callers, before, strict=True)
    ]


@pytest.mark.long
def test_bytes_that_messages_block_are_left_to_the_others() -> None:
    # Of 1,000 messages/s at most 100 pass: 800 bytes/s, whatever is attempted.
    many = Caller("many", messages=1000.0, size=8.0)
    large = Caller("large", messages=10.0, size=2000.0)
    of_many, of_large = admitted_bytes([many, large], 15.0)
    assert of_many < 850.0
    assert of_large > 9_000.0
    assert of_many + of_large == pytest.approx(10_000.0, rel=0.05)


@pytest.mark.long
def test_what_is_told_is_the_demand_that_the_other_dimension_lets_through() -> None:
    many = Caller("many", messages=1000.0, size=8.0)
    large = Caller("large", messages=10.0, size=2000.0)
    admitted_bytes([many, large], 10.0)
    view = large.coordinator.explain(1, "bytes", 10.0)
    told = {row.agent: row.demand for row in view.agents}
    assert told["many"] < 0.15 * many.attempted[BYTES]
    # Demand far above the water level is not reported again: it moves no share.
    assert told["large"] > 10_000.0
