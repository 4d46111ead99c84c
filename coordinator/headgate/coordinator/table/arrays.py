"""Struct of arrays: all ledgers that have room for the same number of agents.

Letters: A = agents (first axis, capacity `LedgerBlock.width`), G = ledgers (second
axis, capacity grows by doubling).  A ledger is one group in one dimension; it has a
column 0 ≤ g < G, each agent that uses it a row 0 ≤ a < A.  Row 0 is always this
agent's own.  A cell is one agent's place in one ledger.
Why this order and these blocks: docs/decisions/0002-ledger-arrays-by-width.md.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

NOBODY = -1
"""Sentinel in `LedgerBlock.member`: no agent has this cell."""

SLOTS_AT_FIRST = 4
"""Columns of a new block.  It doubles when full, so that a single ledger stays
small."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]

Index = slice | Ints
"""Positions along one axis; a slice where they are contiguous, which is faster."""


class Field(NamedTuple):
    """The declaration of one array of a block.

    Attributes:
        axes: ``AG``: one cell per agent and ledger; ``G``: one per ledger.
        kind: Type of an element.
        fill: Value of an empty place.
        meaning: Its unit, if it has one, and what it says.
    """

    axes: Literal["AG", "G"]
    kind: type[np.generic]
    fill: float
    meaning: str


def _cell(meaning: str, kind: type[np.generic] = np.float64, fill: float = 0.0) -> Any:
    return Field("AG", kind, fill, meaning)


def _ledger(
    meaning: str, kind: type[np.generic] = np.float64, fill: float = 0.0
) -> Any:
    return Field("G", kind, fill, meaning)


def compact(positions: Ints) -> Index:
    """Return positions, one at least, as a slice if they are consecutive."""
    size, first = len(positions), int(positions[0])
    if int(positions[-1]) - first + 1 == size and (
        # A member's rows differ from ledger to ledger: 6, 24, 6 are not consecutive.
        size < 3 or np.array_equal(positions, np.arange(first, first + size))
    ):
        return slice(first, first + size)
    return positions


class LedgerBlock:
    """Ledgers with room for `width` agents each.

    Attributes:
        slots: ``int64[G]``, 0 … G − 1.
        width: A, number of rows per ledger, this agent's included.
        capacity: G.
        free: Empty columns.

    All other attributes are arrays, whose `Field` is declared below; the constructor
    replaces it by the array.
    """

    # What members reported.
    member: Numbers = _cell("number of the member; NOBODY", np.int32, NOBODY)
    demand: Floats = _cell("units/s: λ as reported, uncapped; own: newest")
    admitted: Floats = _cell("units: last counter heard; NaN: the next is a baseline")
    refused: Floats = _cell("units: last counter heard")
    held: Floats = _cell("units: may be admitted there now, as told last")
    cost: Floats = _cell("units: c, mean of one request, > 0", fill=1.0)
    subjects: Numbers = _cell("limiters in use there", np.int32)
    reported_at: Floats = _cell("s: when the row held")
    apart: Floats = _cell("units: its level less ours; NaN: none yet", fill=nan)
    averaged: Flags = _cell("apart is an average", np.bool_)
    exact: Flags = _cell("apart began while nothing was on its way", np.bool_)
    # What members are expected to use until they report again.
    predicted: Floats = _cell("units: taken as admitted since then; own: by others")
    extrapolated_rate: Floats = _cell(
        "units/s: ρ, growth of predicted; silent: reserve"
    )
    at_once: Flags = _cell("reports each admission; silence: none", np.bool_)
    at_once_since: Floats = _cell("s: since when at_once holds")
    weight: Floats = _cell("in the max-min; 0 iff silent or empty")
    inside: Floats = _cell("weight of what its callers use of and inside a group")
    beyond: Floats = _cell("units/s: λ of callers inside that limits there refuse")
    own: Floats = _cell("units/s: of λ, that of the group's own callers")
    kept: Floats = _cell("units/s: average share, for isolation hold")
    aside: Floats = _cell("units: part of the level reserved for a silent member")
    # The bucket.
    rate: Floats = _ledger("units/s: Q, 0 where unlimited")
    burst: Floats = _ledger("units: B")
    level: Floats = _ledger("units: L = E + Σ predicted of the others, at at")
    at: Floats = _ledger("s: time of the last calculation")
    belief: Floats = _ledger("units: E ≤ B, at at")
    withheld: Floats = _ledger("units: used beyond a lowered calendar quota")
    full_at: Floats = _ledger("s: when L was B or more, at a calculation", fill=-inf)
    doubtful_since: Floats = _ledger("s: lacks reports since; inf: none", fill=inf)
    includes_at: Floats = _ledger("s: others' admissions until then are in", fill=-inf)
    begun_at: Floats = _ledger("s: when it was opened; told while it is new")
    told_at: Floats = _ledger("s: when first reported; infinite: not yet", fill=inf)
    begun_admitted: Floats = _ledger("units: own counter by then")
    limited_at: Floats = _ledger("s: when a limit was set where none was", fill=-inf)
    overflowed: Floats = _ledger("units: own bucket's counter, as entered")
    cut: Floats = _ledger("units: cut off at B lately, for late charges")
    late: Floats = _ledger("units: charged since the look, unexpectedly")
    news: Floats = _ledger("units: unexpected, and reported within Δ")
    unheard: Floats = _ledger("units: the same within the bus's lag")
    own_news: Floats = _ledger("units: own, unexpected, when it was reported")
    outflow: Floats = _ledger("units/s: Σ ρ of all, own included")
    # What this agent spent beyond what the others know or expect, or have heeded.
    unseen: Floats = _ledger("units: V, at at; 0 if no other agent is")
    unheeded: Floats = _ledger("units: V', at at; 0 if no other agent is")
    heeding: Floats = _ledger("units: unexpected by the others, not heeded yet")
    heeding_at: Floats = _ledger("s: when they knew it; infinite if none", fill=inf)
    heeding_next: Floats = _ledger("units: the same, learnt by them since then")
    heeding_next_at: Floats = _ledger("s: when they knew that", fill=inf)
    part: Floats = _ledger("part of C' that the others have left to it", fill=1.0)
    part_next: Floats = _ledger("the part that follows", fill=1.0)
    part_next_at: Floats = _ledger("s: when it was found; infinite: none", fill=inf)
    rate_left: Floats = _ledger("units/s: of own ρ, what the others have left to it")
    rate_next: Floats = _ledger("units/s: what follows")
    rate_next_at: Floats = _ledger("s: when it was found; infinite: none", fill=inf)
    ahead: Floats = _ledger("units: expected beyond that, not heeded yet")
    ahead_since: Floats = _ledger("units: the same since the last look")
    known_admitted: Floats = _ledger("units: own counter that all know")
    known_predicted: Floats = _ledger("units: expected since that counter")
    known_demand: Floats = _ledger("units/s: own λ that all know")
    paid: Floats = _ledger("units: own counter that overflow has paid for")
    payable: Floats = _ledger("units: own counter at the last look")
    paying: Floats = _ledger("units/s: growth of paid; 0 if C is below B")
    pending_demand: Floats = _ledger("units/s: own λ on its way")
    pending_admitted: Floats = _ledger("units: own counter on its way")
    pending_predicted: Floats = _ledger("units: expected since that one")
    pending_at: Floats = _ledger("s: when it left; infinite if none", fill=inf)
    reported_admitted: Floats = _ledger("units: own counter as last reported")
    row_reported_at: Floats = _ledger("s: when it was reported", fill=-inf)
    reported_demand: Floats = _ledger("units/s: own λ as last reported")
    reported_rate: Floats = _ledger("units/s: own ρ when it was reported")
    swung: Floats = _ledger("units/s: change of own ρ since then")
    bucket_knows: Flags = _ledger("own bucket was given E once, and goes on", np.bool_)
    # Shares.
    demand_cap: Floats = _ledger("units/s: largest λ that counts")
    available: Floats = _ledger("units/s: Q', the rate to divide")
    reserved: Floats = _ledger("units/s: reserved for silent members")
    theta: Floats = _ledger("units/s: water level per weight; inf: all fits", fill=inf)
    aside_in_all: Floats = _ledger("units: Σ aside")
    slack: Floats = _ledger("units/s: part of Q' in no share")
    fair_part: Floats = _ledger("its max-min part of what all admit", fill=1.0)
    lead: Floats = _ledger("units: admitted lately beyond that part")
    awaited_per_s: Floats = _ledger("1/s: requests of others that it yields to")
    untaken: Floats = _ledger("of those, due since one came, while E allowed one")
    yielded: Floats = _ledger("units: of E that it leaves to others")
    window: Floats = _ledger("units: a, up to which V' may grow", fill=inf)
    margin: Floats = _ledger("units: m, what all may spend unseen")
    others_margin: Floats = _ledger("units: the same without this agent")
    horizon: Floats = _ledger("s: H, over which a surplus is worked off")
    quiet_s: Floats = _ledger("s: T', age a row in steady load may reach")
    agents: Floats = _ledger("n, those that take part; at least 1", fill=1.0)
    present_weight: Floats = _ledger("of those that take part")
    equal_weight: Floats = _ledger("of each taking part; NaN: they differ", fill=nan)
    whole_weight: Floats = _ledger("of all agents, silent included")
    plausible: Floats = _ledger("units/s: most that one could admit")
    # This agent's own callers, and the parent groups.
    depth: Codes = _ledger("limited groups above it", np.int8)
    parent_cap: Floats = _ledger("units/s: most to take from the parent", fill=inf)
    due_inside: Floats = _ledger("units/s: its part of what its children are due")
    passes: Floats = _ledger("part of λ that counts for its parent", fill=1.0)
    part_above: Floats = _ledger("units/s: that, while nothing is owed there", fill=inf)
    left_above: Floats = _ledger("units: left to it above; < 0: overdrawn", fill=inf)
    left_told: Floats = _ledger("units: the same as its bucket was told", fill=inf)
    surplus_left: Floats = _ledger("units: to spend at once, of a surplus just found")
    shared_above: Flags = _ledger("without permits in some group above", np.bool_)
    wait_above_s: Floats = _ledger("s: until the groups above owe nothing")
    own_callers: Floats = _ledger("units/s: λ of a parent's own callers; NaN", fill=nan)
    left_own: Floats = _ledger("units: left to them; < 0: overdrawn", fill=inf)
    branch_theta: Floats = _ledger("units/s: water level of what is inside")
    own_callers_theta: Floats = _ledger("units/s: water level of such callers")
    # Strict ledgers.
    right: Floats = _ledger("part of Q and B that this agent owns")
    # Bookkeeping.
    error: Floats = _ledger("units: how far over, lately: see explain")
    due: Floats = _ledger("s: when to look again; infinite at rest", fill=inf)
    joining_until: Floats = _ledger("s: end of asking for the level; infinite before")
    guessed: Flags = _ledger("its level is a guess, and was asked for", np.bool_)
    unanswered: Flags = _ledger("nobody could tell who else uses it", np.bool_)
    number: Ints = _ledger("number of the ledger; −1: free", np.int64, -1)
    used: Ints = _ledger("rows handed out, own included", np.int64)
    holes: Ints = _ledger("rows below used that are empty", np.int64)
    dirty: Flags = _ledger("an input changed", np.bool_)
    voiced: Flags = _ledger("a level was reported since the look", np.bool_)
    full: Flags = _ledger("it overflowed at the last look", np.bool_)
    brimful: Flags = _ledger("C was B at the last look", np.bool_)
    stale: Flags = _ledger("silence or weights changed", np.bool_)
    unlimited: Flags = _ledger("nothing is refused", np.bool_)
    strict: Flags = _ledger("permits decide, not shares", np.bool_)
    may_owe: Flags = _ledger("admits while E ≥ 0", np.bool_)
    isolation: Codes = _ledger("index into ISOLATIONS", np.int8)

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

    def lines(self, slots: Index | int) -> slice:
        """Return how many rows some ledgers use; all rows below are empty."""
        used = self.used[slots]
        return slice(0, int(used if used.ndim == 0 else np.maximum.reduce(used)))

    def take_slot(self) -> int:
        """Return an empty, initialised column; grow the arrays if there is none."""
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
        """Free the memory if the block holds no ledger any more.

        When a hundred agents join, all ledgers move from block to block, and the one
        they leave is as large as the one they enter.
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
        # The lowest column is taken first, so that columns in use stay together.
        self.free.extend(range(capacity - 1, old - 1, -1))


FIELDS: dict[str, Field] = {
    name: declared
    for name, declared in vars(LedgerBlock).items()
    if isinstance(declared, Field)
}
"""All arrays of a block by name."""
