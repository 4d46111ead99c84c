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
    from headgate.coordinator.config.configuration import Configuration, Group, Limit
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.arrays import LedgerBlock
    from headgate.coordinator.table.index import Key

TURN_S = 0.5
"""Of a report that left so shortly after a boundary nobody can tell whether its levels
are of the new period: agents look at the calendar once a turn, and then report."""

ANCESTORS_MAX = 16
"""Groups above one that count."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """One limit with the group that it belongs to."""

    group: Group
    limit: Limit


class Limits:
    """All cluster-scoped limits of one revision.

    Attributes:
        revision: Of the configuration.
        by_key: (dimension, group id) → limit.
        ancestors: (dimension, group id) → the same dimension's limits above it,
            nearest first.
        closed: Whether a group must stop where no majority is heard.
        node: (dimension, group id) → units/s that one agent may use at most.
        slots: Group id → requests in flight at once, of groups that limit them.
        calendar: (dimension, group id) → limits that begin anew at a boundary.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.revision = configuration.revision if configuration else 0
        self.by_key: dict[Key, Ruled] = {}
        self.ancestors: dict[Key, list[Key]] = {}
        self.node: dict[Key, float] = {}
        groups = limits_in_force(configuration.groups if configuration else ())
        self.slots = {g.id: g.slots for g in groups.values() if g.slots is not None}
        for group in groups.values():
            for limit in group.limits:
                key = (limit.dimension, group.id)
                if limit.scope == "cluster":
                    self.by_key[key] = Ruled(group, limit)
                else:
                    self.node[key] = limit.rate_per_s
        self.closed = any(r.group.isolation == "closed" for r in self.by_key.values())
        self.calendar = {
            key: ruled.limit for key, ruled in self.by_key.items() if ruled.limit.period
        }
        for dimension, group_id in self.by_key:
            above = ancestry_of(groups[group_id], groups)[:ANCESTORS_MAX]
            keys = [(dimension, group.id) for group in above]
            self.ancestors[dimension, group_id] = [k for k in keys if k in self.by_key]

    def of_this_period(self, report: Report) -> Report:
        """Return a report without levels of another calendar period.

        Which period the sender is in goes by its own clock, by which it began anew.
        """
        if not self.calendar:
            return report
        at_s, rows = report.sent_at_s, []
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
        before: The limit that the ledger had; None where it is new.
    """
    limit, group = ruled.limit, ruled.group
    unlimited = isinf(limit.rate)
    rate = 0.0 if unlimited else limit.rate_per_s
    was_unlimited = bool(block.unlimited[slot])
    block.rate[slot] = rate
    # An infinite burst would make levels that are not numbers.
    burst = limit.burst if limit.burst < inf else 1e6 * max(rate, 1.0)
    block.burst[slot] = 0.0 if unlimited else burst
    block.unlimited[slot] = unlimited
    block.demand_cap[slot] = inf if unlimited else 2.0 * rate
    block.may_owe[slot] = group.may_owe and group.mode != "strict"
    block.strict[slot] = group.mode == "strict"
    block.isolation[slot] = ISOLATIONS.index(group.isolation)
    if was_unlimited and not unlimited:
        block.level[slot] = burst + float(block.ahead[1:, slot].sum())
        block.belief[slot] = burst
        # What was admitted while nothing was counted is not charged.
        block.admitted[1:, slot] = nan
        block.plausible[slot] = 0.0
    elif before is not None and limit.period and not unlimited:
        # What others report later was spent in the period that is over, as a rule:
        # it is charged to the new one, since nobody can tell the two apart.
        belief = float(block.belief[slot])
        change = limit.renewed(belief, before.limit) - belief
        block.level[slot] += change
        block.belief[slot] += change
    # What others told of the level was of the former limits.
    block.said[:, slot] = block.apart[:, slot] = nan
    block.bucket_knows[slot] = False
    block.dirty[slot] = block.stale[slot] = True
