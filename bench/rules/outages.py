"""Agents that heard nothing for a while: how far their levels are from one bucket's.

``PYTHONPATH=. .venv/bin/python bench/rules/outages.py`` simulates random clusters of
two to six agents that are cut off for 1 to 40 s, all or some of them, that come back
together or one after another, that are heard but hear nothing, or of which one leaves
meanwhile.  A second and a half after they all hear each other again, or after the last
large request, it compares each level with that of one central bucket for the same
requests.  It takes five minutes of a core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.simulation.members.members import Members, configured, limit

from headgate.coordinator import Group

RUNS = 200
KINDS = ("all cut off", "some cut off", "some hear nothing", "cut off, one leaves")
SILENCES_S = (1.0, 2.0, 3.5, 5.0, 10.0, 40.0)
FROM_S = 5.0
LARGE_UNTIL_S = 15.0
BACK_S = 2.0
"""Within how long agents come back, where they don't at once."""

FAR = 0.1
"""Part of the burst by which a level is far off, if what flowed in while agents heard
nothing does not explain it."""


@dataclass
class Run:
    """One random cluster, and what its agents admitted.

    Attributes:
        admitted: When, how much, and by which agent, in the order of time.
    """

    seed: int
    admitted: list[tuple[float, float, int]] = field(
        default_factory=list[tuple[float, float, int]]
    )

    def __post_init__(self) -> None:
        self.chance = chance = Random(self.seed)
        self.kind, self.silent_s = chance.choice(KINDS), chance.choice(SILENCES_S)
        self.rate = chance.choice((1.0, 2.0, 10.0, 50.0))
        self.burst = self.rate * chance.choice((5.0, 30.0, 150.0, 1000.0))
        self.cost = chance.choice((1.0, self.burst / 100.0, self.burst / 20.0))
        number = chance.choice((2, 2, 3, 3, 4, 6))
        group = Group(id=1, name="g", limits=(limit(self.rate, self.burst),))
        other = Group(id=2, name="other", limits=(limit(10.0),))
        delay_s = chance.choice((0.004, 0.02, 0.06))
        self.members = Members(configured(group, other), number, delay_s=delay_s)
        for n in range(number):
            self.members.ask(n, "other")

    def play(self) -> tuple[float, float]:
        """Return how far the farthest of the levels is off, in bursts.

        Above 0 if it is too high: as such, and beyond what flowed in while agents heard
        nothing.  What an agent that left had admitted without the bus nobody can know.
        """
        members, chance = self.members, self.chance
        number = len(members.all)
        users = [n for n in range(number) if chance.random() < 0.7]
        for n in users:
            members.at(chance.uniform(0.0, 1.0), partial(self._ask, n, self.cost))
        load = chance.choice((0.0, 0.5, 2.0)) * self.rate
        begins_s = chance.choice((1.0, 6.0, 25.0))
        for n in users if load else ():
            per_s = load / self.cost / len(users)
            members.at(
                begins_s + chance.random() / per_s, partial(self._go_on, n, per_s)
            )
        for _ in range(chance.randint(0, 2)):
            large = self.burst * chance.choice((0.1, 0.5, 0.9))
            at = chance.uniform(1.0, LARGE_UNTIL_S)
            members.at(at, partial(self._ask, chance.randrange(number), large))
        members.run(FROM_S)
        self._silence(number)
        members.run(max(FROM_S + self.silent_s + BACK_S, LARGE_UNTIL_S) + 1.5)
        offs = [self._off(n) for n in range(number)]
        as_such, unexplained = zip(*offs, strict=True)
        return max(as_such, key=abs), max(unexplained, key=abs)

    def _silence(self, number: int) -> None:
        chance, until_s = self.chance, FROM_S + self.silent_s
        within_s = chance.choice((0.0, 0.0, BACK_S))
        how = "deaf" if self.kind == KINDS[2] else "off"
        for each in self.members.all:
            if self.kind in (KINDS[0], KINDS[3]) or chance.random() < 0.6:
                setattr(each, how, True)
                at = until_s + chance.uniform(0.0, within_s)
                self.members.at(at, partial(setattr, each, how, False))
        if self.kind == KINDS[3]:
            at, leaving = chance.uniform(FROM_S, until_s), chance.randrange(number)
            self.members.at(at, partial(self.members.leave, leaving))

    def _ask(self, member: int, units: float) -> None:
        if not self.members.all[member].gone and self.members.ask(member, "g", units):
            self.admitted.append((self.members.now, units, member))

    def _go_on(self, member: int, per_s: float) -> None:
        self._ask(member, self.cost)
        next_s = self.members.now + self.chance.expovariate(per_s)
        self.members.at(next_s, partial(self._go_on, member, per_s))

    def _off(self, member: int) -> tuple[float, float]:
        level, at, unheard, members = self.burst, 0.0, 0.0, self.members
        for when, units, by in self.admitted:
            level = min(self.burst, level + self.rate * (when - at)) - units
            at = when
            unheard += units if members.all[by].gone and when > FROM_S - 0.1 else 0.0
        level = min(self.burst, level + self.rate * (members.now - at))
        one = members.all[member]
        if one.gone:
            return 0.0, 0.0
        try:
            found = one.coordinator.explain(1, "requests", members.now).level
        except KeyError:  # it never used the group
            return 0.0, 0.0
        flowed = self.rate * (self.silent_s + BACK_S) + 3.0 * self.cost
        as_such = min(found - level, 0.0) + max(found - level - unheard, 0.0)
        unexplained = min(as_such + flowed, 0.0) + max(as_such - flowed, 0.0)
        return as_such / self.burst, unexplained / self.burst


def main() -> None:
    """Print how many levels are far off, and the worst ones, for each kind."""
    off: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for seed in range(RUNS):
        run = Run(seed)
        off[run.kind].append(run.play())
    for kind, found in off.items():
        as_such, unexplained = zip(*found, strict=True)
        low = sum(each < -FAR for each in unexplained)
        high = sum(each > FAR for each in unexplained)
        print(
            f"{kind}: of {len(found)} too low {low}, too high {high}; at worst by "
            f"{_worst(unexplained)} bursts, with what flowed in {_worst(as_such)}"
        )


def _worst(off: tuple[float, ...]) -> str:
    return f"{min(0.0, *off):.2f} and +{max(0.0, *off):.2f}"


if __name__ == "__main__":
    main()
