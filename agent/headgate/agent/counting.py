"""What the coordinator is told of the local buckets, as columns.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from math import inf, nan
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
        self._group_ids = [local.group.id for local in self.locals]
        self._refused = [0.0] * count
        self._admitted = [0.0] * count
        self._held = [nan] * count
        self._spent = [0.0] * count
        self._folded = [0.0] * count
        self._said: Counted | None = None
        self._uses: dict[int, int] = {}
        self._sampled = [0] * count
        self._sampled_units = [0.0] * count
        self._cost = [FIRST_COST] * count
        if before is not None:
            self._carry_over(before)

    def counted(self, now: float, uses: Mapping[int, int]) -> Counted:
        """Read all counters.

        Args:
            now: Seconds on the enforcer's clock.
            uses: Number of limiters by group id.
        """
        still = self._said is not None and uses == self._uses
        for i, bucket in enumerate(self.buckets):
            # Most buckets of an agent are at rest, full and not asked for anything:
            # of them nothing can have changed.
            if (
                bucket.sampled == self._sampled[i]
                and bucket.spent == self._spent[i]
                and bucket.folded == self._folded[i]
                and bucket.capacity == self._held[i]
                and not bucket.tokenless
            ):
                continue
            still = False
            self._look(i, bucket, now)
        if still and self._said is not None:
            return self._said
        self._uses = dict(uses)
        self._said = Counted(
            keys=self.keys,
            refused=np.array(self._refused, dtype=np.float64),
            admitted=np.array(self._admitted, dtype=np.float64),
            held=np.array(self._held, dtype=np.float64),
            cost=np.array(self._cost, dtype=np.float64),
            subjects=_integers([uses.get(group_id, 0) for group_id in self._group_ids]),
        )
        return self._said

    def _look(self, i: int, bucket: Bucket, now: float) -> None:
        """Read one bucket."""
        # Counters first: what is charged meanwhile is seen at the next look.
        self._spent[i], self._folded[i] = bucket.spent, bucket.folded
        # A charge that is given back lowers a counter; the others must never see
        # it fall, so it stands still until new charges have caught up.
        self._admitted[i] = max(self._admitted[i], bucket.admitted)
        self._refused[i] = max(self._refused[i], bucket.refused)
        if bucket.sampled != self._sampled[i]:
            self._sample(i, bucket)
        self._held[i] = bucket.held_at(now)

    def _sample(self, i: int, bucket: Bucket) -> None:
        """Bring the mean cost of one bucket's requests up to date."""
        sampled, sampled_units = bucket.sampled, bucket.sampled_units
        units, made = sampled_units - self._sampled_units[i], sampled - self._sampled[i]
        if made > 0 and units > 0.0:
            mean = units / made
            cost = self._cost[i]
            first = self._sampled[i] == 0
            self._cost[i] = mean if first else cost + COST_WEIGHT * (mean - cost)
        self._sampled[i], self._sampled_units[i] = sampled, sampled_units

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
        for to, bucket in enumerate(self.buckets):
            place = old.get(id(bucket))
            if place is not None:
                self._refused[to] = before._refused[place]
                self._admitted[to] = before._admitted[place]
                self._sampled[to] = before._sampled[place]
                self._sampled_units[to] = before._sampled_units[place]
                self._cost[to] = before._cost[place]


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(values), dtype=np.int64)
