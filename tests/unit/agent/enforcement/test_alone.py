"""An agent alone decides what one central bucket decides, from the first request."""

from __future__ import annotations

from math import floor, inf

import numpy as np
import pytest
from tests.sample import thorough

from headgate.agent.enforcement.bucket_registry import Registry
from headgate.agent.enforcement.sampling import Columns
from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Event,
    Group,
    Heard,
    Limit,
    Publish,
    Report,
    Restored,
    SetCeilings,
    Settings,
    WakeAt,
)

NEAR = 1e-6
"""Units from the threshold within which rounding may decide."""


class Central:
    """One exact token bucket."""

    def __init__(self, rate: float, burst: float, *, may_owe: bool) -> None:
        self.rate, self.burst, self.may_owe = rate, burst, may_owe
        self.level, self.at = burst, 0.0

    def refill(self, now: float) -> None:
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now

    def spare(self, cost: float) -> float:
        """Return by how much the level is above what a cost needs."""
        return self.level - (0.0 if self.may_owe else cost)

    def fitting(self, each: float) -> float:
        return max(0.0, floor(self.level / each) + (1.0 if self.may_owe else 0.0))


class Alone:
    """One agent whose reports come back to itself alone."""

    def __init__(self, group: Group) -> None:
        configuration = Configuration(revision=1, groups=(group,))
        registry = Registry(1)
        registry.follow({1: group}, 0.0)
        local = registry.get(group, "requests", "cluster", 0.0)
        assert local is not None
        self.bucket = local.bucket
        self.columns = Columns([local], None)
        self.coordinator = Coordinator(
            Settings(), agent="a", incarnation=1, seed=1, now=0.0
        )
        self.echoes: list[tuple[float, Report]] = []
        self.wake_s = 0.0
        burst = np.array([group.limits[0].burst])
        self.step(0.0, Restored("requests", np.array([1]), burst))
        self.step(0.0, Configured(configuration, agents=1))
        self.tick(0.0)

    def tick(self, now: float) -> None:
        self.step(now, self.columns.counted(now, {1: 1}))

    def step(self, now: float, event: Event) -> None:
        for effect in self.coordinator.step(now, event, wall_s=now):
            if isinstance(effect, SetCeilings):
                self.columns.apply(effect, now)
            elif isinstance(effect, Publish):
                self.echoes.append((now + 0.02, effect.report))
            elif isinstance(effect, WakeAt):
                self.wake_s = effect.at_s

    def run_until(self, now: float) -> None:
        """Let reports come back and ticks happen, in order of time."""
        while True:
            echo_s = self.echoes[0][0] if self.echoes else inf
            due_s = min(echo_s, self.wake_s)
            if due_s > now:
                return
            if echo_s <= self.wake_s:
                self.step(echo_s, Heard((self.echoes.pop(0)[1],)))
            else:
                self.tick(due_s)


@pytest.mark.long
@pytest.mark.parametrize("may_owe", [True, False])
@pytest.mark.parametrize("seed", [0, *thorough(*range(1, 12))])
def test_an_agent_alone_decides_as_one_central_bucket(seed: int, may_owe: bool) -> None:
    random = np.random.default_rng([seed, may_owe])
    rate = float(10 ** random.uniform(-1, 3))
    burst = float(rate * 10 ** random.uniform(-1, 2))
    limit = Limit(dimension="requests", rate=rate, burst=burst)
    alone = Alone(Group(id=1, name="g", limits=(limit,), may_owe=may_owe))
    central = Central(rate, burst, may_owe=may_owe)
    now, load = 0.0, float(random.uniform(0.3, 3.0))
    mean = burst * float(10 ** random.uniform(-2, 0.1))
    decided = refused = 0
    for _ in range(25):
        alone.run_until(now)
        central.refill(now)
        cost = mean * float(random.uniform(0.1, 1.9))
        spare = central.spare(cost)
        close = abs(spare) < NEAR * max(1.0, burst)
        if close or (not may_owe and cost > burst):
            now += float(random.exponential(mean / rate / load))
            continue
        each = max(cost / 7.0, 1e-9)
        assert alone.bucket.level_at(now) == pytest.approx(
            central.level, abs=NEAR * burst
        )
        if abs(central.level / each - round(central.level / each)) > NEAR:
            assert alone.bucket.fitting_at(now, each) == central.fitting(each)
        delay_s = alone.bucket.try_acquire_at(now, cost)
        assert (delay_s == 0.0) == (spare > 0.0)
        decided += 1
        if spare > 0.0:
            central.level -= cost
        else:
            refused += 1
            assert delay_s == pytest.approx(-spare / rate, rel=1e-6, abs=1e-5)
        now += float(random.exponential(mean / rate / load))
        if random.random() < 0.02:
            now += 9.0  # a rest, after which the bucket has expired and is full
    assert decided > 10


@pytest.mark.long
def test_kip599_seven_creations_of_80_topics_pass_at_once() -> None:
    limit = Limit(dimension="requests", rate=5.0, burst=500.0)
    alone = Alone(Group(id=1, name="g", limits=(limit,)))
    delays = [alone.bucket.try_acquire_at(0.0, 80.0) for _ in range(8)]
    assert delays == [0.0] * 7 + [12.0]
    alone.run_until(200.0)
    assert alone.bucket.fitting_at(200.0, 1.0) == 501.0
