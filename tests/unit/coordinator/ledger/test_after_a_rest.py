"""Three agents, at rest until one of them spends the whole burst."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.sample import thorough

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Effect,
    Group,
    Heard,
    Keys,
    Limit,
    Publish,
    Report,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

RATE = BURST = 1000.0
LAG_S, TICK_S, STEP_S = 0.005, 0.025, 0.001
RESTED_S = 4.0
AGENTS = "abc"
KEYS = Keys(("requests",), np.zeros(2, dtype=np.int64), np.array([1, 2]))
GROUPS = tuple(
    Group(
        id=number,
        name=f"g{number}",
        limits=(Limit(dimension="requests", rate=RATE, burst=BURST),),
    )
    for number in (1, 2)
)


class Cluster:
    """Coordinators that hear one another after a lag, and count what they are told."""

    def __init__(self) -> None:
        self.on_their_way: list[tuple[float, Report]] = []
        self.admitted = {agent: np.zeros(2) for agent in AGENTS}
        self.refused = {agent: np.zeros(2) for agent in AGENTS}
        self.agents = {
            agent: Coordinator(Settings(), agent=agent, incarnation=1, seed=i, now=0.0)
            for i, agent in enumerate(AGENTS)
        }
        for each in self.agents.values():
            each.step(
                0.0, Configured(Configuration(revision=1, groups=GROUPS)), wall_s=0.0
            )
        self._ticks = {agent: 0.008 * i for i, agent in enumerate(AGENTS)}
        self._now = 0.0

    def run(self, until_s: float, *, busy: str = "") -> None:
        """Let time pass; agents that are `busy` use the other group at each tick."""
        while self._now < until_s:
            self._now = round(self._now + STEP_S, 6)
            while self.on_their_way and self.on_their_way[0][0] <= self._now:
                report = self.on_their_way.pop(0)[1]
                for each in self.agents.values():
                    heard = Heard((report,))
                    self._send(each.step(self._now, heard, wall_s=self._now))
            for agent, at_s in self._ticks.items():
                if self._now >= at_s:
                    self.admitted[agent][1] += agent in busy
                    self._count(agent)
                    self._ticks[agent] = self._now + TICK_S

    def levels(self) -> dict[str, float]:
        """Return what each agent takes the first group's level to be."""
        return {
            agent: each.explain(1, "requests", self._now).level
            for agent, each in self.agents.items()
        }

    def _count(self, agent: str) -> None:
        counted = Counted(
            KEYS,
            refused=self.refused[agent].copy(),
            admitted=self.admitted[agent].copy(),
            held=np.full(2, BURST),
            cost=np.array([BURST, 1.0]),
            subjects=np.ones(2, dtype=np.int64),
        )
        self._send(self.agents[agent].step(self._now, counted, wall_s=self._now))

    def _send(self, effects: Iterable[Effect]) -> None:
        reports = [each.report for each in effects if isinstance(each, Publish)]
        self.on_their_way += [(self._now + LAG_S, report) for report in reports]


@pytest.mark.long
@pytest.mark.parametrize("spent", [*thorough(1.0, 6.0), BURST])
@pytest.mark.parametrize(
    "first", ["rests", *thorough("busy elsewhere", "refuses"), "spends"]
)
def test_what_one_agent_spends_after_a_rest_is_charged_by_all(
    first: str, spent: float
) -> None:
    """Whenever it is spent, and whatever the first agent does at that time."""
    for start_ms in range(0, 1000, 73):
        cluster = Cluster()
        spends_s = RESTED_S + start_ms / 1000.0
        cluster.run(spends_s - 0.01, busy="a" if first == "busy elsewhere" else "")
        if first == "refuses":
            cluster.refused["a"][0] += 2.0 * BURST
        cluster.run(spends_s)
        cluster.admitted["c"][0] += spent
        if first == "spends":
            cluster.admitted["a"][0] += spent
        cluster.run(spends_s + 0.3)
        levels = cluster.levels()
        # What flowed in within an age of information may be counted differently.
        most = RATE * 0.12
        assert max(levels.values()) - min(levels.values()) < most, (spends_s, levels)
