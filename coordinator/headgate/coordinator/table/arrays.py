"""Struct of arrays: the ledgers that have room for the same number of agents.

Letters: A = agents (first axis, capacity `LedgerBlock.width`), G = ledgers (second
axis, capacity grows by doubling).  A ledger is one group in one dimension; it has a
column 0 ≤ g < G, each agent that uses it a row 0 ≤ a < A.  Row 0 is always this
agent's own.  A cell is one agent's place in one ledger.

Why [A, G] and not [G, A]: a report of one agent touches one row of many ledgers, and
every sum runs over the agents of each ledger.  With G last both are contiguous; with A
last each cell that a report touches is a cache line of its own (measured on 100 ×
5,000: 3 times slower).

Why blocks by width: one matrix for all would be as wide as the widest ledger, 100 ×
100,000 in PIP-82's sizing where each group is used on 5 brokers of 100.  Widths are
powers of two, so at most half of a block is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import Annotated, Literal, get_type_hints

import numpy as np
from numpy.typing import NDArray

NOBODY = -1
"""Sentinel in `LedgerBlock.member`: no agent has this cell."""

SLOTS_AT_FIRST = 4
"""Columns of a new block; doubled when full, so that one ledger stays small."""

Index = slice | NDArray[np.int64]
"""Positions along one axis; a slice where they are contiguous, which is faster."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Field:
    """How one array of a block is declared.

    Attributes:
        axes: ``AG``: one cell per agent and ledger; ``G``: one per ledger.
        kind: Type of an element.
        fill: What an empty place holds.
        unit: Of an element.
        meaning: One sentence.
    """

    axes: Literal["AG", "G"]
    kind: type[np.generic]
    fill: float
    unit: str
    meaning: str


def _cell(
    unit: str, meaning: str, kind: type[np.generic] = np.float64, fill: float = 0.0
) -> Field:
    return Field("AG", kind, fill, unit, meaning)


def _ledger(
    unit: str, meaning: str, kind: type[np.generic] = np.float64, fill: float = 0.0
) -> Field:
    return Field("G", kind, fill, unit, meaning)


def compact(positions: NDArray[np.int64]) -> Index:
    """Return positions as a slice, where each is the one before it plus one."""
    size = len(positions)
    if size:
        first = int(positions[0])
        if int(positions[-1]) - first + 1 == size and (
            # Rows of a member differ from ledger to ledger: 6, 24, 6 is no run.
            size < 3 or np.array_equal(positions, np.arange(first, first + size))
        ):
            return slice(first, first + size)
    return positions


class LedgerBlock:
    """Ledgers with room for `width` agents each.

    Attributes:
        slots: ``int64[G]``, 0 … G − 1.
        width: A, rows of each ledger, this agent's included.
        capacity: G.
        free: Columns that are empty.

    All other attributes are arrays, declared below with axes, unit and meaning.
    """

    # What members told.
    member: Annotated[
        Numbers, _cell("", "number of the member; NOBODY", np.int32, NOBODY)
    ]
    demand: Annotated[Floats, _cell("units/s", "λ as told, uncapped; own: newest")]
    admitted: Annotated[
        Floats, _cell("units", "last counter heard; NaN: the next is a base line")
    ]
    refused: Annotated[Floats, _cell("units", "last counter heard")]
    held: Annotated[Floats, _cell("units", "may be admitted untold, for people")]
    cost: Annotated[Floats, _cell("units", "c, mean of one request, > 0", fill=1.0)]
    subjects: Annotated[Numbers, _cell("", "limiters in use there", np.int32)]
    told_at: Annotated[Floats, _cell("s", "when the row was true")]
    said: Annotated[
        Floats, _cell("units", "E as told last; NaN: compared already", fill=nan)
    ]
    apart: Annotated[
        Floats,
        _cell("units", "its level less the own; NaN: none since the last", fill=nan),
    ]
    # What is expected of members until they are heard again.
    ahead: Annotated[
        Floats,
        _cell("units", "taken as admitted since told_at, up to at; own: by others"),
    ]
    burn: Annotated[
        Floats, _cell("units/s", "ρ, at which ahead grows; silent: the reserve")
    ]
    at_once: Annotated[
        Flags, _cell("", "each admission is told, so silence means none", np.bool_)
    ]
    weight: Annotated[Floats, _cell("", "in the max-min; 0 iff silent or empty")]
    kept: Annotated[Floats, _cell("units/s", "average share, for isolation hold")]
    aside: Annotated[
        Floats, _cell("units", "part of the level that is kept for a silent member")
    ]
    # The bucket.
    rate: Annotated[Floats, _ledger("units/s", "Q, 0 where unlimited")]
    burst: Annotated[Floats, _ledger("units", "B")]
    level: Annotated[Floats, _ledger("units", "L = E + Σ ahead of the others, at at")]
    at: Annotated[Floats, _ledger("s", "time of the last calculation")]
    belief: Annotated[Floats, _ledger("units", "E ≤ B, at at")]
    overflowed: Annotated[Floats, _ledger("units", "own bucket's counter, as entered")]
    cut: Annotated[Floats, _ledger("units", "cut off at B lately, for late charges")]
    late: Annotated[Floats, _ledger("units", "charged since the look, unexpectedly")]
    news: Annotated[Floats, _ledger("units", "heard of lately that was not expected")]
    outflow: Annotated[Floats, _ledger("units/s", "Σ ρ of all, own included")]
    tokens: Annotated[Floats, _ledger("units", "in the own bucket, if strict")]
    # What this agent spent beyond what the others know or expect.
    unseen: Annotated[Floats, _ledger("units", "V, at at; 0 where nobody else is")]
    known_admitted: Annotated[Floats, _ledger("units", "own counter that all have")]
    known_ahead: Annotated[Floats, _ledger("units", "expected since that counter")]
    known_demand: Annotated[Floats, _ledger("units/s", "own λ that all have")]
    pending_demand: Annotated[Floats, _ledger("units/s", "own λ on its way")]
    pending_admitted: Annotated[Floats, _ledger("units", "own counter on its way")]
    pending_ahead: Annotated[Floats, _ledger("units", "expected since that one")]
    pending_at: Annotated[
        Floats, _ledger("s", "when it left; infinite if none", fill=inf)
    ]
    told_admitted: Annotated[Floats, _ledger("units", "own counter as told last")]
    row_told_at: Annotated[Floats, _ledger("s", "when it was told", fill=-inf)]
    told_demand: Annotated[Floats, _ledger("units/s", "own λ as told last")]
    told_burn: Annotated[Floats, _ledger("units/s", "own ρ when it was told")]
    swung: Annotated[Floats, _ledger("units/s", "by which own ρ left that since")]
    bucket_knows: Annotated[
        Flags, _ledger("", "the own bucket was told E once, and goes on", np.bool_)
    ]
    # Shares.
    demand_cap: Annotated[Floats, _ledger("units/s", "largest λ that counts")]
    available: Annotated[Floats, _ledger("units/s", "Q', what is shared out")]
    reserved: Annotated[Floats, _ledger("units/s", "kept for silent members")]
    theta: Annotated[
        Floats, _ledger("units/s", "water level per weight; inf: all fits", fill=inf)
    ]
    slack: Annotated[Floats, _ledger("units/s", "what is left of Q'")]
    share: Annotated[Floats, _ledger("units/s", "of this agent")]
    window: Annotated[
        Floats, _ledger("units", "a, what this agent may spend unseen", fill=inf)
    ]
    margin: Annotated[Floats, _ledger("units", "m, what others may spend unseen")]
    horizon: Annotated[Floats, _ledger("s", "H, over which a surplus is worked off")]
    quiet_s: Annotated[Floats, _ledger("s", "T', age a row in steady load may reach")]
    agents: Annotated[Floats, _ledger("", "n, that take part; at least 1", fill=1.0)]
    whole_weight: Annotated[Floats, _ledger("", "of all agents, silent included")]
    plausible: Annotated[Floats, _ledger("units/s", "one may have admitted lately")]
    # Own callers, and what stands above.
    own_cost: Annotated[Floats, _ledger("units", "one own request lately", fill=1.0)]
    part: Annotated[
        Floats, _ledger("units/s", "most that may be taken from the parent", fill=inf)
    ]
    direct: Annotated[
        Floats, _ledger("units/s", "λ of own callers of a parent; NaN", fill=nan)
    ]
    direct_theta: Annotated[Floats, _ledger("units/s", "water level of such callers")]
    # Strict ledgers.
    right: Annotated[Floats, _ledger("", "part of Q and B that this agent owns")]
    # Bookkeeping.
    error: Annotated[Floats, _ledger("units", "how far over, lately: see explain")]
    due: Annotated[
        Floats, _ledger("s", "when to look again; infinite at rest", fill=inf)
    ]
    joining_until: Annotated[
        Floats, _ledger("s", "until when the level is asked for: infinite, then when")
    ]
    number: Annotated[Ints, _ledger("", "of the ledger; −1: free", np.int64, -1)]
    used: Annotated[Ints, _ledger("", "rows handed out, own included", np.int64)]
    holes: Annotated[Ints, _ledger("", "rows below used that are empty", np.int64)]
    dirty: Annotated[Flags, _ledger("", "an input changed", np.bool_)]
    full: Annotated[Flags, _ledger("", "it overflowed at the last look", np.bool_)]
    stale: Annotated[Flags, _ledger("", "who is silent or weighs changed", np.bool_)]
    unlimited: Annotated[Flags, _ledger("", "nothing is refused", np.bool_)]
    strict: Annotated[Flags, _ledger("", "shares are rights handed over", np.bool_)]
    may_owe: Annotated[Flags, _ledger("", "admits while E ≥ 0", np.bool_)]
    isolation: Annotated[Codes, _ledger("", "index into ISOLATIONS", np.int8)]

    def __init__(self, width: int) -> None:
        self.width = width
        self._begin()

    def _begin(self) -> None:
        self.capacity = 0
        self.free: list[int] = []
        self.slots = np.arange(0)
        for name, declared in FIELDS.items():
            shape = (0,) if declared.axes == "G" else (self.width, 0)
            setattr(self, name, np.zeros(shape, dtype=declared.kind))

    def lines(self, slots: Index) -> slice:
        """Return the rows that some ledgers use: what is below is empty."""
        return slice(0, int(np.maximum.reduce(self.used[slots])))

    def take_slot(self) -> int:
        """Return an empty column, filled, growing the arrays when there is none."""
        if not self.free:
            self._grow(max(SLOTS_AT_FIRST, 2 * self.capacity))
        slot = self.free.pop()
        self.used[slot] = 1
        return slot

    def clear_slot(self, slot: int) -> None:
        """Make a column empty and free."""
        for name, declared in FIELDS.items():
            getattr(self, name)[..., slot] = declared.fill
        self.free.append(slot)

    def shrink(self) -> None:
        """Let go of the memory if no ledger stands here any more.

        When a hundred agents come, all ledgers move from block to block; what they
        leave is as large as what they come to.
        """
        if len(self.free) == self.capacity:
            self._begin()

    def copy_slot(self, slot: int, wider: LedgerBlock, to: int) -> None:
        """Copy a ledger into a column of a wider block; this one stays as it is."""
        for name, declared in FIELDS.items():
            if declared.axes == "AG":
                getattr(wider, name)[: self.width, to] = getattr(self, name)[:, slot]
            else:
                getattr(wider, name)[to] = getattr(self, name)[slot]

    def clear_line(self, line: int, slot: int) -> None:
        """Empty one agent's cell of one ledger."""
        for name, declared in FIELDS.items():
            if declared.axes == "AG":
                getattr(self, name)[line, slot] = declared.fill
        self.holes[slot] += 1
        self.dirty[slot] = self.stale[slot] = True

    def bytes_held(self) -> int:
        """Return the memory of all arrays."""
        return sum(getattr(self, name).nbytes for name in FIELDS)

    def _grow(self, capacity: int) -> None:
        old = self.capacity
        for name, declared in FIELDS.items():
            before = getattr(self, name)
            shape = (*before.shape[:-1], capacity)
            after = np.full(shape, declared.fill, dtype=before.dtype)
            after[..., :old] = before
            setattr(self, name, after)
        self.capacity = capacity
        self.slots = np.arange(capacity)
        # The lowest column is taken first: columns in use stay together.
        self.free.extend(range(capacity - 1, old - 1, -1))


def _declared() -> dict[str, Field]:
    hints = get_type_hints(LedgerBlock, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


FIELDS: dict[str, Field] = _declared()
"""All arrays of a block by name."""
