"""The ledger: every agent replays the group's one token bucket from counters.

Per ledger, with rate Q and burst B::

    L   level from what was reported:    L += Q·Δt − Σ_j ΔA_j
    P   admitted but not yet reported:   Σ_{j≠i} ∫ρ_j since j's row was true
    E = L − P, at most B; then L = E + P

**Why counters and not rates.**  A_j is cumulative: a lost, doubled or reordered
report loses nothing, since the next one carries all.  So the ledger's error is not a
sum over reports but only what is unseen now, at most Σ_j |a_j − ρ_j|·age_j.

**Why E is never clamped below.**  L is a sum of counters, so what all admit is
B + Q·t − overflow − L, exactly: whatever was over is paid back.  A clamp would forgive
it, and one cost of 600 a second on 50/s would double the quota (measured: 2.0, and
growing).

**Why E is clamped and not L.**  Of what L shows, P is spent already.  Clamping L at B
would take the unreported part away twice, and a burst smaller than Q·T loses 4 to 30 %
of the quota (measured).

**Overflow comes first.**  What a full bucket earned before a charge is lost and must
not pay for it, although the charge is heard later.  Hence the level of another's
charge is cut at B as of the time when it was told, and for the own charges the own
bucket counts what overflowed.

**Own use is exact.**  This agent's own counters enter at each tick; for row 0 `ahead`
is what the *others* believe, kept to decide when to tell them
(`headgate.coordinator.gossip.schedule`).

**What is charged.**  What was counted, as soon as it is told; until then, what is
predicted: ρ while a member is heard, its reserve while it is silent.  When it is heard
again within the time in which it is kept, its counters take the place of what was
predicted.  A counter that can't be true is charged as predicted.

Invariant, after each function of this module: L = E + Σ_{j≠i} ahead_j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.messages.report import Rows
    from headgate.coordinator.table.arrays import Index, LedgerBlock
    from headgate.coordinator.table.index import Place

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]

GRACE_S = 0.2
"""Seconds added to the gap between two reports when a counter is judged: jitter
of the bus and of the sender's ticks."""

GRACE_COSTS = 5.0
"""Requests that any counter may grow by beside its rate."""

PLAUSIBLE_S = 3.0
"""What was allowed lately stays plausible so long: a report tells of the time before
the newest calculation, and a limit may just have been lowered."""

ERROR_S = 1.0
"""How long the deepest debt is remembered."""


def settle(block: LedgerBlock, slots: Index, now: float, age_s: float = 0.1) -> None:
    """Bring ledgers to `now`.

    Args:
        block: Changed: `level`, `ahead`, `at`, `belief`, `cut`, `full`, `error` and
            what is expected of this agent.
        slots: K of its columns.
        now: Monotonic seconds.
        age_s: Δ, after which all charges of a moment are known.
    """
    elapsed = now - block.at[slots]
    lines = block.lines(slots)
    burn = block.burn[lines, slots]
    ahead: Floats = block.ahead[lines, slots] + burn * elapsed
    block.ahead[lines, slots] = ahead
    # The others expect the same of this agent since each counter that they may have.
    block.known_ahead[slots] += burn[0] * elapsed
    block.pending_ahead[slots] += burn[0] * elapsed
    predicted = ahead[1:].sum(axis=0)
    # What was cut at B though it had been spent: the news came late.
    back = np.minimum(block.late[slots], block.cut[slots])
    block.cut[slots] -= back
    block.level[slots] += back
    block.late[slots] = 0.0
    believed = block.level[slots] + block.rate[slots] * elapsed - predicted
    belief: Floats = np.minimum(believed, block.burst[slots])
    block.full[slots] = believed >= block.burst[slots]
    lately = np.exp(-elapsed / age_s)
    overflowing = np.maximum(believed - block.burst[slots], 0.0)
    block.cut[slots] = block.cut[slots] * lately + overflowing
    block.news[slots] *= lately
    block.level[slots] = belief + predicted
    block.belief[slots] = belief
    block.at[slots] = now
    faded = np.exp(-elapsed / np.array([[PLAUSIBLE_S], [ERROR_S]]))
    block.error[slots] = np.maximum(block.error[slots] * faded[1], -belief)
    likely = np.minimum(2.0 * block.theta[slots], 0.5 * block.demand_cap[slots])
    block.plausible[slots] = np.maximum(block.plausible[slots] * faded[0], likely)


def charge_own(
    block: LedgerBlock, slots: Index, admitted: Floats, overflowed: Floats, since: float
) -> None:
    """Enter this agent's own counters, exactly.

    Args:
        block: Changed.
        slots: K of its columns.
        admitted: ``float64[K]`` own counters.
        overflowed: ``float64[K]`` what the own buckets earned while they were full;
            NaN where there is none that counts it.
        since: When the own counters were read before, monotonic seconds.
    """
    lost = overflowed - block.overflowed[slots]
    uncounted = np.isnan(overflowed)
    if np.count_nonzero(uncounted):
        spent = block.burn[1:, slots].sum(axis=0)
        earned = (block.rate[slots] - spent) * (since - block.at[slots])
        over = block.belief[slots] + np.maximum(earned, 0.0) - block.burst[slots]
        grown = admitted > block.admitted[0, slots]
        lost = np.where(uncounted, np.where(grown, np.maximum(over, 0.0), 0.0), lost)
    resting = block.due[slots] == np.inf
    if np.count_nonzero(resting):
        # A full bucket that nobody uses is not calculated, and its own view of it
        # ended with its deadline: it was full until it was looked at last.
        lost = np.where(resting, 0.0, lost)
        at = block.at[slots]
        block.at[slots] = np.where(resting, np.maximum(at, since), at)
    block.cut[slots] += lost
    charged = admitted - block.admitted[0, slots] + lost
    block.level[slots] -= charged
    block.belief[slots] -= charged
    block.admitted[0, slots] = admitted
    block.overflowed[slots] = np.where(uncounted, 0.0, overflowed)


def hear(
    place: Place, rows: Rows, told_at: Floats | float, *, told_together: bool = False
) -> Flags:
    """Enter rows of reports.

    Args:
        place: Where they stand; rows of the report that stand elsewhere are left
            alone.
        rows: Of one dimension.
        told_at: When they were true, monotonic seconds; ``float64[K]`` or one for all.
        told_together: Rows of several members, so that some may be of one ledger; none
            of them may be at rest (see `overflow`).

    Returns:
        ``bool[K]`` counters that could not be true, and were charged as predicted.
    """
    block, at, slots, cells = place.block, place.rows, place.slots, place.cells
    counters, ahead = block.admitted.reshape(-1), block.ahead.reshape(-1)
    told_before = block.told_at.reshape(-1)
    burn = block.burn.reshape(-1)[cells]
    then = block.at[slots]
    reported, cost = rows.admitted[at], rows.cost[at]
    grown = reported - counters[cells]
    wrong = _impossible(place, rows, grown, burn, told_at - told_before[cells])
    expected = ahead[cells]
    charged = np.where(np.isnan(grown), 0.0, grown)  # NaN: a base line
    if np.count_nonzero(wrong):
        predicted = np.maximum(expected + burn * (told_at - then), 0.0)
        charged = np.where(wrong, predicted, charged)
    now_ahead = burn * (then - told_at)
    if not told_together:
        charged = charged + np.where(charged > 0.0, overflow(place, told_at), 0.0)
    _charge(place, charged, charged + now_ahead - expected, together=told_together)
    counters[cells] = reported
    ahead[cells] = now_ahead
    block.refused.reshape(-1)[cells] = rows.refused[at]
    block.demand.reshape(-1)[cells] = np.maximum(rows.demand[at], 0.0)
    block.cost.reshape(-1)[cells] = np.maximum(cost, LEAST_COST)
    told_before[cells] = told_at
    most_held = block.burst[slots]
    held = np.minimum(np.maximum(rows.held[at], -most_held), most_held)
    block.held.reshape(-1)[cells] = held
    if rows.level is not None:
        block.said.reshape(-1)[cells] = rows.level[at]
    if rows.subjects is not None:
        block.subjects.reshape(-1)[cells] = rows.subjects[at]
    block.dirty[slots] = True
    return wrong


def _charge(place: Place, charged: Floats, more: Floats, *, together: bool) -> None:
    """Charge what was heard, and note by how much it is `more` than was expected.

    Several rows that come `together` may be of one ledger.
    """
    block, slots = place.block, place.slots
    late = np.maximum(more, 0.0)
    if together:
        columns = block.slots[slots]
        np.subtract.at(block.level, columns, charged)
        np.subtract.at(block.belief, columns, more)
        np.add.at(block.news, columns, np.abs(more))
        np.add.at(block.late, columns, late)
        return
    block.level[slots] -= charged
    block.belief[slots] -= more
    block.news[slots] += np.abs(more)
    block.late[slots] += late


LEAST_COST = 1e-9
"""Units of one request at least: a smaller mean is none."""


def _impossible(
    place: Place, rows: Rows, grown: Floats, burn: Floats, gap_s: Floats
) -> Flags:
    """Return ``bool[K]``: which counters grew by more than they may, or fell.

    A member may have spent at its rate since its row was told (the row's own gap
    counts: dead reckoning leaves rows out), all of the level at once, a few requests
    by chance, and the one request that it announces: whoever may owe admits a cost of
    any size while the level is not below zero.
    """
    block, slots = place.block, place.slots
    allowed = np.maximum(2.0 * burn, block.plausible[slots])
    most = allowed * (np.maximum(gap_s, 0.0) + GRACE_S)
    most += GRACE_COSTS * rows.cost[place.rows] + block.burst[slots]
    if rows.largest is not None:
        most += np.where(block.may_owe[slots], rows.largest[place.rows], 0.0)
    wrong: Flags = (grown > most) | (grown < 0.0)
    return wrong & ~block.unlimited[slots]


def overflow(place: Place, told_at: Floats | float) -> Floats:
    """Return ``float64[K]`` units above B when rows were told; 0 but for those at rest.

    A ledger in use was looked at since, and cut at B.
    """
    block, slots = place.block, place.slots
    earned: Floats = block.rate[slots] * (told_at - block.at[slots])
    over = block.belief[slots] + earned - block.burst[slots]
    return np.where(block.due[slots] == np.inf, np.maximum(over, 0.0), 0.0)


def close_account(place: Place, *, charge: bool) -> None:
    """End what is predicted of a member; the next counters heard are a base line.

    Args:
        place: Where a member's rows stand.
        charge: What was predicted counts as spent: it may have been.  Else it is
            given back: all was told.
    """
    block, slots, cells = place.block, place.slots, place.cells
    ahead = block.ahead.reshape(-1)
    column = block.level if charge else block.belief
    column[slots] += -ahead[cells] if charge else ahead[cells]
    ahead[cells] = 0.0
    block.aside.reshape(-1)[cells] = 0.0
    block.admitted.reshape(-1)[cells] = np.nan
    block.dirty[slots] = True
