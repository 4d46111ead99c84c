"""The cluster-wide limits of a configuration, as ledgers need them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, nan
from typing import TYPE_CHECKING

from headgate.coordinator.config.configuration import (
    ISOLATIONS,
    ancestry_of,
    limits_in_force,
)

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Configuration, Group, Limit
    from headgate.coordinator.table.arrays import Shelf
    from headgate.coordinator.table.index import Key

DEBT_S = 1.0
"""D in seconds of Q: a debt beyond it is forgiven, or one lie would close a group
for minutes."""

DEMAND_CAP = 2.0
"""λ ≤ 2·Q: a storm of retries, or a lie, buys no more than wanting it all."""

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
        for dimension, group_id in self.by_key:
            above = ancestry_of(groups[group_id], groups)[:ANCESTORS_MAX]
            keys = [(dimension, group.id) for group in above]
            self.ancestors[dimension, group_id] = [k for k in keys if k in self.by_key]


def apply(ruled: Ruled, shelf: Shelf, slot: int) -> None:
    """Write a limit into a settled ledger.

    A lowered burst takes effect at the next settling: E is clamped to it, so no
    burst of old tokens follows.
    """
    limit, group = ruled.limit, ruled.group
    unlimited = isinf(limit.rate)
    rate = 0.0 if unlimited else limit.rate_per_s
    was_unlimited = bool(shelf.unlimited[slot])
    shelf.rate[slot] = rate
    # An infinite burst would make levels that are not numbers.
    burst = limit.burst if limit.burst < inf else 1e6 * max(rate, 1.0)
    shelf.burst[slot] = 0.0 if unlimited else burst
    shelf.debt_cap[slot] = rate * DEBT_S
    shelf.unlimited[slot] = unlimited
    shelf.demand_cap[slot] = inf if unlimited else DEMAND_CAP * rate
    shelf.strict[slot] = group.mode == "strict"
    shelf.isolation[slot] = ISOLATIONS.index(group.isolation)
    if was_unlimited and not unlimited:
        outstanding = float(shelf.ahead[1:, slot].sum() + shelf.held[:, slot].sum())
        shelf.level[slot] = burst + outstanding
        # What was admitted while nothing was counted is not charged.
        shelf.admitted[1:, slot] = nan
        shelf.plausible[slot] = 0.0
    shelf.dirty[slot] = shelf.stale[slot] = True
