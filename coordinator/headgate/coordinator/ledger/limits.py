"""The cluster-wide limits of a configuration, as ledgers need them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isinf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.config.configuration import (
    ISOLATIONS,
    ancestry_of,
    limits_in_force,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headgate.coordinator.config.configuration import Configuration, Group, Limit
    from headgate.coordinator.messages.report import Report, Rows
    from headgate.coordinator.table.arrays import Flags, Floats, LedgerBlock
    from headgate.coordinator.table.index import Key

TURN_S = 0.5
"""A report that left this shortly after a boundary may carry levels of either calendar
period: agents check the calendar once per turn of their loop, and then report."""

ANCESTORS_MAX = 16
"""Most ancestors of a group that count."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """One limit with the group that it belongs to."""

    group: Group
    limit: Limit


class Limits:
    """All cluster-scoped limits of one revision.

    Attributes:
        known: Whether there is a configuration, which may be empty.
        revision: Revision of the configuration.
        by_key: (dimension, group id) → limit.
        ancestors: (dimension, group id) → the same dimension's limits above it,
            nearest first.
        children: (dimension, group id) → the limits right below it, sorted.
        depths: Most limits from one without any above it down to one without any
            below it.
        strict: Those of strict groups.
        closed: Whether any group must stop on agents that hear no majority.
        node: (dimension, group id) → units/s that one agent may use at most.
        slots: Group id → requests in flight at once, for groups that limit them.
        calendar: (dimension, group id) → limits that start over at a boundary.
        values: Group id → id of its template, for groups of single values.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.known = configuration is not None
        self.revision = configuration.revision if configuration else 0
        self.by_key: dict[Key, Ruled] = {}
        self.ancestors: dict[Key, list[Key]] = {}
        self.node: dict[Key, float] = {}
        self.values: Mapping[int, int] = {}
        groups = limits_in_force(configuration.groups if configuration else ())
        self._groups = groups
        self.slots = {g.id: g.slots for g in groups.values() if g.slots is not None}
        for group in groups.values():
            for limit in group.limits:
                key = (limit.dimension, group.id)
                if limit.scope == "cluster":
                    self.by_key[key] = Ruled(group, limit)
                else:
                    self.node[key] = limit.rate_per_s
        self.strict = {
            key for key, ruled in self.by_key.items() if ruled.group.mode == "strict"
        }
        self.closed = any(r.group.isolation == "closed" for r in self.by_key.values())
        self.calendar = {
            key: ruled.limit for key, ruled in self.by_key.items() if ruled.limit.period
        }
        for dimension, group_id in self.by_key:
            above = ancestry_of(groups[group_id], groups)[:ANCESTORS_MAX]
            keys = [(dimension, group.id) for group in above]
            self.ancestors[dimension, group_id] = [k for k in keys if k in self.by_key]
        self.children, self.depths = self._children()

    def _children(self) -> tuple[dict[Key, list[Key]], int]:
        children: dict[Key, list[Key]] = {}
        depths = 1
        for key, above in self.ancestors.items():
            if above:
                children.setdefault(above[0], []).append(key)
                depths = max(depths, 1 + len(above))
        return {parent: sorted(them) for parent, them in children.items()}, depths

    def follow_values(self, templates: Mapping[int, int]) -> None:
        """Give the limits of templates to the groups of these values, and no others.

        Args:
            templates: Group id → id of its template; never changed once it was given.
        """
        before, self.values = self.values, templates
        if before is templates:
            return
        related = False
        for group_id in before.keys() - templates.keys():
            for key, _ in self._limits_of_value(group_id, before[group_id]):
                self.node.pop(key, None)
                self.calendar.pop(key, None)
                if self.by_key.pop(key, None) is not None:
                    related |= bool(self.ancestors.pop(key))
        for group_id in templates.keys() - before.keys():
            template_id = templates[group_id]
            for key, limit in self._limits_of_value(group_id, template_id):
                if limit.scope == "node":
                    self.node[key] = limit.rate_per_s
                    continue
                self.by_key[key] = Ruled(self._groups[template_id], limit)
                self.ancestors[key] = self.ancestors[limit.dimension, template_id]
                related |= bool(self.ancestors[key])
                if limit.period:
                    self.calendar[key] = limit
        if related:
            self.children, self.depths = self._children()

    def _limits_of_value(
        self, group_id: int, template_id: int
    ) -> list[tuple[Key, Limit]]:
        template = self._groups.get(template_id)
        if template is None or template.per is None:
            return []
        return [((limit.dimension, group_id), limit) for limit in template.limits]

    def in_force(self, keys: Iterable[Key], at_s: Floats) -> Flags:
        """Return ``bool[K]``: the calendar period of a limit, if any, had begun.

        Args:
            keys: K of ledgers.
            at_s: ``float64[K]`` wall clock of the agent that tells the time.
        """
        limits = map(self.calendar.get, keys)
        return at_s >= [
            -inf if limit is None else limit.begins_at_s for limit in limits
        ]

    def comparable(self, report: Report, *, any_revision: bool) -> Report:
        """Return a report without levels that say nothing about this agent's own.

        They are of another calendar period or, unless `any_revision` will do, were
        computed under other limits.  The sender's own clock decides which period it is
        in, since it starts each new period by that clock.
        """
        if report.revision != self.revision and not any_revision:
            without = (replace(rows, level=None) for rows in report.rows)
            return replace(report, rows=tuple(without))
        if not self.calendar:
            return report
        at_s = report.sent_at_s
        rows: list[Rows] = []
        for each in report.rows:
            if each.level is not None:
                other = [
                    limit is not None
                    and not limit.begins_at_s + TURN_S <= at_s < limit.ends_at_s
                    for limit in (
                        self.calendar.get((each.dimension, group_id))
                        for group_id in each.group_ids.tolist()
                    )
                ]
                each = replace(each, level=np.where(other, nan, each.level))
            rows.append(each)
        return replace(report, rows=tuple(rows))


def apply(
    ruled: Ruled, block: LedgerBlock, slot: int, before: Ruled | None = None
) -> None:
    """Write a limit into a settled ledger.

    A lowered burst takes effect at the next settling: E is clamped to it, so no
    burst of old tokens follows.

    Args:
        ruled: The limit.
        block: Changed.
        slot: Of the ledger.
        before: The limit that the ledger had; None if the ledger is new.
    """
    limit, group = ruled.limit, ruled.group
    unlimited = isinf(limit.rate)
    rate = 0.0 if unlimited else limit.rate_per_s
    was_unlimited = bool(block.unlimited[slot])
    block.rate[slot] = rate
    # With an infinite burst, levels would become NaN.
    burst = limit.burst if limit.burst < inf else 1e6 * max(rate, 1.0)
    block.burst[slot] = 0.0 if unlimited else burst
    block.unlimited[slot] = unlimited
    block.demand_cap[slot] = inf if unlimited else 2.0 * rate
    block.may_owe[slot] = group.may_owe and group.mode != "strict"
    block.strict[slot] = group.mode == "strict"
    block.isolation[slot] = ISOLATIONS.index(group.isolation)
    if was_unlimited and not unlimited:
        # What was admitted until now is free.
        block.predicted[1:, slot] = 0.0
        block.level[slot] = block.belief[slot] = burst
        block.cut[slot] = block.error[slot] = block.withheld[slot] = 0.0
        block.plausible[slot] = block.lead[slot] = 0.0
        block.limited_at[slot] = block.begun_at[slot] = block.at[slot]
        block.begun_admitted[slot] = block.admitted[0, slot]
        block.told_at[slot] = inf
        block.includes_at[slot] = -inf
    elif before is not None and limit.period and not unlimited:
        # What others report from now on was mostly spent in the old period.  It is
        # charged to the new one, since nobody can tell the two apart.
        belief, withheld = block.belief.item(slot), block.withheld.item(slot)
        level, block.withheld[slot] = limit.renewed(belief, before.limit, withheld)
        change = level - belief
        block.level[slot] += change
        block.belief[slot] += change
    if not unlimited:
        # Taken away, not overflown: it pays for nothing that is reported late.
        excess = max(float(block.belief[slot]) - float(block.burst[slot]), 0.0)
        block.level[slot] -= excess
        block.belief[slot] -= excess
    # Levels that others reported were computed under the former limit.
    block.apart[:, slot] = nan
    block.bucket_knows[slot] = False
    block.dirty[slot] = block.stale[slot] = True
