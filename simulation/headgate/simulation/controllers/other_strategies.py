"""Other ways to share a quota, for comparison on the same arrivals.

They send the same reports over the same bus and set the same real buckets, but they
have no ledger, no urgent reports and no notion of a partition.  Once per interval
each agent reports its counters and computes its rate from the latest reports of the
others.  Entries older than three intervals are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf, isinf
from random import Random
from typing import TYPE_CHECKING, Literal

import numpy as np

from headgate.coordinator import (
    Ceilings,
    Configured,
    Counted,
    Heard,
    Publish,
    Report,
    Rows,
    SetCeilings,
    WakeAt,
)
from headgate.simulation.max_min import max_min
from headgate.simulation.scenario.scenario import DIMENSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.coordinator import Effect, Event, Group, Keys
    from headgate.simulation.controllers.controller import Birth
    from headgate.simulation.scenario.scenario import Scenario

    Floats = NDArray[np.float64]

STALE_INTERVALS = 3
"""PIP-82: "stale entries leave" after some intervals without a report."""

LEAST_RATE = 1.0
"""Units/s that an agent may always use; otherwise an idle agent could never start."""

STARVED = 0.02
"""An agent counts as wanting more once this fraction of its attempts is refused."""


@dataclass(slots=True)
class HeardUsage:
    """The latest report of one agent about one group.

    Attributes:
        heard_s: When it was heard.
        sequence: Sequence number of the report.
        sent_s: By the sender's clock.
        admitted: Its counter, units.
        use: Admitted units/s over its last interval.
        demand: Attempted units/s over its last interval.
    """

    heard_s: float
    sequence: int
    sent_s: float
    admitted: float
    use: float
    demand: float


@dataclass(frozen=True, slots=True)
class Others:
    """What a rule bases its decision on; row 0 is the agent itself.

    Attributes:
        use: ``float64[n]`` admitted units/s.
        demand: ``float64[n]`` attempted units/s.
        weights: ``float64[n]``.
    """

    use: Floats
    demand: Floats
    weights: Floats


Rule = Literal["static", "usage-proportional", "steal", "max-min"]


def usage_proportional(rate: float, table: Others) -> float:
    """Return quota × own usage / total usage (PIP-82)."""
    total = float(table.use.sum())
    if total <= 0:
        return rate / len(table.use)
    return rate * float(table.use[0]) / total


def steal(rate: float, table: Others) -> float:
    """Return the usage moved by half the distance from the next larger user (PIP-82).

    Unused quota is split equally among the agents that want more.  If there is none,
    each of them takes half of its distance from the next larger user.
    """
    use = table.use
    starving = table.demand > use * (1 + STARVED)
    free = max(0.0, rate - float(use.sum()))
    moved = use.copy()
    if free > STARVED * rate:
        moved += np.where(starving, free / max(1, int(starving.sum())), 0.0)
    else:
        order = np.argsort(use, kind="stable")
        for lower, higher in pairwise(order):
            if starving[lower]:
                half = (use[higher] - use[lower]) / 2
                moved[lower] += half
                moved[higher] -= half
        moved *= min(1.0, rate / max(float(moved.sum()), LEAST_RATE))
    if not starving[0]:
        # An agent that wants no more keeps some room for noise in its arrivals.
        return float(moved[0]) + free / len(use)
    return float(moved[0])


def water_filling(rate: float, table: Others) -> float:
    """Return the max-min share plus an equal part of the slack."""
    shares = max_min(table.demand[:, None], table.weights, np.array([rate]))[:, 0]
    slack = max(0.0, rate - float(shares.sum()))
    return float(shares[0]) + slack / len(shares)


RULES: dict[str, Callable[[float, Others], float]] = {
    "usage-proportional": usage_proportional,
    "steal": steal,
    "max-min": water_filling,
}


class PeriodicController:
    """Reports and recomputes once per interval, by one of the rules."""

    def __init__(self, rule: Rule, scenario: Scenario, birth: Birth) -> None:
        """Start without any entry."""
        self._rule = rule
        self._interval_s = scenario.interval_s
        weights = scenario.weights
        self._weight = weights[birth.index]
        self._part = self._weight / sum(weights)
        self._weight_of = {f"agent-{i}": w for i, w in enumerate(weights)}
        self._birth = birth
        self._sequence = 0
        self._groups: dict[int, Group] = {}
        self._entries: dict[int, dict[str, HeardUsage]] = {}
        self._revision = 0
        phase = Random(birth.seed).random()
        self._next_s = birth.now + phase * self._interval_s
        self._counted_s = birth.now
        self._refused: Floats | None = None
        self._admitted: Floats | None = None

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        """Handle one event and return its effects."""
        if isinstance(event, Configured):
            self._groups = {group.id: group for group in event.configuration.groups}
            self._revision = event.configuration.revision
        elif isinstance(event, Heard):
            for report in event.reports:
                self._hear(now, report)
        elif isinstance(event, Counted):
            return self._count(now, event, wall_s)
        return []

    def _hear(self, now: float, report: Report) -> None:
        if report.agent == self._birth.agent:
            return
        for rows in report.rows:
            columns = zip(
                rows.group_ids.tolist(),
                rows.admitted.tolist(),
                rows.demand.tolist(),
                strict=True,
            )
            for group, admitted, demand in columns:
                entries = self._entries.setdefault(group, {})
                last = entries.get(report.agent)
                sequence = report.incarnation * 1_000_000 + report.sequence
                if last is not None and sequence <= last.sequence:
                    continue
                use = demand
                if last is not None and admitted >= last.admitted:
                    gap_s = max(report.sent_at_s - last.sent_s, 1e-3)
                    use = (admitted - last.admitted) / gap_s
                entries[report.agent] = HeardUsage(
                    now, sequence, report.sent_at_s, admitted, use, demand
                )

    def _count(self, now: float, counted: Counted, wall_s: float) -> list[Effect]:
        first = self._refused is None or self._admitted is None
        due = self._rule != "static" and now >= self._next_s
        if not (first or due):
            return [*self._ceilings(now, counted, None), WakeAt(self._next_s)]
        effects: list[Effect] = []
        use = demand = None
        if self._refused is not None and self._admitted is not None:
            gap_s = max(now - self._counted_s, 1e-3)
            use = (counted.admitted - self._admitted) / gap_s
            demand = use + (counted.refused - self._refused) / gap_s
            effects.append(Publish(self._report(counted, demand, wall_s)))
            self._next_s += self._interval_s
            effects.extend(self._ceilings(now, counted, (use, demand)))
        else:
            effects.extend(self._ceilings(now, counted, None))
        self._refused, self._admitted = counted.refused, counted.admitted
        self._counted_s = now
        if self._rule != "static":
            effects.append(WakeAt(max(self._next_s, now)))
        return effects

    def _report(self, counted: Counted, demand: Floats, wall_s: float) -> Report:
        self._sequence += 1
        rows = Rows(
            dimension=DIMENSION,
            group_ids=counted.keys.group_ids,
            refused=counted.refused,
            admitted=counted.admitted,
            demand=demand,
            held=counted.held,
            cost=counted.cost,
        )
        return Report(
            cluster="default",
            agent=self._birth.agent,
            incarnation=self._birth.incarnation,
            sequence=self._sequence,
            sent_at_s=wall_s,
            revision=self._revision,
            keyframe=True,
            rows=(rows,),
            weight=self._weight,
            interval_s=self._interval_s,
        )

    def _ceilings(
        self, now: float, counted: Counted, own: tuple[Floats, Floats] | None
    ) -> list[Effect]:
        ids = counted.keys.group_ids.tolist()
        rates: list[float] = []
        capacities: list[float] = []
        for place, group_id in enumerate(ids):
            limit = self._groups[group_id].limits[0]
            ceiling = self._ceiling(now, limit.rate_per_s, group_id, place, own)
            rates.append(ceiling)
            part = ceiling / limit.rate_per_s if 0 < limit.rate_per_s < inf else 0.0
            capacities.append(inf if isinf(ceiling) else limit.burst * part)
        return [_set_ceilings(counted.keys, rates, capacities)]

    def _ceiling(
        self,
        now: float,
        rate: float,
        group_id: int,
        place: int,
        own: tuple[Floats, Floats] | None,
    ) -> float:
        if isinf(rate) or rate == 0:
            return rate
        if self._rule == "static" or own is None:
            return rate * self._part
        horizon_s = STALE_INTERVALS * self._interval_s
        heard = {
            name: entry
            for name, entry in self._entries.get(group_id, {}).items()
            if now - entry.heard_s <= horizon_s
        }
        use, demand = own
        table = Others(
            use=np.array([use[place], *(e.use for e in heard.values())]),
            demand=np.array([demand[place], *(e.demand for e in heard.values())]),
            weights=np.array(
                [self._weight, *(self._weight_of.get(name, 1.0) for name in heard)]
            ),
        )
        return max(min(LEAST_RATE, rate), RULES[self._rule](rate, table))


def _set_ceilings(
    keys: Keys, rates: list[float], capacities: list[float]
) -> SetCeilings:
    ceiling = np.array(rates)
    count = len(rates)
    zeros, none = np.zeros(count), np.zeros(count, dtype=np.bool_)
    # Buckets of this agent alone: a rate and a capacity.
    ceilings = Ceilings(
        shared=none,
        share=ceiling,
        ceiling=ceiling,
        level=zeros,
        rate=ceiling,
        capacity=np.maximum(np.array(capacities), 1e-9),
        room=zeros,
        window=zeros,
        expected_rate=zeros,
        room_cap=zeros,
        cautious=none,
        quota=ceiling,
        least_delay_s=zeros,
        reserve=zeros,
    )
    return SetCeilings(
        keys=keys,
        index=np.arange(count),
        ceilings=ceilings,
        counted=zeros,
        as_of_s=0.0,
        deadline_s=np.full(count, inf),
    )
