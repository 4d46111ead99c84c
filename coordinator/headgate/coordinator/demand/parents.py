"""The demand of a parent's own callers, apart from its children's.

A parent's reported λ is an estimate for its own callers alone plus the λ reported for
its children (docs/decisions/0011-direct-callers-of-a-parent-group.md), as far as the
limits of these admit it
(docs/decisions/0081-what-may-not-be-used-is-no-demand-above.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.demand.estimator import Demand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.coordinator.table.arrays import Flags, Floats, Ints


class Families:
    """Parents among N buckets.

    Attributes:
        parents: ``int64[P]`` their positions.
        own: ``float64[N]`` λ' of own callers, as added up or told last.

    Args:
        levels: For each level, the deepest first: ``int64[K]`` positions of its buckets
            and ``int64[K]`` of the parent of each.
        size: N.
        shell_size: How many of the N have a bucket; the others have no own callers.
        now: Monotonic seconds.
    """

    def __init__(
        self,
        levels: Sequence[tuple[Ints, Ints]],
        *,
        size: int,
        shell_size: int,
        now: float,
    ) -> None:
        self._levels = levels
        self.parents: Ints = np.unique(np.concatenate([to for _, to in levels]))
        self._called: Ints = self.parents[self.parents < shell_size]
        self._demand = Demand(len(self._called), now)
        self._direct, self._told, self.own = np.zeros((3, size))

    def look(self, now: float, totals: Floats, cost: Floats) -> None:
        """Bring the estimates of own callers to `now`.

        Args:
            now: Monotonic seconds.
            totals: ``float64[N]`` units attempted at each bucket itself.
            cost: ``float64[N]`` units per request.
        """
        if len(self._called):
            self._demand.look(now, totals[self._called], cost[self._called])

    def rest(self, now: float) -> None:
        """Let time pass in which nothing was attempted."""
        self._demand.rest(now)

    def inherit(self, old: Families, to: Ints, of: Ints, totals: Floats) -> None:
        """Take over earlier estimates.

        Args:
            old: The parents before.
            to: ``int64[K]`` positions now.
            of: ``int64[K]`` positions of the same buckets before.
            totals: ``float64[N]`` as for `look`.
        """
        self._told[to] = old._told[of]
        self.own = self._told
        both = np.isin(to, self._called) & np.isin(of, old._called)
        at = np.searchsorted(self._called, to[both])
        self._demand.inherit(old._demand, at, np.searchsorted(old._called, of[both]))
        fresh: Ints = np.setdiff1d(np.arange(len(self._called)), at)
        self._demand.begin(fresh, totals[self._called[fresh]])

    def add_up(
        self, usable: Floats, rate: Floats, passes: Floats
    ) -> tuple[Floats, Floats]:
        """Return λ', ``float64[N]``; a parent's includes its callers and children.

        And ``float64[N]``, what children want beyond that.

        Args:
            usable: ``float64[N]`` λ' of all callers at or below a bucket.
            rate: ``float64[N]`` their λ; the usable fraction applies to each part.
            passes: ``float64[N]`` part of each that counts for its parent.
        """
        self._direct[self.parents] = 0.0
        if len(self._called):
            passing = usable[self._called] / np.maximum(rate[self._called], 1e-12)
            self._direct[self._called] = self._demand.rate * passing
        own = self.own = self._apart(usable)
        return self._summed(own, own, passes)

    def tell(
        self, chosen: Flags, demand: Floats, passes: Floats
    ) -> tuple[Floats, Floats]:
        """Return the same as `add_up`, to be reported, and remember it.

        Args:
            chosen: ``bool[N]`` rows to publish, their ancestors included.
            demand: ``float64[N]`` λ' to report for children.
            passes: ``float64[N]`` part of each that counts for its parent.
        """
        own = self._apart(demand)
        self._told[chosen] = own[chosen]
        self.own = self._told
        return self._summed(own, self._told, passes)

    def with_ancestors(self, chosen: Flags) -> Flags:
        """Return ``bool[N]``, the same rows and those of all their ancestors."""
        more = chosen.copy()
        for of, to in self._levels:
            np.logical_or.at(more, to, more[of])
        return more

    def _apart(self, demand: Floats) -> Floats:
        own = demand.copy()
        own[self.parents] = self._direct[self.parents]
        return own

    def _summed(
        self, own: Floats, told: Floats, passes: Floats
    ) -> tuple[Floats, Floats]:
        counted, whole = told.copy(), told.copy()
        for of, to in self._levels:
            np.add.at(counted, to, passes[of] * counted[of])
            np.add.at(whole, to, whole[of])
        return own + (counted - told), whole - counted
