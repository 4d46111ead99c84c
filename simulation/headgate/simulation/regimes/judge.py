"""The result of one cell of the grid, and whether it reaches the goal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.measure.delays import told_delays
from headgate.simulation.measure.excess import over_explained
from headgate.simulation.measure.reference_bucket import central_of
from headgate.simulation.regimes.cells import collides, strained
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from headgate.simulation.regimes.cells import Cell

TOTAL = (0.97, 1.02)
"""Goal: what all agents admit / what one central bucket admits, from time 0."""

STRAINED = (0.9, 1.02)
"""The same if the bucket fills within two ages of information: what agents owe at the
end may be a few per cent of so small a total."""

LEAST_ADMISSIONS = 50
"""The goal applies if the central bucket admits at least this many; one is 2 %."""

DELAYS_KEPT = 0.9
"""Fraction of the grid's refusals that must come with a sensible delay."""

ROUNDING = 1e-6
"""Costs by which a sum of floats may be off by rounding."""

SEED = 1
"""One seed is enough: a cell that is right by chance has neighbours that are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigures:
    """The result of one cell.

    Attributes:
        total: Admitted over central; 1 where central admits nothing.
        admissions: Requests that the central bucket admits.
        excess: Costs by which admissions went below the central bucket's own depth,
            at the worst moment; at least 0.
        over: The part of that which requests in flight and Q × age don't explain, in
            costs, at the worst moment; none if it is not above 0.
        refusals: Requests that agents refused.
        delays_kept: How many of them came with a sensible delay.
    """

    total: float
    admissions: int
    excess: float
    over: float
    refusals: int
    delays_kept: int

    @property
    def counts(self) -> bool:
        """Whether the total is held to the goal."""
        return self.admissions >= LEAST_ADMISSIONS

    def missed(self, held_to: tuple[float, float] = TOTAL) -> list[str]:
        """Return what misses the goal, in words.

        Args:
            held_to: Least and most total.
        """
        told: list[str] = []
        least, most = held_to
        if self.counts and not least <= self.total <= most:
            told.append(f"total {self.total:.3f}, expected {least:g} to {most:.3g}")
        if self.over > ROUNDING:
            text = f"{self.excess:.1f} costs over, {self.over:.1f} of them unexplained"
            told.append(text)
        return told

    def as_json(self) -> dict[str, object]:
        """Return the figures by name, as a kept run has them."""
        return asdict(self)


def held_to(cell: Cell, figures: CellFigures) -> tuple[float, float]:
    """Return the least and most total of a cell, as far as a bound allows the goal."""
    least, most = STRAINED if strained(cell) else TOTAL
    if collides(cell) and figures.admissions:
        quota = cell.quota_costs + ROUNDING
        most = max(most, quota / figures.admissions)
    return least, most


def run_cell(cell: Cell, seed: int = SEED) -> CellFigures:
    """Simulate a cell; about ten seconds for the longest ones."""
    engine = SimulationEngine(
        cell.scenario(),
        seed=seed,
        strategy="headgate",
        make_controller=real_coordinator,
    )
    run = engine.run()
    run.central = central_of(run)
    central = run.central[0][1]
    admitted = sum(float(units.sum()) for _, units in run.admitted[0])
    _, excess, explained = over_explained(run, 0)
    delays = told_delays(run, 0)
    return CellFigures(
        total=admitted / float(central.sum()) if len(central) else 1.0,
        admissions=len(central),
        excess=max(0.0, float(np.max(excess, initial=-np.inf))) / cell.cost,
        over=float(np.max(excess - explained, initial=-np.inf)) / cell.cost,
        refusals=delays.refusals,
        delays_kept=delays.kept,
    )
