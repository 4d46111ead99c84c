"""One ledger is computed as numbers, several as columns: they say the same."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

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
    SetCeilings,
    Settings,
)
from headgate.coordinator.allocation.last_ceilings import IF_SHARED
from headgate.coordinator.messages.events import Ceilings

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSION = "requests"
AGENTS = 3
TICK_S = 0.025
TICKS = 400

KINDS: dict[str, dict[str, Any]] = {
    "balanced": {},
    "no debt": {"may_owe": False},
    "hold": {"isolation": "hold"},
    "open": {"isolation": "open"},
    "closed": {"isolation": "closed"},
    "strict": {"mode": "strict"},
}


class Cluster:
    """Agents whose callers use each of some groups alike."""

    def __init__(self, size: int, kind: dict[str, Any], rate: float) -> None:
        limit = Limit(dimension=DIMENSION, rate=rate, burst=20.0)
        ids = np.arange(1, size + 1)
        groups = tuple(
            Group(id=int(i), name=f"g{i}", limits=(limit,), **kind) for i in ids
        )
        configuration = Configuration(revision=1, groups=groups)
        self.keys = Keys((DIMENSION,), np.zeros(size, dtype=np.int64), ids)
        self.size, self.now = size, 0.0
        self.counters = np.zeros((AGENTS, 2))
        self.on_the_way: list[tuple[int, Report]] = []
        self.agents = [
            Coordinator(Settings(), agent=f"a{i}", incarnation=1, seed=i, now=0.0)
            for i in range(AGENTS)
        ]
        for agent in self.agents:
            agent.step(0.0, Configured(configuration), wall_s=0.0)

    def tick(
        self, grown: NDArray[np.float64], cost: float, *, deaf: bool
    ) -> list[tuple[int, Ceilings]]:
        """Let a tick pass; return what each agent was told to do with group 1.

        Args:
            grown: ``float64[AGENTS, 2]`` units admitted and refused.
            cost: Units of a request.
            deaf: Reports are lost.
        """
        self.now += TICK_S
        self.counters += grown
        arrived, self.on_the_way = self.on_the_way, []
        told: list[tuple[int, Ceilings]] = []
        for i, agent in enumerate(self.agents):
            for _, report in arrived if not deaf else ():
                effects = agent.step(self.now, Heard((report,)), wall_s=self.now)
                told += self.take(i, effects)
            admitted, refused = np.repeat(self.counters[i, :, None], self.size, axis=1)
            counted = Counted(
                self.keys,
                refused,
                admitted,
                np.full(self.size, 1.0),
                np.full(self.size, cost),
                np.ones(self.size, dtype=np.int64),
                clipped=np.zeros(self.size),
                overflowed=np.zeros(self.size),
            )
            told += self.take(i, agent.step(self.now, counted, wall_s=self.now))
        return told

    def take(self, agent: int, effects: list[Effect]) -> list[tuple[int, Ceilings]]:
        told: list[tuple[int, Ceilings]] = []
        for effect in effects:
            if isinstance(effect, Publish):
                self.on_the_way.append((agent, effect.report))
            elif isinstance(effect, SetCeilings):
                first = effect.index == 0
                assert first.any()
                told.append((agent, effect.ceilings.at(first)))
        return told


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["balanced", "strict", *thorough("no debt", "hold", "open", "closed")]
)
@pytest.mark.parametrize("rate", [*thorough(5.0), 300.0])
def test_one_limit_is_told_what_it_is_told_beside_another(
    kind: str, rate: float
) -> None:
    random = np.random.default_rng(len(kind))
    alone, beside = (Cluster(size, KINDS[kind], rate) for size in (1, 2))
    changes = 0
    for tick in range(TICKS):
        busy = random.random((AGENTS, 2)) < (0.02 if 250 < tick < 320 else 0.4)
        grown = busy * random.choice([1.0, 8.0]) * min(1.0, rate / 40.0)
        deaf = 120 < tick < 240 or bool(random.random() < 0.05)
        told = [one.tick(grown, 1.0 + tick % 3, deaf=deaf) for one in (alone, beside)]
        assert [agent for agent, _ in told[0]] == [agent for agent, _ in told[1]]
        for (_, number), (_, column) in zip(*told, strict=True):
            changes += 1
            for each in fields(Ceilings):
                a, b = getattr(number, each.name), getattr(column, each.name)
                assert a.shape == b.shape == (1,)
                assert a.dtype == b.dtype
                # numpy's exponential rounds in another way.
                same = np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
                means = number.shared.all() or each.name not in IF_SHARED
                assert same or not means, (tick, each.name, a, b)
    assert changes > TICKS
