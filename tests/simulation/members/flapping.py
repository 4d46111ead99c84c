"""Agents that are cut off again and again, and one bucket to compare them with."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.members.members import Member, Members, configured, limit

from headgate.coordinator import Group

if TYPE_CHECKING:
    from collections.abc import Iterable


def levels(members: Members, of: Iterable[int]) -> list[float]:
    """Return the level of the group as each of some agents believes now."""
    return [
        members.all[n].coordinator.explain(1, "requests", members.now).level for n in of
    ]


class Bucket:
    """One central bucket for the same requests, in the order of time."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.level, self.at = burst, 0.0

    def take(self, at: float, units: float) -> None:
        """Charge a request that was admitted; 0 units show what is left."""
        self.level = min(self.burst, self.level + self.rate * (at - self.at)) - units
        self.at = at


class Flapping:
    """Agents that are each cut off for some seconds, again and again, until 20 s.

    How, their attribute says: `off`, `deaf` or `late`.
    """

    def __init__(self, seed: int, how: str) -> None:
        self.chance, self.how = Random(seed), how
        self.bucket = Bucket(200.0, 12_000.0)
        self.number = self.chance.choice((2, 3, 3, 5))
        limits = (limit(self.bucket.rate, self.bucket.burst),)
        groups = configured(Group(id=1, name="g", limits=limits))
        delay_s = self.chance.choice((0.004, 0.02, 0.06))
        self.members = Members(groups, self.number, delay_s=delay_s)

    def play(self, from_s: float = 5.0) -> list[float]:
        """Return by how many units each agent's level is too high in the end.

        Args:
            from_s: When they begin to be cut off, at the earliest.
        """
        self._spend()
        self._lose_the_bus(from_s)
        self.members.run(28.0)
        self.bucket.take(self.members.now, 0.0)
        found = levels(self.members, range(self.number))
        return [level - self.bucket.level for level in found]

    def _spend(self) -> None:
        """Let two ask for much, and in half of the cases all for little."""
        members, chance = self.members, self.chance
        for n in range(self.number):
            members.at(0.1 + 0.1 * n, partial(self._ask, n, 1.0))
        members.at(2.0, partial(self._ask, 0, 6_000.0))
        at_s, cost = chance.uniform(4.0, 12.0), chance.choice((1.0, 3_000.0, 5_000.0))
        members.at(at_s, partial(self._ask, self.number - 1, cost))
        if chance.random() < 0.5:
            per_s = chance.choice((0.5, 5.0, 50.0))
            for n in range(self.number):
                members.at(3.0 + chance.random(), partial(self._go_on, n, per_s))

    def _lose_the_bus(self, from_s: float) -> None:
        """Let them begin to be cut off, all at once or one after another."""
        gap_s = self.chance.choice((1.0, 3.0))
        together = self.chance.random() < 0.4
        for each in self.members.all:
            first_s = from_s if together else from_s + self.chance.uniform(0.0, 3.0)
            self.members.at(first_s, partial(self._cut_off, each, gap_s))

    def _ask(self, member: int, cost: float) -> None:
        if self.members.ask(member, "g", cost):
            self.bucket.take(self.members.now, cost)

    def _go_on(self, member: int, per_s: float) -> None:
        self._ask(member, 1.0)
        next_s = self.members.now + self.chance.expovariate(per_s)
        self.members.at(next_s, partial(self._go_on, member, per_s))

    def _cut_off(self, member: Member, gap_s: float) -> None:
        if self.members.now > 20.0:
            return
        until_s = self.members.now + self.chance.uniform(2.5, 4.5)
        setattr(member, self.how, [] if self.how == "late" else True)
        self.members.at(until_s, partial(self._back, member))
        again_s = until_s + self.chance.expovariate(1.0 / gap_s)
        self.members.at(again_s, partial(self._cut_off, member, gap_s))

    def _back(self, member: Member) -> None:
        member.off = member.deaf = False
        self.members.deliver(member)
