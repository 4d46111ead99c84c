"""Counters known to other agents equal the true ones, whatever reports were lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.invariants.spans import largest_cost
from headgate.simulation.measure.settling import ceiling_at
from headgate.simulation.scenario.scenario import DIMENSION
from headgate.simulation.world.record import UnreportedUsage, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.coordinator import Coordinator, Report
    from headgate.simulation.world.node import Life
    from headgate.simulation.world.record import SimulationRun

EXACT = 0.002
"""Units: counters that are not whole are sent in steps of 0.001."""

STEP_S = 0.01
"""Step at which ceilings are integrated: below an agent's tick."""


@dataclass(slots=True)
class Known:
    """What the cluster knows about one group of one incarnation.

    Attributes:
        sequence: Sequence number of the newest report that reached another agent.
        refused: Units, as it reports them.
        admitted: Units, as it reports them.
    """

    sequence: int = 0
    refused: float = 0.0
    admitted: float = 0.0


@dataclass(slots=True)
class Ledgers:
    """The newest counters that were delivered to any other agent.

    Attributes:
        known: By (agent, incarnation, group id).
    """

    known: dict[tuple[str, int, int], Known] = field(
        default_factory=dict["tuple[str, int, int]", Known]
    )

    def hear(self, report: Report) -> None:
        """Note a report that reached another agent."""
        for rows in report.rows:
            ids: list[int] = rows.group_ids.tolist()
            for place, group_id in enumerate(ids):
                key = (report.agent, report.incarnation, group_id)
                known = self.known.setdefault(key, Known())
                if report.sequence >= known.sequence:
                    known.sequence = report.sequence
                    known.refused = float(rows.refused[place])
                    known.admitted = float(rows.admitted[place])


def check_tables(
    run: SimulationRun, controllers: dict[int, tuple[Life, Coordinator]], now: float
) -> Iterator[Violation]:
    """Yield where a live agent's table differs from the true counters of another."""
    for life, controller in controllers.values():
        for group, spec in enumerate(run.scenario.groups):
            if group not in life.admitted or _unlimited(run, group):
                continue
            try:
                view = controller.explain(group + 1, DIMENSION, now)
            except KeyError:
                text = f"{life.agent} has no ledger of group {spec.name}"
                yield Violation(now, "totals-exact", text)
                continue
            rows = {row.agent: (row.refused, row.admitted) for row in view.agents}
            for other, _ in controllers.values():
                told = rows.get(other.agent, (0.0, 0.0))
                true = _true(run, other, group)
                if max(abs(told[0] - true[0]), abs(told[1] - true[1])) > EXACT:
                    text = (
                        f"group {spec.name}: {life.agent} takes {other.agent} for "
                        f"(refused, admitted) {told}, true is {true}"
                    )
                    yield Violation(now, "totals-exact", text)


def check_killed(run: SimulationRun, ledgers: Ledgers) -> Iterator[Violation]:
    """Yield where a killed process left more unreported than it could spend."""
    for life in run.lives:
        if not life.killed:
            continue
        for group in life.admitted:
            known = ledgers.known.get(
                (life.agent, life.birth.incarnation, group + 1), Known()
            )
            refused, admitted = _true(run, life, group)
            gap = admitted - known.admitted
            if abs(gap) <= EXACT and abs(refused - known.refused) <= EXACT:
                continue
            run.untold.append(
                UnreportedUsage(life.agent, life.birth.incarnation, group, gap)
            )
            most = sum(
                _spendable(run, life, each, known.sequence)
                for each in life.admitted
                if each == group or _stands_below(run, each, group)
            )
            if not -EXACT <= gap <= most:
                text = (
                    f"{life.agent} was killed with {gap:.0f} units untold, "
                    f"its ceiling allowed {most:.0f}"
                )
                yield Violation(life.ended_s, "totals-exact", text)


def _true(run: SimulationRun, life: Life, group: int) -> tuple[float, float]:
    """Return what a life refused and admitted in a group and all below it."""
    refused, admitted = life.refused.get(group, 0.0), life.admitted.get(group, 0.0)
    name = run.scenario.groups[group].name
    for place, other in enumerate(run.scenario.groups):
        if other.parent == name:
            below = _true(run, life, place)
            refused, admitted = refused + below[0], admitted + below[1]
    return refused, admitted


def _stands_below(run: SimulationRun, group: int, above: int) -> bool:
    """Return whether a group is somewhere below another."""
    groups = run.scenario.groups
    named = {spec.name: place for place, spec in enumerate(groups)}
    parent = groups[group].parent
    while parent is not None:
        if named[parent] == above:
            return True
        parent = groups[named[parent]].parent
    return False


def _spendable(run: SimulationRun, life: Life, group: int, sequence: int) -> float:
    """Return what a life could admit since it sent a given report."""
    sent = [
        p.at_s
        for p in run.published
        if p.report.agent == life.agent
        and p.report.incarnation == life.birth.incarnation
        and p.report.sequence == sequence
    ]
    start = sent[0] if sent else life.birth.now
    told = run.ceilings[group][life.birth.index]
    times = np.arange(start, life.ended_s, STEP_S)
    rates = ceiling_at(told, times)
    held = [
        capacity
        for at_s, capacity in zip(told.at_s, told.capacity, strict=True)
        if at_s <= life.ended_s
    ]
    if np.isinf(rates).any() or inf in held:
        return inf
    cost = largest_cost(run.scenario, group)
    # Where no tokens are held, a request passes by chance, so there is noise.
    chance = 5.0 * float(np.sqrt(rates.sum() * STEP_S * cost)) + 5.0 * cost
    return float(rates.sum()) * STEP_S * 1.01 + max(held, default=0.0) + cost + chance


def _unlimited(run: SimulationRun, group: int) -> bool:
    return run.scenario.limits(group)[-1][1] == inf
