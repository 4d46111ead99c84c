"""Work conservation: not too little is admitted, in total and for each agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.invariants.spans import (
    CalmSpan,
    age_s,
    calm_spans,
    largest_cost,
    last_fault_s,
    stands_alone,
)
from headgate.simulation.max_min import max_min
from headgate.simulation.measure.metrics import merged
from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]

CONSERVED = 0.98
"""Part of a central bucket's admissions that an overload must reach."""

CONSERVED_STRICT = 0.85
"""The same of a strict group: what transfer of rights costs under flashes."""

FALSE_PART = 0.005
"""Part of what was offered that may be refused and would not be centrally."""

FALSE_STRICT = 0.05
"""The same of a strict group."""

STEADY = 0.95
"""Demand up to this part of Q counts as fitting: at Q itself even a central bucket
refuses, by chance."""

STARVED = 0.85
"""Part of its max-min share below which an agent is starved."""

STARVED_STRICT = 0.6
"""The same in a strict group."""

SIGMAS = 5.0
"""Noise of Poisson arrivals that a bound leaves room for: one in a million."""


def check_work(run: SimulationRun) -> Iterator[Violation]:
    """Yield where a calm span shows too little, or the wrong, admitted."""
    recovered = last_fault_s(run.scenario)
    for group in range(len(run.scenario.groups)):
        if not stands_alone(run.scenario, group):
            continue
        for span in calm_spans(run, group):
            if not 0 < span.rate < np.inf:
                continue
            for name, detail in _check(run, group, span):
                late = span.start_s >= recovered
                yield Violation(
                    span.end_s,
                    "recovery" if late else name,
                    f"{name}: {detail}" if late else detail,
                )


def _check(run: SimulationRun, group: int, span: CalmSpan) -> Iterator[tuple[str, str]]:
    strict = run.scenario.groups[group].mode == "strict"
    central = _sum(run.central[group], span)
    admitted = _sum(merged(run.admitted[group]), span)
    slack = _slack(run, group, span)
    where = f"from {span.start_s:g} to {span.end_s:g} s"
    if span.demand >= span.rate:
        part = CONSERVED_STRICT if strict else CONSERVED
        least = part * central - slack
        if admitted < least:
            text = f"{admitted:.0f} of {central:.0f} units {where}, least {least:.0f}"
            yield "work-conserved", text
    elif span.most <= STEADY * span.rate:
        offered = _offered(run, group, span)
        part = FALSE_STRICT if strict else FALSE_PART
        most = part * float(offered.sum()) + slack
        if central - admitted > most:
            text = f"{central - admitted:.0f} units {where}, at most {most:.0f}"
            yield "no-false-refusal", text
    yield from _starved(run, group, span, strict=strict, where=where)


def _starved(
    run: SimulationRun, group: int, span: CalmSpan, *, strict: bool, where: str
) -> Iterator[tuple[str, str]]:
    offered = _offered(run, group, span)[:, None]
    length = span.end_s - span.start_s
    due = max_min(
        offered, np.array(run.scenario.weights), np.array([span.rate * length])
    )[:, 0]
    cost = largest_cost(run.scenario, group)
    part = STARVED_STRICT if strict else STARVED
    for agent, admissions in enumerate(run.admitted[group]):
        got = _sum(admissions, span)
        least = part * due[agent] - SIGMAS * np.sqrt(due[agent] * cost) - 2 * cost
        if got < least:
            text = (
                f"agent {agent} got {got:.0f} of {due[agent]:.0f} units {where}, "
                f"least {least:.0f}"
            )
            yield "no-starvation", text


def _slack(run: SimulationRun, group: int, span: CalmSpan) -> float:
    """Return the units by which a span may differ whatever its length.

    The level is steered to a margin above zero that is filled once (design,
    section 5), and a change before the span is still being worked off.
    """
    cost = largest_cost(run.scenario, group)
    unseen = age_s(run.scenario)
    margin = min(span.burst / 2, SIGMAS * float(np.sqrt(cost * span.rate * unseen)))
    return margin + run.scenario.agents * cost


def _sum(admitted: Admissions, span: CalmSpan) -> float:
    times, units = admitted
    return float(units[(times >= span.start_s) & (times < span.end_s)].sum())


def _offered(run: SimulationRun, group: int, span: CalmSpan) -> Floats:
    return np.array(
        [
            float(a.cost[(a.time_s >= span.start_s) & (a.time_s < span.end_s)].sum())
            for a in run.arrivals[group]
        ]
    )
