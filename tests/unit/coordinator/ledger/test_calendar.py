"""Calendar periods: a ledger that earns nothing, and starts over at a boundary."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.scenarios.world import DIMENSION, Process, World

from headgate.coordinator import (
    Configuration,
    Configured,
    Group,
    Limit,
    Restored,
)
from headgate.coordinator.config.configuration import (
    InvalidConfiguration,
    limits_in_force,
)

if TYPE_CHECKING:
    from headgate.coordinator import Event

HOURLY = Limit(dimension=DIMENSION, rate=100, burst=100, period="hour", period_s=3600.0)


class Calendar(World):
    """A world in which each process looks at a calendar by its own clock."""

    def __init__(self, *, fast_s: float = 0.0) -> None:
        super().__init__()
        self.fast_s = fast_s
        self.began_s: dict[str, float] = {}
        self.limit = HOURLY

    def wall_s(self, name: str) -> float:
        """Return the wall clock of a process; that of ``a`` may be fast."""
        return self.now + 3_580.0 + (self.fast_s if name == "a" else 0.0)

    def step(self, process: Process, event: Event) -> None:
        wall_s = self.wall_s(process.name)
        if isinstance(event, Configured):
            began_s = self.began_s[process.name] = wall_s // 3600.0 * 3600.0
            limit = replace(self.limit, begins_at_s=began_s)
            groups = (Group(id=1, name="g", limits=(limit,)),)
            event = Configured(Configuration(revision=1, groups=groups))
        for effect in process.coordinator.step(self.now, event, wall_s=wall_s):
            self._perform(process, effect)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.025)):
            for process in self.processes.values():
                began_s = self.wall_s(process.name) // 3600.0 * 3600.0
                if began_s != self.began_s[process.name]:
                    self.step(process, Configured(Configuration()))
            super().run(0.025)

    def levels(self) -> list[float]:
        return [
            process.coordinator.explain(1, DIMENSION, self.now).level
            for process in self.processes.values()
        ]


def two(*, fast_s: float = 0.0) -> Calendar:
    world = Calendar(fast_s=fast_s)
    world.group(1, rate=100, burst=100)
    for name in ("a", "b"):
        world.start(name)
        world.step(world.processes[name], stored(100.0))
    world.run(3.0)
    return world


def stored(level: float, *, age_s: float = 0.0) -> Restored:
    return Restored(DIMENSION, np.array([1]), np.array([level]), age_s)


def test_ably_nothing_is_earned_within_a_period() -> None:
    world = two()
    world.use("a", 1, 60, 0)
    world.use("b", 1, 30, 0)
    world.run(12.0)
    assert world.levels() == pytest.approx([10, 10], abs=1e-6)


@pytest.mark.parametrize("fast_s", [0.0, 0.3, 2.0])
def test_ably_a_period_begins_full_whatever_was_used_and_whose_clock_is_fast(
    fast_s: float,
) -> None:
    world = two(fast_s=fast_s)
    world.use("a", 1, 60, 0)
    world.use("b", 1, 40, 0)
    world.run(12.0)
    assert world.levels() == pytest.approx([0, 0], abs=1e-6)
    world.load("b", 1, 0, 5)  # it reports levels all the time
    world.run(12.0)
    assert world.levels() == pytest.approx([100, 100], abs=1e-6)


@pytest.mark.long
def test_ably_a_clock_far_ahead_begins_anew_alone_and_the_others_charge_its_use() -> (
    None
):
    world = two()
    world.use("a", 1, 60, 0)
    world.use("b", 1, 40, 0)
    world.run(3.0)
    world.fast_s = 7_200.0
    world.run(1.0)
    assert world.levels() == pytest.approx([100, 0], abs=1e-6)
    world.use("a", 1, 70, 0)
    world.run(3.0)
    assert world.levels() == pytest.approx([30, -70], abs=1e-6)
    world.fast_s = 0.0  # corrected, it is in the others' period, by its own account
    world.run(8.0)
    assert world.levels() == pytest.approx([30, -70], abs=1e-6)
    for name in ("a", "b"):
        world.load(name, 1, 0, 5)  # they report levels all the time
    world.run(12.0)
    # The 70 were admitted twice.  By a's account nothing is owed for them, by b's all:
    # they meet half-way.
    assert world.levels() == pytest.approx([65, 65], abs=5.0)


def test_ably_a_debt_is_owed_to_the_next_period() -> None:
    world = two()
    world.use("a", 1, 130, 0)
    world.run(20.0)
    assert world.levels() == pytest.approx([70, 70], abs=1e-6)


def test_ably_what_was_used_stays_used_when_the_quota_is_changed() -> None:
    world = two()
    world.use("a", 1, 60, 0)
    world.run(3.0)
    for rate, left in ((200.0, 140.0), (50.0, 0.0), (0.0, 0.0), (100.0, 40.0)):
        world.limit = replace(HOURLY, rate=rate, burst=rate)
        for process in world.processes.values():
            world.step(process, Configured(Configuration()))
        world.run(3.0)
        assert world.levels() == pytest.approx([left, left], abs=1e-6)


def test_ably_what_was_used_beyond_a_lowered_quota_is_not_owed_to_the_next_period() -> (
    None
):
    world = two()
    world.use("a", 1, 60, 0)
    world.run(3.0)
    world.limit = replace(HOURLY, rate=50.0, burst=50.0)
    for process in world.processes.values():
        world.step(process, Configured(Configuration()))
    world.run(20.0)
    assert world.levels() == pytest.approx([50, 50], abs=1e-6)


def test_what_a_lowered_quota_withheld_is_free_once_nothing_was_limited() -> None:
    world = two()
    world.use("a", 1, 60, 0)
    for rate in (50.0, inf, 200.0, 300.0):
        world.run(3.0)
        world.limit = replace(HOURLY, rate=rate, burst=rate)
        for process in world.processes.values():
            world.step(process, Configured(Configuration()))
    world.run(3.0)
    assert world.levels() == pytest.approx([300, 300], abs=1e-6)


@pytest.mark.parametrize(
    ("age_s", "level", "left"),
    [(10.0, 40.0, 40.0), (3_580.5, 40.0, 100.0), (86_400.0, -7.0, 93.0)],
)
def test_ably_a_stored_level_of_an_earlier_period_is_that_of_a_new_one(
    age_s: float, level: float, left: float
) -> None:
    world = Calendar()
    world.group(1, rate=100, burst=100)
    world.start("a")
    world.step(world.processes["a"], stored(level, age_s=age_s))
    world.run(3.0)
    assert world.levels() == pytest.approx([left], abs=1e-6)


def test_a_group_without_a_limit_of_its_own_has_its_parents_calendar() -> None:
    free = Limit(dimension=DIMENSION, rate=float("inf"), burst=float("inf"))
    above = replace(HOURLY, begins_at_s=7_200.0)
    groups = limits_in_force(
        [
            Group(id=1, name="above", limits=(above,)),
            Group(id=2, name="below", limits=(free,), parent=1),
        ]
    )
    assert groups[2].limits == (above,)


def test_a_strict_group_can_have_no_calendar_period() -> None:
    with pytest.raises(InvalidConfiguration, match="mode: expected balanced"):
        Group(id=1, name="g", limits=(HOURLY,), mode="strict")
