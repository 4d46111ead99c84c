"""Work conservation: not too little is admitted, in total and for each agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from headgate.simulation.measure.admissions import merged
from headgate.simulation.measure.excess import information_age_s, level_at
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]

CONSERVED = 0.98
"""Fraction of a central bucket's admissions that an overload must reach."""

CONSERVED_STRICT = 0.85
"""The same for a strict group, where flashes of demand have to move permits first."""

CONSERVED_STRAINED = 0.85
"""The same for a burst that is refilled within two ages of information, of which some
overflows while agents wait for news of each other (docs/notes/accuracy-bounds.md)."""

FALSE_PART = 0.005
"""Fraction of what was offered that may be refused although one bucket admits it."""

FALSE_STRICT = 0.05
"""The same for a strict group."""

FALSE_STRAINED = 0.05
"""The same for a burst that is refilled within two ages of information."""

STEADY = 0.95
"""Demand up to this fraction of Q counts as fitting: at Q itself even a central bucket
refuses now and then, by chance."""

STARVED = 0.85
"""Fraction of its max-min share below which an agent is starved."""

STARVED_STRICT = 0.6
"""The same for an agent in a strict group."""

CROWDED_COSTS = 2.0
"""A strict group with a smaller burst for each agent, in requests, is only held to its
limit: agents whose part of the burst covers no request wait
(docs/notes/accuracy-bounds.md)."""

MARGIN_PART = 0.18
"""Fraction of the burst that an agent may leave for what it has not heard of yet."""

MARGIN_SIGMAS = 2.5
"""Standard deviations that it may leave for Poisson noise within the age."""

SIGMAS = 5.0
"""Standard deviations of Poisson noise that a bound allows for: one in a million."""


Check = Callable[["SimulationRun", int, CalmSpan], "Iterator[tuple[str, str]]"]
"""Yields (name of an invariant, what is wrong) for one span of one group."""


def check_work(run: SimulationRun) -> Iterator[Violation]:
    """Yield where too little, or the wrong requests, were admitted in a calm span.

    Totals are checked from time 0 on, but not what is due to each agent: a full bucket
    is spent by whoever asks first.  Strict groups also count only after the start,
    because an agent must hear of its permits first.
    """
    for group, spec in enumerate(run.scenario.groups):
        if not stands_alone(run.scenario, group):
            continue
        if spec.mode == "strict" and _crowded(run.scenario, group):
            continue
        with_start = calm_spans(run, group, with_start=spec.mode != "strict")
        yield from _each(run, group, with_start, _totals)
        yield from _each(run, group, calm_spans(run, group), _starved)


def _each(
    run: SimulationRun, group: int, spans: list[CalmSpan], check: Check
) -> Iterator[Violation]:
    """Check spans; whatever is wrong after the last fault is a failed recovery."""
    recovered = last_fault_s(run.scenario)
    for span in spans:
        if not 0 < span.rate < np.inf:
            continue
        for name, detail in check(run, group, span):
            late = span.start_s >= recovered
            yield Violation(
                span.end_s,
                "recovery" if late else name,
                f"{name}: {detail}" if late else detail,
            )


def _crowded(scenario: Scenario, group: int) -> bool:
    """Return whether the smallest burst is less than `CROWDED_COSTS` for each agent."""
    burst = min(burst for _, _, burst in scenario.limits(group))
    least = CROWDED_COSTS * scenario.agents * largest_cost(scenario, group)
    return burst < least


def _strained(scenario: Scenario, span: CalmSpan) -> bool:
    """Return whether the burst is refilled within two ages of information.

    Without the time for which a report may be lost or held up: that is the exception.
    """
    calm = replace(scenario.network, loss=0.0, reorder=0.0)
    age = information_age_s(replace(scenario, network=calm))
    return scenario.agents > 1 and span.burst < 2 * age * span.rate


def _totals(
    run: SimulationRun, group: int, span: CalmSpan
) -> Iterator[tuple[str, str]]:
    strict = run.scenario.groups[group].mode == "strict"
    central = _sum(run.central[group], span)
    admitted = _sum(merged(run.admitted[group]), span)
    slack = _slack(run, group, span)
    strained = _strained(run.scenario, span)
    where = _where(span)
    if span.demand >= span.rate:
        part = CONSERVED_STRICT if strict else CONSERVED
        if strained:
            part = min(part, CONSERVED_STRAINED)
        least = part * central - slack
        if admitted < least:
            text = f"{admitted:.0f} of {central:.0f} units {where}, least {least:.0f}"
            yield "work-conserved", text
    elif span.most <= STEADY * span.rate:
        offered = _offered(run, group, span)
        part = FALSE_STRICT if strict else FALSE_PART
        if strained:
            part = max(part, FALSE_STRAINED)
        most = part * float(offered.sum()) + slack
        if central - admitted > most:
            text = f"{central - admitted:.0f} units {where}, at most {most:.0f}"
            yield "no-false-refusal", text


def _starved(
    run: SimulationRun, group: int, span: CalmSpan
) -> Iterator[tuple[str, str]]:
    strict = run.scenario.groups[group].mode == "strict"
    offered = _offered(run, group, span)[:, None]
    # What a full bucket wastes is due to nobody.
    whole = min(span.rate * (span.end_s - span.start_s), _sum(run.central[group], span))
    due = max_min(offered, np.array(run.scenario.weights), np.array([whole]))[:, 0]
    cost = largest_cost(run.scenario, group)
    part = STARVED_STRICT if strict else STARVED
    for agent, admissions in enumerate(run.admitted[group]):
        got = _sum(admissions, span)
        least = part * due[agent] - SIGMAS * np.sqrt(due[agent] * cost) - 2 * cost
        if got < least:
            text = (
                f"agent {agent} got {got:.0f} of {due[agent]:.0f} units "
                f"{_where(span)}, least {least:.0f}"
            )
            yield "no-starvation", text


def _slack(run: SimulationRun, group: int, span: CalmSpan) -> float:
    """Return the units by which a span may differ, whatever its length.

    One request may be about to be admitted, the level is kept at a margin above zero
    that is filled once, and what the level is below the yardstick's at the start of the
    span is paid back in it.
    """
    cost = largest_cost(run.scenario, group)
    unseen = age_s(run.scenario)
    noise = MARGIN_SIGMAS * float(np.sqrt(cost * span.rate * unseen))
    margin = min(MARGIN_PART * span.burst, noise)
    table = RateTable(run.scenario.limits(group), run.scenario.seconds)
    ours, yardstick = (
        level_at(admitted, table, span.start_s)
        for admitted in (merged(run.admitted[group]), run.central[group])
    )
    return cost + margin + max(0.0, yardstick - ours)


def _where(span: CalmSpan) -> str:
    return f"from {span.start_s:g} to {span.end_s:g} s"


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
