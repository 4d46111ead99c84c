"""What the coordinator is told of the local buckets, as columns.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.events import Counted, Keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from headgate.agent.bucket import Bucket
    from headgate.agent.registry import LocalBucket
    from headgate.coordinator.events import SetCeilings

KEYS_KEPT = 2
"""Generations of keys that `SetCeilings` may point into: the present one, and the
one that a step under way in the agent's thread was given."""

COST_WEIGHT = 0.3
"""Part of the newest tick in the mean cost: three ticks make most of it."""

FIRST_COST = 1.0
"""Mean cost before the first request: most dimensions count single things."""


class Columns:
    """The buckets of one `Keys`, and what was last said of them."""

    def __init__(self, locals_: list[LocalBucket], before: Columns | None) -> None:
        """Order the buckets; carry over what `before` knew of those that stay.

        Args:
            locals_: The cluster-scoped buckets in use.
            before: The columns of the last keys.
        """
        self.locals = sorted(
            locals_, key=lambda local: (local.limit.dimension, local.group.id)
        )
        self.buckets: list[Bucket] = [local.bucket for local in self.locals]
        names = tuple(sorted({local.limit.dimension for local in self.locals}))
        index = {name: position for position, name in enumerate(names)}
        self.keys = Keys(
            names,
            _integers(index[local.limit.dimension] for local in self.locals),
            _integers(local.group.id for local in self.locals),
        )
        count = len(self.locals)
        self._refused = np.zeros(count)
        self._admitted = np.zeros(count)
        self._sampled = np.zeros(count)
        self._sampled_units = np.zeros(count)
        self._cost = np.full(count, FIRST_COST)
        if before is not None:
            self._carry_over(before)

    def counted(self, now: float, uses: Mapping[int, int]) -> Counted:
        """Read all counters.

        Args:
            now: Seconds on the enforcer's clock.
            uses: Number of limiters by group id.
        """
        buckets = self.buckets
        # A charge that is given back lowers a counter; the others must never see
        # it fall, so it stands still until new charges have caught up.
        admitted = np.maximum(self._admitted, _floats(b.admitted for b in buckets))
        refused = np.maximum(self._refused, _floats(b.refused for b in buckets))
        sampled = _floats(b.sampled for b in buckets)
        sampled_units = _floats(b.sampled_units for b in buckets)
        units, made = sampled_units - self._sampled_units, sampled - self._sampled
        fresh = (made > 0.0) & (units > 0.0)
        mean = np.divide(units, made, out=self._cost.copy(), where=fresh)
        cost = np.where(fresh, self._cost + COST_WEIGHT * (mean - self._cost), mean)
        first = fresh & (self._sampled == 0.0)
        cost[first] = mean[first]
        self._admitted, self._refused = admitted, refused
        self._sampled, self._sampled_units = sampled, sampled_units
        self._cost = cost
        return Counted(
            keys=self.keys,
            refused=refused,
            admitted=admitted,
            held=_floats(b.held_at(now) for b in buckets),
            cost=cost,
            subjects=_integers(uses.get(x.group.id, 0) for x in self.locals),
        )

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Set what the coordinator decided, where the limit still has a rate."""
        ceiling, capacity = ceilings.ceiling.tolist(), ceilings.capacity.tolist()
        probability, share = ceilings.probability.tolist(), ceilings.share.tolist()
        deadline_s, reserve = ceilings.deadline_s.tolist(), ceilings.reserve.tolist()
        index: int
        for row, index in enumerate(ceilings.index.tolist()):
            local = self.locals[index]
            limit = local.limit
            # The step may have been taken before the limit was closed or opened.
            if 0.0 < limit.rate < inf:
                local.share = share[row]
                local.bucket.set_ceiling_at(
                    now,
                    ceiling=ceiling[row],
                    capacity=min(capacity[row], limit.burst),
                    probability=probability[row],
                    deadline_s=deadline_s[row],
                    reserve=reserve[row],
                )

    def _carry_over(self, before: Columns) -> None:
        old = {id(bucket): index for index, bucket in enumerate(before.buckets)}
        pairs = [
            (index, old[id(bucket)])
            for index, bucket in enumerate(self.buckets)
            if id(bucket) in old
        ]
        to = _integers(pair[0] for pair in pairs)
        source = _integers(pair[1] for pair in pairs)
        self._refused[to] = before._refused[source]
        self._admitted[to] = before._admitted[source]
        self._sampled[to] = before._sampled[source]
        self._sampled_units[to] = before._sampled_units[source]
        self._cost[to] = before._cost[source]


def _floats(values: Iterable[float]) -> NDArray[np.float64]:
    return np.array(list(values), dtype=np.float64)


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(values), dtype=np.int64)
