"""The ledger: every agent replays the group's one token bucket from reports.

Per ledger, with rate Q and burst B::

    L   level from what was reported:    L += Q·Δt − Σ_j ΔA_j
    P   admitted but not yet reported:   Σ_{j≠i} ∫ρ_j since j's row was true
    h   tokens held in local buckets:    Σ_j held_j as reported
    E = L − P − h, clamped into [−D, B]; then L = E + P + h

**Why counters and not rates.**  A_j is cumulative: a lost, doubled or reordered
report loses nothing, since the next one carries all.  So the ledger's error is not
a sum over reports but only what is unseen now, at most Σ_j |a_j − ρ_j|·age_j, and
feedback (`headgate.coordinator.allocation.ceilings`) takes it back within H.

**Why E is clamped and not L.**  Of what L shows, P is spent and h is given out
already.  Clamping L at B would take the unreported part away twice, and a burst
smaller than Q·T loses 4 to 30 % of the quota (measured).

**Own use is exact.**  This agent's own counters enter at each tick; for line 0
`ahead` is what the *others* believe, kept to decide when to tell them
(`headgate.coordinator.gossip.schedule`).

**What is charged.**  While a member is heard: what it counted.  While it is
silent, or says what can't be true: what it was allowed.  When it returns, its
counters are a new base line, so time apart is billed once, by the reserve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.ledger.scalar import (
    GRACE_BURST,
    GRACE_COSTS,
    GRACE_S,
    PLAUSIBLE_S,
    hear_few,
    settle_one,
    slot_of,
    wake_one,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.messages.report import Rows
    from headgate.coordinator.table.arrays import Index, Shelf
    from headgate.coordinator.table.index import Place

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]

EXTRAPOLATE_SMALL_S = 0.05
"""Where each admission is reported at once, silence longer than lag and this means
that there was none."""


def settle(shelf: Shelf, slots: Index, now: float, *, small_s: float) -> Floats:
    """Bring ledgers to `now` and return E, ``float64[K]``.

    Args:
        shelf: Changed: `level`, `ahead`, `at`, `belief`, `error`.
        slots: K of its slots; a slice for all.
        now: Monotonic seconds.
        small_s: Longest extrapolation where quotas are small.
    """
    one = slot_of(slots)
    if one is not None:
        settle_one(shelf, one, now, small_s)
        return shelf.belief[slots]
    return settle_many(shelf, slots, now, small_s)


def settle_many(shelf: Shelf, slots: Index, now: float, small_s: float) -> Floats:
    """Do what `settle` does, on columns."""
    elapsed = now - shelf.at[slots]
    lines = shelf.lines(slots)
    burn = shelf.burn[lines, slots]
    ahead = shelf.ahead[lines, slots]  # of a slice in place, else a copy
    ahead += burn * elapsed
    small = shelf.small[slots]
    if small.any():
        # Line 0 is what the others extrapolate, and they stop as well.
        np.minimum(ahead, burn * small_s, out=ahead, where=small)
    if not isinstance(slots, slice):
        shelf.ahead[:, slots] = ahead
    level = shelf.level[slots] + shelf.rate[slots] * elapsed
    held = shelf.held[lines, slots].sum(axis=0)
    outstanding = ahead[1:].sum(axis=0) + held
    believed = level - outstanding
    # Held tokens beside a full ledger are more than B; the margin covers as much.
    most = shelf.burst[slots] - np.maximum(held - shelf.margin[slots], 0.0)
    belief: Floats = np.maximum(np.minimum(believed, most), -shelf.debt_cap[slots])
    shelf.full[slots] = believed >= most
    shelf.error[slots] = shelf.error[slots] * np.exp(-elapsed) + np.maximum(
        -shelf.debt_cap[slots] - believed, 0.0
    )
    # Half of the largest demand that counts is Q, or infinite where unlimited.
    most = np.minimum(2.0 * shelf.theta[slots], 0.5 * shelf.demand_cap[slots])
    faded = shelf.plausible[slots] * np.exp(-elapsed / PLAUSIBLE_S)
    shelf.plausible[slots] = np.maximum(most, faded)
    shelf.level[slots] = belief + outstanding
    shelf.belief[slots] = belief
    shelf.at[slots] = now
    return belief


def wake(shelf: Shelf, slots: Index, since: float) -> None:
    """Let ledgers at rest begin to count again, from `since` on.

    A full bucket that nobody uses is not calculated.  The time that passed must not
    be credited to what is charged now: it would vanish into the overflow.
    """
    resting = shelf.full[slots]
    if not np.count_nonzero(resting):
        return
    resting = resting & (shelf.due[slots] == np.inf)
    if np.count_nonzero(resting):
        at = shelf.at[slots]
        shelf.at[slots] = np.where(resting, np.maximum(at, since), at)


def charge_own(shelf: Shelf, slots: Index, admitted: Floats, held: Floats) -> None:
    """Enter this agent's own counters, exactly."""
    shelf.level[slots] -= admitted - shelf.admitted[0, slots]
    shelf.admitted[0, slots] = admitted
    shelf.held[0, slots] = held


def hear(place: Place, rows: Rows, *, told_at: float) -> int:
    """Enter the rows of one member's report.

    Args:
        place: Where they stand; rows of the report that stand elsewhere are left
            alone.
        rows: Of one dimension.
        told_at: When they were true, monotonic seconds.

    Returns:
        How many counters could not be true, and were charged as predicted.
    """
    if place.few:
        return hear_few(place, rows, told_at)
    return hear_many(place, rows, told_at)


def hear_many(place: Place, rows: Rows, told_at: float) -> int:
    """Do what `hear` does, on columns."""
    shelf, slots = place.shelf, place.slots
    wake(shelf, slots, told_at)
    charged, wrong = _enter(place, rows, told_at, shelf.at[slots])
    shelf.level[slots] -= charged
    return int(np.count_nonzero(wrong))


def hear_together(place: Place, rows: Rows, told_at: Floats) -> Flags:
    """Enter rows of several members, each line once.

    Args:
        place: Where they stand, one member after the other: from `Table.standing`.
        rows: Of one dimension.
        told_at: ``float64[N]`` when each was true, monotonic seconds.

    Returns:
        ``bool[K]`` counters that could not be true: as if each member had been heard
        by itself, in this order.
    """
    shelf, slots, told_at = place.shelf, place.slots, told_at[place.rows]
    assert not isinstance(slots, slice)
    at_s = shelf.at[slots]
    resting = shelf.full & (shelf.due == np.inf)
    if np.count_nonzero(resting):
        for row in resting[slots].nonzero()[0].tolist():
            slot = slots.item(row)
            wake_one(shelf, slot, told_at.item(row))
            at_s[row] = shelf.at[slot]
    charged, wrong = _enter(place, rows, told_at, at_s)
    # Several may be of one ledger: each is charged, one after the other.
    np.subtract.at(shelf.level, slots, charged)
    return wrong


def _enter(
    place: Place, rows: Rows, told_at: Floats | float, at_s: Floats
) -> tuple[Floats, Flags]:
    """Enter rows but for the level; return what to charge, and what is not true."""
    shelf, at, slots, cells = place.shelf, place.rows, place.slots, place.cells
    counters, ahead = shelf.admitted.reshape(-1), shelf.ahead.reshape(-1)
    burn = shelf.burn.reshape(-1)[cells]
    reported = rows.admitted[at]
    grown = reported - counters[cells]
    allowed = np.maximum(2.0 * burn, shelf.plausible[slots])
    # Dead reckoning leaves rows out for many reports: the row's own gap counts.
    before = shelf.told_at.reshape(-1)
    gap = np.maximum(told_at - before[cells], 0.0)
    burst = shelf.burst[slots]
    most = allowed * (gap + GRACE_S)
    most += GRACE_COSTS * shelf.cost[slots]
    most += GRACE_BURST * burst
    wrong = (grown > most) | (grown < 0.0)
    charged = grown
    if np.isnan(np.add.reduce(grown)):
        charged = np.where(np.isnan(grown), 0.0, grown)  # a base line
    if np.count_nonzero(wrong):
        predicted = ahead[cells] + burn * (told_at - at_s)
        charged = np.where(wrong, np.maximum(predicted, 0.0), charged)
    counters[cells] = reported
    ahead[cells] = burn * (at_s - told_at)
    shelf.refused.reshape(-1)[cells] = rows.refused[at]
    shelf.demand.reshape(-1)[cells] = np.maximum(rows.demand[at], 0.0)
    bound = np.maximum(burst, shelf.debt_cap[slots])
    shelf.held.reshape(-1)[cells] = np.minimum(np.maximum(rows.held[at], -bound), bound)
    before[cells] = told_at
    if rows.subjects is not None:
        shelf.subjects.reshape(-1)[cells] = rows.subjects[at]
    shelf.dirty[slots] = True
    return charged, wrong


def close_account(place: Place, until: float) -> None:
    """Charge what was predicted; the next counters heard are a base line.

    Args:
        place: Where a member's rows stand.
        until: Monotonic seconds; what was predicted for later is taken back.
    """
    shelf, slots, cells = place.shelf, place.slots, place.cells
    ahead = shelf.ahead.reshape(-1)
    elapsed = until - shelf.at[slots]
    spent = ahead[cells] + shelf.burn.reshape(-1)[cells] * elapsed
    held = shelf.held.reshape(-1)
    shelf.level[slots] -= np.maximum(spent, 0.0) + np.maximum(held[cells], 0.0)
    held[cells] = 0.0
    ahead[cells] = -shelf.burn.reshape(-1)[cells] * elapsed
    shelf.admitted.reshape(-1)[cells] = np.nan
    shelf.dirty[slots] = True
