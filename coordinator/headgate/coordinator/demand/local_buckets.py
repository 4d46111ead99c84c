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

from headgate.coordinator.allocation.last_ceilings import Given
from headgate.coordinator.demand.blocking import Blocking
from headgate.coordinator.demand.estimator import Demand
from headgate.coordinator.demand.parents import Families
from headgate.coordinator.ledger.counter_resets import restarted
from headgate.coordinator.ledger.scalar import charge_one, wake_one
from headgate.coordinator.messages.events import SetCeilings
from headgate.coordinator.table.index import FEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from headgate.coordinator.allocation.ceilings import Ceilings
    from headgate.coordinator.messages.events import Counted, Keys
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
        held: ``float64[N]``.
        clipped: ``float64[N]`` units that lowered capacities took out, as counted.
        credit: ``float64[N]`` units that the next ceilings are to put in, once.
        cost: ``float64[N]``.
        subjects: ``int64[N]``.
        demand: The estimates.
        usable: ``float64[N]`` λ' that no other limit blocks, units/s; what is told.
        sent_admitted: ``float64[N]`` as last published.
        sent_held: ``float64[N]``.
        sent_demand: ``float64[N]``; −1 where the row was never published.
        repeats: ``int64[N]`` heartbeats that are still to carry the row.
        confirm_at: ``float64[N]`` when a reset estimate is told again.
        wanted: ``bool[N]`` others asked for the row.
        used: ``bool[N]`` counters grew at the last look.
        positions: ``int64[N]``, 0 … N − 1.
    """

    def __init__(
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
        self.room = np.zeros(n)
        self._blocking = Blocking(names, node)
        self.sent_admitted, self.sent_held = np.zeros((2, n))
        self.sent_demand = np.full(n, -1.0)
        self.repeats: Ints = np.zeros(n, dtype=np.int64)
        self.confirm_at = np.full(n, np.inf)
        self.wanted = np.zeros(n, dtype=np.bool_)
        self._given = Given(n, self.told_size)
        self.used = np.zeros(n, dtype=np.bool_)
        self.positions: Ints = np.arange(n, dtype=np.int64)
        self.by_dimension = self._grouped()
        self._few = n <= FEW and not pairs
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
        if self._few and self._none_fell(event):
            return self._count_few(event)
        n = self.told_size
        grown = event.admitted - self._raw_admitted[:n]
        turned_away = event.refused - self._raw_refused[:n]
        moved = bool(grown.any() or turned_away.any())
        self.held[:n] = event.held
        if len(self._sum_to):
            self.held[n:] = 0.0
            np.add.at(self.held, self._sum_to, event.held[self._sum_of])
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
            self.subjects[:n] = event.subjects
            if len(self._sum_to):
                np.add.at(self.admitted, self._sum_to, grown[self._sum_of])
                np.add.at(self.refused, self._sum_to, turned_away[self._sum_of])
                self._sum_up()
        return moved

    def _none_fell(self, event: Counted) -> bool:
        return all(
            event.admitted.item(i) >= self._raw_admitted.item(i)
            and event.refused.item(i) >= self._raw_refused.item(i)
            for i in range(self.told_size)
        )

    def _count_few(self, event: Counted) -> bool:
        """Do what `count` does where no counter fell, on plain floats."""
        grown: list[float] = []
        for i in range(self.told_size):
            self.held[i] = event.held.item(i)
            admitted = event.admitted.item(i) - self._raw_admitted.item(i)
            refused = event.refused.item(i) - self._raw_refused.item(i)
            grown.append(admitted + refused)
            if grown[-1] > 0.0:
                self._raw_admitted[i] += admitted
                self._raw_refused[i] += refused
                self.admitted[i] += admitted
                self.refused[i] += refused
        if not any(grown):
            return False
        for i, units in enumerate(grown):
            self.used[i] = units > 0.0
            if units > 0.0:
                seen = min(self._costs_seen.item(i) + 1.0, COST_LASTS)
                cost = self._direct_cost.item(i)
                cost += 1.0 / seen * (event.cost.item(i) - cost)
                self._costs_seen[i] = seen
                self.cost[i] = self._direct_cost[i] = cost
            self.subjects[i] = event.subjects.item(i)
        return True

    def look(self, now: float) -> NDArray[np.bool_]:
        """Bring the estimates to `now`; return ``bool[N]``: which were reset."""
        reset = self.demand.look(now, self.admitted + self.refused, self.cost)
        self.usable = self._blocking.usable(self.demand.rate, self._given.ceiling)
        self.room = self.demand.room(self.cost)
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
        lower = new.ceiling < given.ceiling[rows]
        lower = exact & (lower | (new.capacity < given.capacity[rows]))
        lower |= self.credit[rows] > 0.0  # or it would be lost
        far = given.take(rows, new, now=now, lease_s=lease_s, anyway=lower)
        if far is None:
            return None
        at = rows[far]
        credit = self.credit[at]
        self.credit[at] = 0.0
        return SetCeilings(
            keys=self.keys,
            index=at,
            ceiling=new.ceiling[far],
            capacity=new.capacity[far],
            probability=new.probability[far],
            share=new.share[far],
            deadline_s=given.deadline[at],
            reserve=new.reserve[far],
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
    "credit",
    "cost",
    "_direct_cost",
    "_costs_seen",
    "subjects",
    "sent_admitted",
    "sent_held",
    "sent_demand",
    "wanted",
    "repeats",
    "usable",
    "confirm_at",
)


def enter_few(
    own: Own,
    place: Place,
    now: float,
    *,
    moved: bool,
    reset: NDArray[np.bool_],
    refresh_s: float,
) -> None:
    """Enter what this agent's own buckets of a place counted, and what they want.

    Args:
        own: The buckets, just looked at.
        place: Where some of them stand.
        now: Monotonic seconds.
        moved: Whether anything was used.
        reset: ``bool[N]`` estimates that began anew.
        refresh_s: How old the allocation of a busy ledger may become.
    """
    shelf = place.shelf
    for row, _, slot in place.few:
        if moved:
            wake_one(shelf, slot, now)
        charge_one(shelf, slot, own.admitted.item(row), own.held.item(row))
        shelf.demand[0, slot] = own.usable.item(row)
        shelf.room[slot] = own.room.item(row)
        shelf.cost[slot] = own.cost.item(row)
        shelf.refused[0, slot] = own.refused.item(row)
        shelf.subjects[0, slot] = own.subjects.item(row)
        if moved and own.used.item(row):
            soon = shelf.at.item(slot) + refresh_s
            if soon < shelf.due.item(slot):
                shelf.due[slot] = soon
        if reset.item(row):
            shelf.dirty[slot] = True
