"""Demand that another limit blocks anyway must not claim a share.

A request is admitted only if every limit of its chain admits it.  If the limit on
messages admits a tenth of all attempts, only a tenth of the bytes can ever be used, and
a share of the rest would be stranded.  So each agent reports, in dimension d of a
group,

    λ'_d = λ_d · min over the group's other dimensions, and its limits per node, of
           min(1, ceiling/λ)

**Why does the sender do it?**  It knows its own ceilings and node limits; receivers
would have to match one agent's lines across ledgers.  **Why can't it lock up?**  The
factor of d' compares what d' allows with what is *attempted* there, not with λ'_d', so
two dimensions can't push each other down: once d' stops blocking, its factor is 1
whatever d does.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headgate.coordinator.table.arrays import Floats
    from headgate.coordinator.table.index import Key


class Blocking:
    """Which of N buckets can block which others.

    Args:
        names: (dimension, group id) of each bucket.
        node: (dimension, group id) → units/s that one agent may use.
    """

    def __init__(self, names: Sequence[Key], node: Mapping[Key, float]) -> None:
        by_group: dict[int, list[int]] = {}
        if len({group_id for _, group_id in names}) < len(names):
            for i, (_, group_id) in enumerate(names):
                by_group.setdefault(group_id, []).append(i)
        pairs = [p for same in by_group.values() for p in permutations(same, 2)]
        self._blocked, self._by = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._node = np.full(len(names), np.inf)
        if node:
            self._node[:] = [node.get(name, np.inf) for name in names]
        self._any = bool(pairs) or bool(np.isfinite(self._node).any())

    def usable(self, demand: Floats, ceiling: Floats) -> Floats:
        """Return λ', ``float64[N]``.

        Args:
            demand: ``float64[N]`` λ, units/s.
            ceiling: ``float64[N]`` as last set; NaN if never set.
        """
        if not self._any:
            return demand
        wanted = np.maximum(demand, 1e-12)
        by_node = np.minimum(1.0, self._node / wanted)
        factor = by_node.copy()
        if len(self._by):
            passing = np.fmin(by_node, ceiling / wanted)  # a NaN blocks nothing
            np.minimum.at(factor, self._blocked, passing[self._by])
        return demand * factor
