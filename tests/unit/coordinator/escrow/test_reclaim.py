"""What ended lives owned changes hands, and the parts never sum to more than one."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.sample import thorough
from tests.scenarios.world import DELAY_S, Process, World

from headgate.coordinator import Vouched

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator import Report

RATE = 1000.0


class Strict(World):
    """A world with a strict group, where each report may miss each of the others."""

    def __init__(self, names: str, *, loss: float = 0.0) -> None:
        super().__init__()
        self.loss = loss
        self.random = Random(7)
        self.group(1, rate=RATE, burst=RATE, mode="strict")
        for name in names:
            self.begin(name)
        self.watch(8.0)

    def _send(self, process: Process, report: Report) -> None:
        for name in self.processes:
            lost = name != process.name and self.random.random() < self.loss
            if self._joined(process.name, name) and not lost:
                self.flying.append((self.now + DELAY_S, name, report))

    def begin(self, name: str, *, incarnation: int = 1) -> None:
        """Start a process that wants more than it can have."""
        self.start(name, incarnation=incarnation)
        self.load(name, 1, 200, 400)

    def total(self) -> float:
        """Return the sum of all ceilings."""
        ceilings = [p.ceilings.get(1) for p in self.processes.values()]
        return sum(float(c.ceilings.ceiling[0]) for c in ceilings if c is not None)

    def watch(self, seconds: float) -> None:
        """Let time pass; the ceilings sum to at most the rate all the time."""
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.run(0.25)
            assert self.total() <= RATE + 1e-6, f"at {self.now} s"

    def watch_until_all_is_owned(self) -> None:
        """Let time pass until all of the rate is owned again, a minute at most."""
        until = self.now + 60.0
        while self.total() < 0.95 * RATE:
            assert self.now < until, f"{self.total()} of {RATE} after a minute"
            self.watch(1.0)
        self.watch(15.0)


def the_smallest_is_killed_and_starts_anew(world: Strict) -> None:
    world.kill("a")
    world.watch(2.0)
    world.begin("a", incarnation=2)
    world.watch(8.0)


def two_are_killed_and_start_anew(world: Strict) -> None:
    world.kill("a")
    world.watch(0.5)
    world.kill("b")
    world.watch(2.0)
    world.begin("a", incarnation=2)
    world.begin("b", incarnation=2)
    world.watch(8.0)


def the_next_life_is_killed_too(world: Strict) -> None:
    world.kill("a")
    world.watch(2.0)
    world.begin("a", incarnation=2)
    world.watch(7.5)
    world.kill("a")
    world.watch(2.0)
    world.begin("a", incarnation=3)
    world.watch(8.0)


def one_leaves_and_a_newcomer_is_the_smallest(world: Strict) -> None:
    world.stop("a")
    world.vouch("a", alive=False)
    world.watch(2.0)
    world.begin("A")
    world.step(world.processes["A"], Vouched("a", 1, alive=False))
    world.watch(8.0)


def one_is_killed_and_a_newcomer_is_the_smallest(world: Strict) -> None:
    world.kill("a")
    world.vouch("a", alive=False)
    world.watch(5.0)
    world.begin("A")
    world.step(world.processes["A"], Vouched("a", 1, alive=False))
    world.watch(8.0)


@pytest.mark.long
@pytest.mark.parametrize("loss", [*thorough(0.0), 0.2])
@pytest.mark.parametrize(
    "deaths",
    [
        the_next_life_is_killed_too,
        *thorough(
            the_smallest_is_killed_and_starts_anew,
            two_are_killed_and_start_anew,
            one_leaves_and_a_newcomer_is_the_smallest,
        ),
        one_is_killed_and_a_newcomer_is_the_smallest,
    ],
)
def test_parts_of_the_ended_are_owned_again_and_never_twice(
    deaths: Callable[[Strict], None], loss: float
) -> None:
    world = Strict("abcd", loss=loss)
    deaths(world)
    world.watch_until_all_is_owned()


@pytest.mark.long
@pytest.mark.thorough
def test_all_but_two_restart_again_and_again() -> None:
    world = Strict("abcdez")
    for life in range(2, 6):
        for name in "bcde":
            world.stop(name)
            world.watch(1.5)
            world.begin(name, incarnation=life)
            world.watch(4.0)
    world.watch_until_all_is_owned()


@pytest.mark.thorough
@pytest.mark.long
def test_what_was_given_where_nobody_could_hear_is_not_taken() -> None:
    world = Strict("abcd")
    world.apart.append({"c", "d"})
    world.load("c", 1, 10, 0)
    world.watch(3.0)  # c gives to d, which a and b can't hear
    world.kill("c")
    world.watch(1.0)
    world.vouch("c", alive=False)
    world.watch(20.0)
    world.apart.clear()
    world.watch_until_all_is_owned()
