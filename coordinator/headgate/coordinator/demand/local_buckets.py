"""This agent's own buckets: counters, demand, what was told, what was set.

Arrays of length N in the order of the shell's `Keys`, followed by ancestors that
the shell leaves out.

An ancestor counts what its children's counters *grow* by, while they are its children.
As the sum of their totals it would jump when a child with a past is moved under it and
fall when one leaves, and the others would believe neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.last_ceilings import LastCeilings
from headgate.coordinator.demand.blocking import Blocking
from headgate.coordinator.demand.estimator import Demand
from headgate.coordinator.demand.parents import Families
from headgate.coordinator.ledger.counter_resets import restarted
from headgate.coordinator.messages.events import SetCeilings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from headgate.coordinator.messages.events import Ceilings, Counted, Keys
    from headgate.coordinator.table.index import Key, Place, Table

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


COST_LASTS = 50.0
"""Looks with requests that the mean cost rests on.  It decides how ledgers are kept,
and each agent goes by its own: one request of fifteen times the others' must not make
an agent take a quota for a small one that nobody else does."""

RETIRED_MAX = 4096
"""Buckets that went whose counters are remembered; the oldest goes first."""


class Own:
    """The buckets of one `Keys`.

    Attributes:
        keys: The shell's; `index` of `SetCeilings` points into it.
        names: (dimension, group id) of each of the N, ancestors last.
        told_size: How many of the N are the shell's.
        numbers: ``int64[N]`` of the ledgers; −1 where none is configured.
        places: Where the own lines stand.
        admitted: ``float64[N]`` units since this life began; never falls.
        refused: ``float64[N]``.
        held: ``float64[N]`` level of the local bucket.
        overflowed: ``float64[N]`` units earned while full; NaN where none counts it.
        largest: ``float64[N]`` most that came within one tick since the row was told.
        clipped: ``float64[N]`` units that lowered capacities took out, as counted.
        credit: ``float64[N]`` units that the next ceilings are to put in, once.
        cost: ``float64[N]``.
        subjects: ``int64[N]``.
        demand: The estimates.
        usable: ``float64[N]`` λ' that no other limit blocks, units/s; what is told.
        sent_admitted: ``float64[N]`` as last published.
        sent_demand: ``float64[N]``; −1 where the row was never published.
        repeats: ``int64[N]`` heartbeats that are still to carry the row.
        again: ``int64[N]`` how often a row is still to be said again, for loss.
        again_at: ``float64[N]`` when that is due.
        confirm_at: ``float64[N]`` when a reset estimate is told again.
        wanted: ``bool[N]`` others asked for the row.
        used: ``bool[N]`` counters grew at the last look.
        positions: ``int64[N]``, 0 … N − 1.
    """

    def __init__(  # noqa: PLR0915  # one line for each array
        self,
        keys: Keys,
        ancestors: Mapping[Key, list[Key]],
        node: Mapping[Key, float],
        now: float,
    ) -> None:
        self.keys = keys
        names: list[Key] = [
            (keys.dimensions[d], g)
            for d, g in zip(
                keys.dimension.tolist(), keys.group_ids.tolist(), strict=True
            )
        ]
        self.told_size = len(names)
        at = {name: i for i, name in enumerate(names)}
        pairs: list[tuple[int, int]] = []
        for i, name in enumerate(list(names)):
            for above in ancestors.get(name, ()):
                if above not in at:
                    at[above] = len(names)
                    names.append(above)
                # A shell that has a bucket for it counts there only what is
                # charged to it directly, so the children's use is added anyway.
                pairs.append((at[above], i))
        self.names = names
        self.at = at
        self._sum_to = np.array([p[0] for p in pairs], dtype=np.int64)
        self._sum_of = np.array([p[1] for p in pairs], dtype=np.int64)
        n = len(names)
        self.numbers: Ints = np.full(n, -1, dtype=np.int64)
        self.places: list[Place] = []
        self.index_of: dict[int, int] = {}
        self.admitted, self.refused, self.held, self.clipped = np.zeros((4, n))
        self._raw_admitted, self._raw_refused = np.zeros((2, n))
        self._retired: dict[Key, tuple[float, ...]] = {}
        self.cost, self._direct_cost = np.ones((2, n))
        self._costs_seen, self.credit = np.zeros((2, n))
        self.subjects: Ints = np.zeros(n, dtype=np.int64)
        self.demand = Demand(n, now)
        self.usable = np.zeros(n)
        self.largest = np.zeros(n)
        self.overflowed = np.full(n, np.nan)
        self._raw_overflowed = np.zeros(n)
        self._blocking = Blocking(names, node)
        self.sent_admitted = np.zeros(n)
        self.sent_demand = np.full(n, -1.0)
        self.repeats: Ints = np.zeros(n, dtype=np.int64)
        self.again: Ints = np.zeros(n, dtype=np.int64)
        self.again_at = np.full(n, np.inf)
        self.confirm_at = np.full(n, np.inf)
        self.wanted = np.zeros(n, dtype=np.bool_)
        self._given = LastCeilings(n, self.told_size)
        self.used = np.zeros(n, dtype=np.bool_)
        self.positions: Ints = np.arange(n, dtype=np.int64)
        self.by_dimension = self._grouped()
        self._families: Families | None = None
        if pairs:
            self._families = Families(
                self._sum_to, self._sum_of, size=n, told_size=self.told_size, now=now
            )

    def _grouped(self) -> list[tuple[str, Ints, Ints]]:
        """Return for each dimension (name, positions by group id, group ids)."""
        dimensions = sorted({dimension for dimension, _ in self.names})
        grouped: list[tuple[str, Ints, Ints]] = []
        for dimension in dimensions:
            pairs = sorted(
                (group, i) for i, (d, group) in enumerate(self.names) if d == dimension
            )
            where = np.array([i for _, i in pairs], dtype=np.int64)
            groups = np.array([group for group, _ in pairs], dtype=np.int64)
            grouped.append((dimension, where, groups))
        return grouped

    def inherit(self, old: Own) -> None:
        """Go on with the buckets that were there before, or once were."""
        both = [
            (i, old.at[name]) for i, name in enumerate(self.names) if name in old.at
        ]
        to = np.array([pair[0] for pair in both], dtype=np.int64)
        of = np.array([pair[1] for pair in both], dtype=np.int64)
        for name in _INHERITED:
            getattr(self, name)[to] = getattr(old, name)[of]
        self.demand.inherit(old.demand, to, of)
        self._given.inherit(old._given, to, of)
        self._retired = old._retire(self.at)
        again = [
            (i, self._retired.pop(name))
            for i, name in enumerate(self.names)
            if name in self._retired
        ]
        for i, counted in again:
            for name, value in zip(_COUNTERS, counted, strict=True):
                getattr(self, name)[i] = value
        at = np.array([i for i, _ in again], dtype=np.int64)
        self.demand.begin(at, (self.admitted + self.refused)[at])
        if self._families is not None and old._families is not None:
            moved = {was: i for i, was in both}
            self._families.inherit(old._families, moved, self._raw())

    def _retire(self, kept: Mapping[Key, int]) -> dict[Key, tuple[float, ...]]:
        """Return the counters of buckets that are gone, the newest last."""
        counters = [getattr(self, name) for name in _COUNTERS]
        for name, i in self.at.items():
            if name not in kept:
                self._retired[name] = tuple(float(each[i]) for each in counters)
        while len(self._retired) > RETIRED_MAX:
            del self._retired[next(iter(self._retired))]
        return self._retired

    def place_in(self, table: Table) -> None:
        """Look up where the own lines stand; to be repeated when they move."""
        for dimension, where, groups in self.by_dimension:
            self.numbers[where] = table.numbers(dimension, groups)
        self.places = table.own_places(self.numbers)
        self.index_of = {
            number: i for i, number in enumerate(self.numbers.tolist()) if number >= 0
        }

    def count(self, event: Counted) -> bool:
        """Take the shell's counters; return whether anything was used.

        A counter that fell is a bucket that was made anew (it starts at 0), or a
        charge that was given back; neither makes the published counter fall.
        """
        if event.clipped is not None:
            self.clipped[: self.told_size] = event.clipped
        n = self.told_size
        if event.overflowed is not None:
            over = event.overflowed - self._raw_overflowed[:n]
            # A bucket that was made anew counts from 0.
            over = np.where(over < 0.0, event.overflowed, over)
            self._raw_overflowed[:n] = event.overflowed
            before = self.overflowed[:n]
            self.overflowed[:n] = np.where(np.isnan(before), 0.0, before) + over
        grown = event.admitted - self._raw_admitted[:n]
        turned_away = event.refused - self._raw_refused[:n]
        moved = bool(grown.any() or turned_away.any())
        self.held[:n] = event.held
        if moved:
            if min(grown.min(), turned_away.min()) < 0.0:
                restarted(grown, self._raw_admitted[:n], event.admitted)
                restarted(turned_away, self._raw_refused[:n], event.refused)
            self.admitted[:n] += grown
            self.refused[:n] += turned_away
            self._raw_admitted[:n] += grown
            self._raw_refused[:n] += turned_away
            used = grown + turned_away > 0.0
            self._costs_seen[:n] = np.minimum(self._costs_seen[:n] + used, COST_LASTS)
            gain = used / np.maximum(self._costs_seen[:n], 1.0)
            self._direct_cost[:n] += gain * (event.cost - self._direct_cost[:n])
            self.cost[:n] = self._direct_cost[:n]
            self.used[:n] = used
            self.largest[:n] = np.maximum(self.largest[:n], grown)
            self.subjects[:n] = event.subjects
            if len(self._sum_to):
                np.add.at(self.admitted, self._sum_to, grown[self._sum_of])
                np.maximum.at(self.largest, self._sum_to, grown[self._sum_of])
                np.add.at(self.refused, self._sum_to, turned_away[self._sum_of])
                self._sum_up()
        return moved

    def look(self, now: float) -> NDArray[np.bool_]:
        """Bring the estimates to `now`; return ``bool[N]``: which were reset."""
        reset = self.demand.look(now, self.admitted + self.refused, self.cost)
        self.usable = self._blocking.usable(self.demand.rate, self._given.ceiling)
        if self._families is not None:
            self._families.look(now, self._raw(), self.cost)
        return reset

    def rest(self, now: float) -> None:
        """Let time pass in which nothing was attempted."""
        self.demand.rest(now)
        if self._families is not None:
            self._families.rest(now)

    def add_up(self) -> None:
        """Let a parent want what its own callers want, and its children."""
        if self._families is not None:
            self.usable = self._families.add_up(self.usable, self.demand.rate)

    def _raw(self) -> Floats:
        raw: Floats = self._raw_admitted + self._raw_refused
        return raw

    def with_ancestors(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return ``bool[N]``, the same rows and those of all that stand above."""
        if self._families is None:
            return chosen
        return self._families.with_ancestors(chosen) & (self.numbers >= 0)

    def tell(self, chosen: NDArray[np.bool_], eager: NDArray[np.bool_]) -> Floats:
        """Return ``float64[N]`` λ' to tell; unmoved where each admission is told.

        Args:
            chosen: ``bool[N]`` rows that will be told.
            eager: ``bool[N]`` in which of all each admission is.
        """
        tellable = self.usable
        if eager.any():
            part = self.demand.unmoved() / np.maximum(self.demand.rate, 1e-12)
            tellable = np.where(eager, self.usable * part, self.usable)
        if self._families is not None:
            return self._families.tell(chosen, tellable)
        return tellable

    def change(
        self,
        rows: Ints,
        new: Ceilings,
        *,
        now: float,
        lease_s: float,
        exact: NDArray[np.bool_],
    ) -> SetCeilings | None:
        """Return what the shell must be told, and remember it.

        Args:
            rows: ``int64[K]`` buckets that were calculated.
            new: What came out.
            now: Monotonic seconds.
            lease_s: How long a ceiling is good for.
            exact: ``bool[K]`` every lowering counts, however small.
        """
        given = self._given
        lower = exact & given.is_lower(rows, new)
        lower |= self.credit[rows] > 0.0  # or it would be lost
        counted = self._raw_admitted[rows]
        far = given.take(rows, new, counted, now=now, lease_s=lease_s, anyway=lower)
        if far is None:
            return None
        at = rows[far]
        credit = self.credit[at]
        self.credit[at] = 0.0
        return SetCeilings(
            keys=self.keys,
            index=at,
            ceilings=new.at(far),
            counted=counted[far],
            as_of_s=now,
            deadline_s=given.deadline[at],
            credit=credit if credit.any() else None,
        )

    def _sum_up(self) -> None:
        n = self.told_size
        self.subjects[n:] = 0
        self.used[n:] = False
        # Of the told alone: sums must not enter other sums.
        told = self.subjects[:n].copy()
        np.add.at(self.subjects, self._sum_to, told[self._sum_of])
        np.logical_or.at(self.used, self._sum_to, self.used[self._sum_of])
        # Anew each time, or one dear request would be a parent's cost for ever.
        self.cost[n:] = 0.0
        np.maximum.at(self.cost, self._sum_to, self._direct_cost[self._sum_of])


_COUNTERS = ("admitted", "refused", "_raw_admitted", "_raw_refused")

_INHERITED = (
    *_COUNTERS,
    "held",
    "overflowed",
    "_raw_overflowed",
    "largest",
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
    "repeats",
    "usable",
    "confirm_at",
)
