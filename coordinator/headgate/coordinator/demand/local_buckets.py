"""This agent's own buckets: counters, demand, what was reported and what was set.

Arrays of length N in the order of the shell's `Keys`, followed by ancestors for which
the shell has no bucket.

An ancestor counts the *growth* of its children's counters while they are its children.
A sum of their totals would jump when a child with a history is moved under it, and fall
when one leaves, and the other agents would believe neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.last_ceilings import LastCeilings
from headgate.coordinator.demand.blocking import Blocking
from headgate.coordinator.demand.estimator import Demand
from headgate.coordinator.demand.parents import Families
from headgate.coordinator.messages.report import Rows
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    single,
    some,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.coordinator.messages.events import Counted, Keys
    from headgate.coordinator.table.arrays import Flags, Floats, Index, Ints
    from headgate.coordinator.table.index import Key, Place, Table

COST_LASTS = 50.0
"""Number of looks with requests over which the mean cost is averaged.  The mean decides
how a ledger is kept, and each agent uses its own: a single request of fifteen times the
usual cost must not make one agent treat a quota as a small one."""

LEAST_PART = 0.1
"""Callers who want less than this part of what those of another group inside the same
one do don't count for what its requests cost: they may have asked long ago."""

ANNOUNCED_COSTS = 3.0
"""A request, or the sum of one tick, above this many mean costs is announced."""

ANNOUNCED_S = 30.0
"""How long the largest request stays announced at least, and half of the longest time:
the first report of it may be lost."""

TOLD_IF_0 = frozenset({"level", "inside"})
"""Further columns of rows that are not left out if all are 0: a level of 0 is one, and
`inside` says which column `own` is."""

RETIRED_MAX = 1 << 16
"""Most dropped buckets whose counters are remembered; the oldest is forgotten first."""


class LocalBuckets:
    """The buckets of one `Keys`.

    Attributes:
        keys: The shell's keys; `index` of `SetCeilings` points into them.
        names: (dimension, group id) of each of the N, ancestors last.
        shell_size: How many of the N the shell has a bucket for.
        numbers: ``int64[N]`` numbers of the ledgers; −1 if none is configured.
        places: Where this agent's lines stand in the table.
        admitted: ``float64[N]`` units since this life began; never falls.
        refused: ``float64[N]`` units since this life began.
        held: ``float64[N]`` level of the local bucket.
        overflowed: ``float64[N]`` units earned while full; NaN if no bucket counts it.
        largest: ``float64[N]`` most units in one tick lately.
        clipped: ``float64[N]`` units that buckets lost when capacities were lowered.
        counted: ``float64[N]`` the shell's counters of what was admitted.
        credit: ``float64[N]`` units that the next ceilings must put in, once.
        given: The terms that the shell was given last.
        cost: ``float64[N]`` mean units of a request.
        subjects: ``int64[N]`` limiters in use.
        demand: The estimates.
        usable: ``float64[N]`` λ' that no other limit blocks, units/s, and of callers
            inside what the limits there admit.
        beyond: ``float64[N]`` λ' of callers inside that limits there refuse.
        passes: ``float64[N]`` part of `usable` that counts for the parent.
        sent_admitted: ``float64[N]`` `admitted` as last published.
        sent_demand: ``float64[N]`` λ' as last published; −1 if never.
        repeated: ``float64[N]`` reports that repeated λ' since it moved; infinite if it
            never did.
        again: ``float64[N]`` how often a row must still be repeated because of loss.
        again_at: ``float64[N]`` when that is due.
        confirm_at: ``float64[N]`` when a reset estimate is to be reported again.
        wanted: ``bool[N]`` others asked for the row.
        used: ``bool[N]`` counters grew at the last look.
        positions: ``int64[N]``, 0 … N − 1.
        all: All N as an index; a number if N is 1.
    """

    def __init__(
        self,
        keys: Keys,
        ancestors: Mapping[Key, list[Key]],
        node: Mapping[Key, float],
        now: float,
    ) -> None:
        self.keys = keys
        self.names: list[Key] = [
            (keys.dimensions[d], g)
            for d, g in zip(
                keys.dimension.tolist(), keys.group_ids.tolist(), strict=True
            )
        ]
        self.shell_size = len(self.names)
        self.at = {name: i for i, name in enumerate(self.names)}
        pairs = self._append_ancestors(ancestors)
        self._sum_to = np.array([p[0] for p in pairs], dtype=np.int64)
        self._sum_of = np.array([p[1] for p in pairs], dtype=np.int64)
        n = len(self.names)
        self.all = single(slice(0, n))
        # The buckets that the shell has; a number if there is only one.
        told = slice(0, self.shell_size)
        self._told: Index = told if pairs else single(told)
        self.numbers: Ints = np.full(n, -1, dtype=np.int64)
        self.places: list[Place] = []
        self._placed = -1
        self.admitted, self.refused, self.held, self.clipped = np.zeros((4, n))
        self.counted, self._raw_refused, self._raw_overflowed = np.zeros((3, n))
        self._retired: dict[Key, tuple[float, ...]] = {}
        self.cost, self._direct_cost = np.ones((2, n))
        self._costs_seen, self.credit = np.zeros((2, n))
        self.subjects = np.zeros(n, dtype=np.int64)
        self.demand = Demand(n, now)
        self.usable, self.beyond, self.sent_admitted, self.again = np.zeros((4, n))
        self.passes = np.ones(n)
        self.largest, self._largest_before = np.zeros((2, n))
        self._largest_since = now
        self.overflowed = np.full(n, np.nan)
        self._blocking = Blocking(self.names, node)
        self.sent_demand = np.full(n, -1.0)
        self.repeated, self.again_at, self.confirm_at = np.full((3, n), np.inf)
        self.given = LastCeilings(keys, n)
        self.wanted, self.used = np.zeros((2, n), dtype=np.bool_)
        self.positions: Ints = np.arange(n, dtype=np.int64)
        self.by_dimension = self._grouped()
        self._families: Families | None = None
        if pairs:
            levels = self._levels(ancestors)
            self._families = Families(
                levels, size=n, shell_size=self.shell_size, now=now
            )

    def _append_ancestors(
        self, ancestors: Mapping[Key, list[Key]]
    ) -> list[tuple[int, int]]:
        """Append the ancestors' names; return (ancestor, descendant), by position."""
        pairs: list[tuple[int, int]] = []
        for i, name in enumerate(list(self.names)):
            for above in ancestors.get(name, ()):
                if above not in self.at:
                    self.at[above] = len(self.names)
                    self.names.append(above)
                # A shell that has a bucket for it counts there only what is
                # charged to it directly, so the children's use is added anyway.
                pairs.append((self.at[above], i))
        return pairs

    def _levels(self, ancestors: Mapping[Key, list[Key]]) -> list[tuple[Ints, Ints]]:
        """Return positions of buckets and of their parents, the deepest level first."""
        parents = {
            i: self.at[above[0]]
            for i, name in enumerate(self.names)
            if (above := ancestors.get(name))
        }
        levels: dict[int, list[tuple[int, int]]] = {}
        for i, parent in parents.items():
            depth, at = 1, parent
            while at in parents:
                depth, at = depth + 1, parents[at]
            levels.setdefault(depth, []).append((i, parent))
        pairs = [np.array(levels[depth]).T for depth in sorted(levels, reverse=True)]
        return [(of, to) for of, to in pairs]

    def _grouped(self) -> list[tuple[str, Ints, Ints]]:
        """Return for each dimension (name, positions by group id, group ids)."""
        ids = np.array([group for _, group in self.names], dtype=np.int64)
        positions: dict[str, list[int]] = {}
        for i, (dimension, _) in enumerate(self.names):
            positions.setdefault(dimension, []).append(i)
        grouped: list[tuple[str, Ints, Ints]] = []
        for dimension in sorted(positions):
            where = np.array(positions[dimension], dtype=np.int64)
            where = where[ids[where].argsort(kind="stable")]
            grouped.append((dimension, where, ids[where]))
        return grouped

    def inherit(self, old: LocalBuckets) -> None:
        """Take over the state of buckets that existed before, now or earlier."""
        both = [
            (i, old.at[name]) for i, name in enumerate(self.names) if name in old.at
        ]
        to, of = np.array(both, dtype=np.int64).reshape(-1, 2).T
        for name in _INHERITED:
            getattr(self, name)[to] = getattr(old, name)[of]
        self._largest_since = old._largest_since
        self.demand.inherit(old.demand, to, of)
        self.given.inherit(old.given, to, of)
        self._retired = old._retire(self.at)
        again = [i for i, name in enumerate(self.names) if name in self._retired]
        for i in again:
            counted = self._retired.pop(self.names[i])
            for name, value in zip(_COUNTERS, counted, strict=True):
                getattr(self, name)[i] = value
        at = np.array(again, dtype=np.int64)
        self.demand.begin(at, (self.admitted + self.refused)[at])
        if self._families is None:
            self.beyond[:] = 0.0
        elif old._families is not None:
            self._families.inherit(old._families, to, of, self._raw())

    def _retire(self, kept: Mapping[Key, int]) -> dict[Key, tuple[float, ...]]:
        """Return the counters of dropped buckets, the newest last."""
        counters = [getattr(self, name) for name in _COUNTERS]
        for name, i in self.at.items():
            if name not in kept:
                self._retired[name] = tuple(float(each[i]) for each in counters)
        while len(self._retired) > RETIRED_MAX:
            del self._retired[next(iter(self._retired))]
        return self._retired

    def place_in(self, table: Table) -> None:
        """Look up where this agent's lines stand, if lines have moved since."""
        if self._placed == table.version:
            return
        self._placed = table.version
        for dimension, where, groups in self.by_dimension:
            self.numbers[where] = table.numbers(dimension, groups)
        self.places = table.own_places(self.numbers)

    def count(self, event: Counted) -> bool:
        """Enter the shell's counters; return whether anything was used.

        A counter falls if its bucket was recreated (and starts at 0) or a charge was
        given back; neither makes the published counter fall.
        """
        at = self._told
        if event.clipped is not None:
            self.clipped[at] = event.clipped[at]
        if event.overflowed is not None:
            overflowed = event.overflowed[at]
            over = overflowed - self._raw_overflowed[at]
            # A bucket that was recreated counts from 0.
            over = chosen(over < 0.0, overflowed, over)
            self._raw_overflowed[at] = overflowed
            before = self.overflowed[at]
            self.overflowed[at] = chosen(before == before, before, 0.0) + over
            # A parent's bucket doesn't know what its children are charged.
            self.overflowed[self._sum_to] = np.nan
        grown = event.admitted[at] - self.counted[at]
        turned_away = event.refused[at] - self._raw_refused[at]
        moved = some(grown) or some(turned_away)
        self.held[at] = event.held[at]
        if moved:
            if min(grown.min(), turned_away.min()) < 0.0:
                grown = restarted(grown, self.counted, at, event.admitted)
                turned_away = restarted(
                    turned_away, self._raw_refused, at, event.refused
                )
            self.admitted[at] += grown
            self.refused[at] += turned_away
            self.counted[at] += grown
            self._raw_refused[at] += turned_away
            used = grown + turned_away > 0.0
            seen = lesser(self._costs_seen[at] + used, COST_LASTS)
            self._costs_seen[at] = seen
            own_callers = self._direct_cost[at]
            own_callers = own_callers + used / greater(seen, 1.0) * (
                event.cost[at] - own_callers
            )
            self.cost[at] = self._direct_cost[at] = own_callers
            self.used[at] = used
            self.largest[at] = greater(self.largest[at], grown)
            self.subjects[at] = event.subjects[at]
            if len(self._sum_to):
                np.add.at(self.admitted, self._sum_to, grown[self._sum_of])
                np.maximum.at(self.largest, self._sum_to, grown[self._sum_of])
                np.add.at(self.refused, self._sum_to, turned_away[self._sum_of])
                self._sum_up()
        return moved

    def look(self, now: float) -> Flags:
        """Bring the estimates to `now`; return ``bool[N]``: which were reset."""
        if now - self._largest_since > ANNOUNCED_S:
            self._largest_before, self._largest_since = self.largest, now
            self.largest = np.zeros(len(self.names))
        reset = self.demand.look(now, self.admitted + self.refused, self.cost)
        self.usable = self._blocking.usable(self.demand.rate, self.given.ceiling)
        if self._families is not None:
            self._families.look(now, self._raw(), self.cost)
        return reset

    def rest(self, now: float) -> None:
        """Let time pass in which nothing was attempted."""
        self.demand.rest(now)
        if self._families is not None:
            self._families.rest(now)

    def add_up(self) -> None:
        """Make each parent want what its own callers and its children want."""
        if self._families is not None:
            rate, passes = self.demand.rate, self.passes
            self.usable, self.beyond = self._families.add_up(self.usable, rate, passes)

    def called(self, key: Key) -> bool:
        """Return whether a bucket was ever asked itself, not only others inside it."""
        at = self.at.get(key)
        return at is not None and self.counted.item(at) + self._raw_refused.item(at) > 0

    def _raw(self) -> Floats:
        raw: Floats = self.counted + self._raw_refused
        return raw

    def with_ancestors(self, chosen: Flags) -> Flags:
        """Return ``bool[N]``, the same rows and those of all their ancestors."""
        if self._families is None:
            return chosen
        return self._families.with_ancestors(chosen) & (self.numbers >= 0)

    def tell(self, chosen: Flags, eager: Flags) -> tuple[Floats, Floats]:
        """Return ``float64[N]`` λ' to report, and ``float64[N]`` what is `beyond` that.

        Args:
            chosen: ``bool[N]`` rows that will be reported.
            eager: ``bool[N]`` rows that report each admission; their λ' leaves out the
                requests of the newest look.
        """
        tellable = self.usable
        if eager.any():
            part = self.demand.unmoved() / np.maximum(self.demand.rate, 1e-12)
            tellable = np.where(eager, self.usable * part, self.usable)
        if self._families is not None:
            return self._families.tell(chosen, tellable, self.passes)
        return tellable, self.beyond

    def rows_to_report(
        self,
        chosen: Flags,
        demand: Floats,
        beyond: Floats,
        **optional: Floats | None,
    ) -> tuple[Rows, ...]:
        """Return rows to report, by dimension, and note what they say.

        Args:
            chosen: ``bool[N]`` which ones.
            demand: ``float64[N]`` λ' to report.
            beyond: ``float64[N]`` what callers inside want beyond it.
            optional: ``float64[N]`` further columns of `Rows`; None where they are left
                out.  Those whose picked rows are all 0 are left out, too, but for
                `TOLD_IF_0`.
        """
        parts: list[Rows] = []
        for dimension, where, groups in self.by_dimension:
            picked = chosen[where]
            if not picked.any():
                continue
            at = where[picked]
            largest = np.maximum(self.largest[at], self._largest_before[at])
            cost = self.cost[at]
            large = largest > ANNOUNCED_COSTS * cost
            counted, more = demand[at], beyond[at]
            own = counted if self._families is None else self._families.own[at]
            inside = optional.get("inside") is not None
            parts.append(
                Rows(
                    dimension=dimension,
                    group_ids=groups[picked],
                    refused=self.refused[at],
                    admitted=self.admitted[at],
                    demand=counted + more,
                    counted=counted if more.any() else None,
                    own=own if inside else None,
                    held=self.held[at],
                    cost=cost,
                    largest=np.where(large, largest, 0.0) if large.any() else None,
                    subjects=self.subjects[at],
                    **{
                        name: column[at]
                        for name, column in optional.items()
                        if column is not None
                        and (name in TOLD_IF_0 or column[at].any())
                    },
                )
            )
        self.sent_admitted[chosen] = self.admitted[chosen]
        self.sent_demand[chosen] = demand[chosen]
        self.wanted[chosen] = False
        return tuple(parts)

    def _sum_up(self) -> None:
        n = self.shell_size
        self.subjects[n:] = 0
        self.used[n:] = False
        # Only the shell's own buckets: sums must not enter other sums.
        told = self.subjects[:n].copy()
        np.add.at(self.subjects, self._sum_to, told[self._sum_of])
        np.logical_or.at(self.used, self._sum_to, self.used[self._sum_of])
        self._sum_costs()

    def _sum_costs(self) -> None:
        """Let a parent's cost be the largest of those who ask for a part of it.

        Computed from scratch each time, or one expensive request would set it for ever.
        """
        assert self._families is not None
        parents = self._families.parents
        here = parents[parents < self.shell_size]
        to = np.concatenate([self._sum_to, here])
        of = np.concatenate([self._sum_of, here])
        wants = self._families.own
        most, largest = np.zeros((2, len(self.names)))
        np.maximum.at(most, to, wants[of])
        asks = (self._costs_seen[of] > 0.0) & (wants[of] >= LEAST_PART * most[to])
        np.maximum.at(largest, to[asks], self._direct_cost[of[asks]])
        self.cost[parents] = np.where(
            largest[parents] > 0.0, largest[parents], self.cost[parents]
        )


def restarted(grown: Floats, counted: Floats, at: Index, now: Floats) -> Floats:
    """Return how much counters grew, some of which may have fallen; never below 0.

    Either the bucket was recreated at 0, or a charge was given back.  A charge that was
    given back is not counted again when it is charged the next time.

    Args:
        grown: ``float64[K]`` growth, or a number if K is 1.
        counted: ``float64[N]`` the counters before; those that fell to 0 are changed.
        at: Where the K counters stand.
        now: ``float64[K]`` the counters.
    """
    made_anew = (grown < 0.0) & (now[at] <= 0.5 * counted[at])
    counted[at] = chosen(made_anew, 0.0, counted[at])
    return chosen(made_anew, now[at], greater(grown, 0.0))


_COUNTERS = ("admitted", "refused", "counted", "_raw_refused")

_INHERITED = (
    *_COUNTERS,
    "held",
    "overflowed",
    "_raw_overflowed",
    "largest",
    "_largest_before",
    "again",
    "again_at",
    "credit",
    "cost",
    "_direct_cost",
    "_costs_seen",
    "subjects",
    "sent_admitted",
    "sent_demand",
    "wanted",
    "repeated",
    "usable",
    "beyond",
    "passes",
    "confirm_at",
)
