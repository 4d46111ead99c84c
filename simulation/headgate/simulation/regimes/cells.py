"""The grid: every sensible combination of size, rate, burst, load, skew and loss.

A cell has no units: rates are costs per one-way delay, bursts are costs.  Each cell
becomes a scenario that starts at time 0 with a full bucket and lasts until about sixty
admissions are expected, or until it would be too expensive to simulate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from math import isclose
from operator import attrgetter
from random import Random
from typing import Literal

from headgate.simulation.measure.excess import information_age_s
from headgate.simulation.scenario.scenario import (
    DemandPiece,
    GroupSpec,
    Network,
    Scenario,
)

Skew = Literal["alike", "half", "mover"]

DELAY_S = 0.025
"""δ: the mean time that a report travels in these cells, seconds."""

AGENTS = (1, 2, 4, 16, 50)
PER_DELAY = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
BURST_COSTS = (1.0, 6.0, 60.0, 1000.0)
BURST_S = (0.1, 1.0, 10.0, 60.0, 3600.0)
LOADS = (0.6, 1.0, 2.0, 5.0)
SKEWS: tuple[Skew, ...] = ("alike", "half", "mover")
LOSSES = (0.0, 0.2)

COSTS = (1.0, 80.0)
"""Units of one request, used in turn: nothing may depend on the unit."""

SAME_BURST = 1.6
"""Bursts within this factor count as one: B/cost and B/Q name the same bucket."""

ADMISSIONS = 60.0
"""Admissions that a cell should last for, so that a single one is at most 2 %."""

SHORTEST_S = 5.0
"""Seconds of the shortest cell, unless its requests would be too many."""

DRAINED = 2.5
"""A bucket should be empty after this fraction of an overloaded cell (1 / 2.5)."""

MOST_AGENT_SECONDS = 1_600.0
"""Most simulated seconds times agents: about ten seconds of CPU."""

MOST_REQUESTS = 60_000.0
"""Most requests of a cell, for the same reason."""

LEAST_OFFERED = 15.0
"""A cell with fewer requests than this says nothing."""

TENTH = 10
"""The sample that the tests run contains one cell in this many."""

SAMPLE_WORK = 700.0
"""Work of the sample for each n and Q·δ/cost (see `Cell.work`)."""

MOST_SAMPLE_WORK = 1_500.0
"""Most work of a cell that is included because it would be the only one of its kind;
the whole sample takes about a minute of CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination.

    Attributes:
        agents: n.
        per_delay: Q·δ/cost: costs that the rate earns while a report is on its way.
        burst_costs: B/cost.
        load: Demand of all agents, as a multiple of Q.
        skew: Whether all want the same, the first wants half of the total, or one
            wants everything, and which one that is changes.
        may_owe: Whether a request passes at a level ≥ 0, or must fit.
        loss: Fraction of the reports that is lost.
    """

    agents: int
    per_delay: float
    burst_costs: float
    load: float
    skew: Skew
    may_owe: bool
    loss: float

    @property
    def name(self) -> str:
        """A short name, unique in the grid."""
        owing = "debt" if self.may_owe else "no-debt"
        return (
            f"n={self.agents} x={self.per_delay:g} b={self.burst_costs:g} "
            f"load={self.load:g} {self.skew} {owing} loss={self.loss:g}"
        )

    @property
    def cost(self) -> float:
        """Units of one request."""
        return COSTS[len(self.name) % len(COSTS)]

    @property
    def rate(self) -> float:
        """Q, units/s."""
        return self.per_delay / DELAY_S * self.cost

    @property
    def burst(self) -> float:
        """B, units."""
        return self.burst_costs * self.cost

    @property
    def burst_s(self) -> float:
        """B/Q, seconds."""
        return self.burst / self.rate

    @property
    def seconds(self) -> float:
        """Simulated time."""
        per_s = self.rate / self.cost
        wanted = max(SHORTEST_S, ADMISSIONS / (per_s * min(self.load, 1.0)))
        if self.load > 1:
            wanted = max(wanted, DRAINED * self.burst_s / (self.load - 1))
        most = min(MOST_AGENT_SECONDS / self.agents, MOST_REQUESTS / per_s / self.load)
        return round(min(wanted, most), 3)

    @property
    def work(self) -> float:
        """Roughly how much there is to simulate, in seconds of one agent."""
        crowd = 1 + self.agents / 16  # each hears each
        requests = self.rate / self.cost * self.load * self.seconds
        return self.agents * self.seconds * crowd + requests / 200

    @property
    def sensible(self) -> bool:
        """Whether the combination differs from others and can show something."""
        if self.agents == 1 and (self.skew != "alike" or self.loss):
            return False
        if self.skew == "mover" and self.loss:
            return False
        drains = self.load > 1 and self.seconds * (self.load - 1) > 1.5 * self.burst_s
        # A bucket that never drains admits everything; one cell for each will do.
        idle = self.load == 1 and self.skew == "alike"
        if forbidden(self) and (self.load != 2 or self.loss or not self.may_owe):
            return False
        small = self.burst_costs <= max(BURST_COSTS)
        if not (drains or idle or (self.load <= 1 and small)):
            return False
        return self.rate / self.cost * self.load * self.seconds >= LEAST_OFFERED

    def scenario(self) -> Scenario:
        """Return the cell as a scenario that is measured from time 0."""
        return Scenario(
            name=self.name,
            seconds=self.seconds,
            groups=(GroupSpec(rate=self.rate, burst=self.burst, may_owe=self.may_owe),),
            agents=self.agents,
            weights=(1.0,) * self.agents,
            network=Network(delay_s=DELAY_S - 0.005, jitter_s=0.01, loss=self.loss),
            demands=self._demands(),
        )

    @property
    def quota_costs(self) -> float:
        """What burst and rate allow during the whole run, in costs."""
        return self.burst_costs + self.rate / self.cost * self.seconds

    def axes(self) -> dict[str, object]:
        """Return the axes by name, as a kept run has them."""
        return asdict(self)

    def _demands(self) -> tuple[DemandPiece, ...]:
        total = self.rate * self.load
        everyone = tuple(range(self.agents))
        if self.skew == "alike":
            return (self._piece(everyone, total / self.agents),)
        if self.skew == "half":
            rest = total / 2 / (self.agents - 1)
            return (self._piece((0,), total / 2), self._piece(everyone[1:], rest))
        moves = max(2, min(10, int(self.seconds / 5)))
        return (self._piece((0,), total, moves_every_s=self.seconds / moves),)

    def _piece(
        self, agents: tuple[int, ...], rate: float, moves_every_s: float | None = None
    ) -> DemandPiece:
        return DemandPiece(
            agents=agents,
            start_s=0.0,
            until_s=self.seconds,
            rate=rate,
            cost=self.cost,
            moves_every_s=moves_every_s,
        )


def forbidden(cell: Cell) -> str:
    """Return the bound that makes the goal impossible, in words; empty if none does.

    A bucket that fills from empty before a report arrives can't be shared: agents
    either reserve parts of it that go to waste, or spend the same tokens twice.
    """
    if cell.agents > 1 and cell.burst_costs < 2 * cell.per_delay:
        return "B < 2·Q·δ"
    return ""


def strained(cell: Cell) -> str:
    """Return the bound that excuses a cell that falls short; empty if there is none.

    The same holds, to a lesser degree, if the bucket fills within two ages of
    information: what overflows while agents wait for news is lost.  Many such cells
    reach the goal all the same.
    """
    age_s = information_age_s(replace(cell, loss=0.0).scenario())
    if cell.agents > 1 and cell.burst_s < 2 * age_s:
        return "B < 2·Q·Δ"
    return ""


def collides(cell: Cell) -> str:
    """Return the bound that excuses a cell that is above the goal; empty if none.

    Agents can't know within an age of information that the only request that fits was
    admitted elsewhere.  What they admit at once is owed, and a bucket in debt wastes
    nothing, while a central bucket is full until the next request comes.  So together
    they admit more than it does, up to what burst and rate allow.  A mover is alone
    most of the time, and below a load of 1 that yardstick says nothing.
    """
    several = cell.agents > 1 and cell.skew != "mover"
    return "B < 2·c" if several and cell.burst_costs < 2 and cell.load >= 1 else ""


@cache
def grid() -> tuple[Cell, ...]:
    """Return all cells in a fixed random order, so that any prefix is a sample."""
    cells = [
        cell
        for per_delay in PER_DELAY
        for values in product(
            AGENTS, bursts(per_delay), LOADS, SKEWS, (True, False), LOSSES
        )
        if (cell := _cell(per_delay, values)).sensible
    ]
    Random("regimes").shuffle(cells)
    return tuple(cells)


@cache
def running_order() -> tuple[Cell, ...]:
    """Return all cells in the order in which they are run.

    The quickest cell of each n, Q·δ/cost and B/cost comes first, so that a run that is
    stopped has been everywhere; then the quickest of the others, because half of all
    work is in a tenth of the cells.
    """
    quickest = sorted(grid(), key=attrgetter("work"))
    first: dict[tuple[int, float, float], Cell] = {}
    for cell in quickest:
        first.setdefault((cell.agents, cell.per_delay, cell.burst_costs), cell)
    return tuple(dict.fromkeys([*first.values(), *quickest]))


@cache
def sample() -> tuple[Cell, ...]:
    """Return the fixed part of the grid that every test run goes through.

    For each n and Q·δ/cost it contains every tenth cell, in the order of the grid, as
    far as their work allows; the quickest cell of each kind is always included, unless
    it alone would take too long.
    """
    kinds: dict[tuple[int, float], list[Cell]] = {}
    for cell in grid():
        if not forbidden(cell):
            kinds.setdefault((cell.agents, cell.per_delay), []).append(cell)
    chosen: list[Cell] = []
    for _, cells in sorted(kinds.items()):
        quickest = min(cells, key=lambda cell: cell.work)
        some = [quickest] if quickest.work <= MOST_SAMPLE_WORK else []
        for cell in cells:
            work = cell.work + sum(other.work for other in some)
            full = len(some) >= len(cells) // TENTH or work > SAMPLE_WORK
            if not full and cell not in some:
                some.append(cell)
        chosen += some
    return tuple(chosen)


def bursts(per_delay: float) -> list[float]:
    """Return the values of B/cost for one Q·δ/cost, including those from B/Q."""
    found = list(BURST_COSTS)
    for seconds in BURST_S:
        costs = seconds * per_delay / DELAY_S
        near = any(max(costs, b) < SAME_BURST * min(costs, b) for b in found)
        if costs >= 1 and not near:
            found.append(float(f"{costs:.3g}"))
    return sorted(found)


def _cell(
    per_delay: float, values: tuple[int, float, float, Skew, bool, float]
) -> Cell:
    agents, burst_costs, load, skew, may_owe, loss = values
    return Cell(
        agents=agents,
        per_delay=per_delay,
        burst_costs=burst_costs,
        load=load,
        skew=skew,
        may_owe=may_owe,
        loss=loss,
    )


assert isclose(DELAY_S, Network().delay_s + Network().jitter_s / 2)
