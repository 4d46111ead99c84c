"""Struct of arrays: the ledgers that have room for the same number of agents.

Letters: A = agents (rows' first axis, capacity `Shelf.width`), G = ledgers
(second axis, capacity grows by doubling).  A ledger is one group in one
dimension; it has a slot 0 ≤ g < G, each agent that uses it a line 0 ≤ a < A.
Line 0 is always this agent's own.

Why [A, G] and not [G, A]: a report of one agent touches one line of many
ledgers, and every sum runs over the agents of each ledger.  With G last both are
contiguous; with A last each cell that a report touches is a cache line of its own
(measured on 100 × 5,000: 3 times slower).

Why shelves by width: one matrix for all would be as wide as the widest ledger,
100 × 100,000 in PIP-82's sizing where each group is used on 5 brokers of 100.
Widths are powers of two, so at most half of a shelf is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOBODY = -1
"""Sentinel in `Shelf.member`: no agent has this line."""

SLOTS_AT_FIRST = 4
"""Slots of a new shelf; doubled when full, so that one ledger stays small."""

LINES = (
    "demand",
    "admitted",
    "refused",
    "held",
    "ahead",
    "burn",
    "weight",
    "told_at",
    "kept",
)
"""Names of the float64[A, G] arrays, zero in an empty line."""

COLUMNS = (
    "rate",
    "burst",
    "debt_cap",
    "level",
    "at",
    "belief",
    "available",
    "reserved",
    "theta",
    "slack",
    "margin",
    "horizon",
    "cost",
    "due",
    "part",
    "error",
    "whole_weight",
    "agents",
    "demand_cap",
    "plausible",
    "told_demand",
    "room",
    "share",
    "right",
    "direct",
    "direct_theta",
)
"""Names of the float64[G] arrays."""


Index = slice | NDArray[np.int64]
"""Positions along one axis; a slice where they are contiguous, which is faster."""


def compact(positions: NDArray[np.int64]) -> Index:
    """Return positions as a slice, where each is the one before it plus one."""
    size = len(positions)
    if size:
        first = int(positions[0])
        if int(positions[-1]) - first + 1 == size and (
            # Lines of a member differ from ledger to ledger: 6, 24, 6 is no run.
            size < 3 or np.array_equal(positions, np.arange(first, first + size))
        ):
            return slice(first, first + size)
    return positions


class Shelf:
    """Ledgers with room for `width` agents each.

    Attributes:
        slots: ``int64[G]``, 0 … G − 1.
        width: A, lines of each ledger, this agent's included.
        number: ``int64[G]`` of the ledger in the table; −1 in a free slot.
        used: ``int64[G]`` lines handed out, line 0 included.
        holes: ``int64[G]`` lines below `used` that are empty again.
        member: ``int32[A, G]`` number of the member; `NOBODY` in an empty line.
        subjects: ``int32[A, G]`` limiters in use there.
        demand: ``float64[A, G]`` λ as reported; `demand_cap` is not applied.
        admitted: ``float64[A, G]`` last counter that was believed, units; NaN
            where the next one is a base line: of a new line, after silence.
        refused: ``float64[A, G]`` units.
        held: ``float64[A, G]`` tokens in the local bucket.
        ahead: ``float64[A, G]`` units taken as admitted since `told_at`, brought
            up to `at`; in line 0 what the others take this agent to have admitted
            since its last report of the row.
        burn: ``float64[A, G]`` ρ, units/s at which `ahead` grows: the share, or of
            a silent member the reserve; in line 0 what the others compute.
        weight: ``float64[A, G]`` in the max-min; 0 where silent or empty.
        told_at: ``float64[A, G]`` when the row was true, monotonic seconds.
        kept: ``float64[A, G]`` average share, where isolation is `hold`.
        rate: ``float64[G]`` Q, 0 where unlimited.
        burst: ``float64[G]`` B.
        debt_cap: ``float64[G]`` D.
        level: ``float64[G]`` L at `at`.
        at: ``float64[G]`` time of the last calculation.
        belief: ``float64[G]`` E at `at`.
        available: ``float64[G]`` Q'.
        reserved: ``float64[G]`` units/s kept for silent members.
        theta: ``float64[G]`` water level per weight; infinite when all fits.
        slack: ``float64[G]`` units/s.
        margin: ``float64[G]`` m.
        horizon: ``float64[G]`` H.
        cost: ``float64[G]`` units of one request, lately.
        due: ``float64[G]`` when the next calculation is due; infinite at rest.
        part: ``float64[G]`` most that the group may take from its parent,
            units/s; infinite without a parent.
        error: ``float64[G]`` units that the clamps took since, decaying: the
            agent's own measured error.
        whole_weight: ``float64[G]`` of all agents of the ledger, silent included.
        dirty: ``bool[G]`` an input changed.
        full: ``bool[G]`` the bucket overflowed at the last calculation.
        stale: ``bool[G]`` who is silent or how members weigh changed.
        unlimited: ``bool[G]`` nothing is refused.
        strict: ``bool[G]`` shares are rights that are handed over.
        small: ``bool[G]`` fewer tokens than agents: admitted by chance.
        isolation: ``int8[G]`` index into `configuration.ISOLATIONS`.
        agents: ``float64[G]`` n, agents that take part; at least 1.
        demand_cap: ``float64[G]`` largest λ that counts, units/s.
        plausible: ``float64[G]`` units/s that one agent may have admitted lately.
        told_demand: ``float64[G]`` λ of this agent as last published.
        room: ``float64[G]`` units/s that a young estimate of the own demand may be
            too low by, beyond the noise of a settled one.
        share: ``float64[G]`` of this agent, units/s.
        right: ``float64[G]`` part of Q and B that this agent owns, in a strict ledger.
        direct: ``float64[G]`` λ of this agent's callers of the group itself, units/s;
            NaN where no group inside it is tracked.
        direct_theta: ``float64[G]`` water level of such callers, units/s.
        joining_until: ``float64[G]`` until when nothing but a floor may be
            spent: infinite while others are asked, then when that ended.
    """

    __slots__ = (
        *LINES,
        *COLUMNS,
        "capacity",
        "dirty",
        "free",
        "slots",
        "full",
        "holes",
        "isolation",
        "joining_until",
        "member",
        "number",
        "small",
        "stale",
        "strict",
        "subjects",
        "unlimited",
        "used",
        "width",
    )

    demand: NDArray[np.float64]
    admitted: NDArray[np.float64]
    refused: NDArray[np.float64]
    held: NDArray[np.float64]
    ahead: NDArray[np.float64]
    burn: NDArray[np.float64]
    weight: NDArray[np.float64]
    told_at: NDArray[np.float64]
    kept: NDArray[np.float64]
    rate: NDArray[np.float64]
    burst: NDArray[np.float64]
    debt_cap: NDArray[np.float64]
    level: NDArray[np.float64]
    at: NDArray[np.float64]
    belief: NDArray[np.float64]
    available: NDArray[np.float64]
    reserved: NDArray[np.float64]
    theta: NDArray[np.float64]
    slack: NDArray[np.float64]
    margin: NDArray[np.float64]
    horizon: NDArray[np.float64]
    cost: NDArray[np.float64]
    due: NDArray[np.float64]
    part: NDArray[np.float64]
    error: NDArray[np.float64]
    whole_weight: NDArray[np.float64]
    agents: NDArray[np.float64]
    demand_cap: NDArray[np.float64]
    plausible: NDArray[np.float64]
    told_demand: NDArray[np.float64]
    room: NDArray[np.float64]
    share: NDArray[np.float64]
    right: NDArray[np.float64]
    direct: NDArray[np.float64]
    direct_theta: NDArray[np.float64]
    joining_until: NDArray[np.float64]
    number: NDArray[np.int64]
    used: NDArray[np.int64]
    holes: NDArray[np.int64]
    member: NDArray[np.int32]
    subjects: NDArray[np.int32]
    dirty: NDArray[np.bool_]
    full: NDArray[np.bool_]
    stale: NDArray[np.bool_]
    unlimited: NDArray[np.bool_]
    strict: NDArray[np.bool_]
    small: NDArray[np.bool_]
    isolation: NDArray[np.int8]

    def __init__(self, width: int) -> None:
        self.width = width
        self._begin()

    def _begin(self) -> None:
        self.capacity = 0
        self.free: list[int] = []
        self.slots = np.arange(0)
        for name in (*LINES, *COLUMNS, *_OTHER_LINES, *_OTHER_COLUMNS):
            kind = _KINDS.get(name, np.float64)
            flat = name in COLUMNS or name in _OTHER_COLUMNS
            shape = (0,) if flat else (self.width, 0)
            setattr(self, name, np.zeros(shape, dtype=kind))

    def lines(self, slots: Index) -> slice:
        """Return the lines that some ledgers use: what is below is empty.

        Only of a slice of several, whose columns are added up line by line, so that
        empty lines at the end change nothing.  Others are added in pairs, and pairs
        would be others.
        """
        if isinstance(slots, slice) and slots.stop - slots.start > 1:
            return slice(0, int(np.maximum.reduce(self.used[slots])))
        return slice(0, self.width)

    def take_slot(self) -> int:
        """Return an empty slot, zeroed, growing the arrays when there is none."""
        if not self.free:
            self._grow(max(SLOTS_AT_FIRST, 2 * self.capacity))
        slot = self.free.pop()
        self.used[slot] = 1
        return slot

    def clear_slot(self, slot: int) -> None:
        """Make a slot empty and free."""
        for name in (*LINES, *_OTHER_LINES):
            getattr(self, name)[:, slot] = _FILL.get(name, 0)
        for name in (*COLUMNS, *_OTHER_COLUMNS):
            getattr(self, name)[slot] = _FILL.get(name, 0)
        self.free.append(slot)

    def shrink(self) -> None:
        """Let go of the memory if no ledger stands here any more.

        When a hundred agents come, all ledgers move from shelf to shelf; what they
        leave is as large as what they come to.
        """
        if len(self.free) == self.capacity:
            self._begin()

    def copy_slot(self, slot: int, wider: Shelf, to: int) -> None:
        """Copy a ledger into a slot of a wider shelf; this one stays as it is."""
        for name in (*LINES, *_OTHER_LINES):
            getattr(wider, name)[: self.width, to] = getattr(self, name)[:, slot]
        for name in (*COLUMNS, *_OTHER_COLUMNS):
            getattr(wider, name)[to] = getattr(self, name)[slot]

    def clear_line(self, line: int, slot: int) -> None:
        """Empty one agent's line of one ledger."""
        for name in (*LINES, *_OTHER_LINES):
            getattr(self, name)[line, slot] = _FILL.get(name, 0)
        self.holes[slot] += 1
        self.dirty[slot] = self.stale[slot] = True

    def _grow(self, capacity: int) -> None:
        old = self.capacity
        for name in (*LINES, *_OTHER_LINES, *COLUMNS, *_OTHER_COLUMNS):
            before = getattr(self, name)
            shape = (*before.shape[:-1], capacity)
            after = np.full(shape, _FILL.get(name, 0), dtype=before.dtype)
            after[..., :old] = before
            setattr(self, name, after)
        self.capacity = capacity
        self.slots = np.arange(capacity)
        # The lowest slot is taken first: slots in use stay together.
        self.free.extend(range(capacity - 1, old - 1, -1))


_OTHER_LINES = ("member", "subjects")
_OTHER_COLUMNS = (
    "number",
    "used",
    "holes",
    "dirty",
    "full",
    "stale",
    "unlimited",
    "strict",
    "small",
    "isolation",
    "joining_until",
)
_KINDS = {
    "member": np.int32,
    "subjects": np.int32,
    "number": np.int64,
    "used": np.int64,
    "holes": np.int64,
    "dirty": np.bool_,
    "full": np.bool_,
    "stale": np.bool_,
    "unlimited": np.bool_,
    "strict": np.bool_,
    "small": np.bool_,
    "isolation": np.int8,
}
_FILL = {
    "member": NOBODY,
    "number": -1,
    "theta": np.inf,
    "part": np.inf,
    "due": np.inf,
    "cost": 1.0,
    "agents": 1.0,
    "direct": np.nan,
}
