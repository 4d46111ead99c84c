"""The ledger for one or a few rows at a time: the same steps on plain floats.

Most agents use one group or a few, and then the fixed price of a numpy call (half a
microsecond, whatever its length) is nearly all that a step costs: 45 calls to hear
one row take ten times as long as the arithmetic.  Here columns are read into floats;
only sums over agents stay numpy's, so that they are rounded in the same order.

Each function must give what its twin in `headgate.coordinator.ledger.replay` gives, bit
for bit; `tests/unit/coordinator/ledger/test_scalar.py` holds them together.
"""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headgate.coordinator.messages.report import Rows
    from headgate.coordinator.table.arrays import Index, Shelf
    from headgate.coordinator.table.index import Place

GRACE_S = 0.2
"""Seconds added to the gap between two reports when a counter is judged: jitter
of the bus and of the sender's ticks."""

GRACE_COSTS = 5.0
"""Requests that any counter may grow by: integers, and costs above a share."""

GRACE_BURST = 0.1
"""Part of the burst that a local bucket may have held and let go at once."""

PLAUSIBLE_S = 3.0
"""What was allowed lately stays plausible so long: a report tells of the time before
the newest calculation, and a limit may just have been lowered."""


def slot_of(slots: Index) -> int | None:
    """Return the slot where there is just one, as a slice."""
    if isinstance(slots, slice) and slots.stop - slots.start == 1:
        slot: int = slots.start
        return slot
    return None


def settle_one(shelf: Shelf, slot: int, now: float, small_s: float) -> None:
    """Bring one ledger to `now`: see `ledger.settle`."""
    elapsed = now - shelf.at.item(slot)
    burn = shelf.burn[:, slot]
    ahead = shelf.ahead[:, slot] + burn * elapsed
    if shelf.small.item(slot):
        ahead = np.minimum(ahead, burn * small_s)
    held = float(np.add.reduce(shelf.held[:, slot]))
    outstanding = float(np.add.reduce(ahead[1:])) + held
    shelf.ahead[:, slot] = ahead
    level = shelf.level.item(slot) + shelf.rate.item(slot) * elapsed
    believed = level - outstanding
    beside = held - shelf.margin.item(slot)
    most = shelf.burst.item(slot) - (beside if beside > 0.0 else 0.0)
    least = -shelf.debt_cap.item(slot)
    belief = most if believed > most else believed
    belief = least if belief < least else belief
    shelf.full[slot] = believed >= most
    beyond = least - believed
    error = shelf.error.item(slot)
    if error or beyond > 0.0:
        # As a rule there is none, and this is the dearest line.
        error = error * float(np.exp(-elapsed)) + (beyond if beyond > 0.0 else 0.0)
        shelf.error[slot] = error
    likely = min(2.0 * shelf.theta.item(slot), 0.5 * shelf.demand_cap.item(slot))
    faded = shelf.plausible.item(slot) * float(np.exp(-elapsed / PLAUSIBLE_S))
    shelf.plausible[slot] = max(likely, faded)
    shelf.level[slot] = belief + outstanding
    shelf.belief[slot] = belief
    shelf.at[slot] = now


def wake_one(shelf: Shelf, slot: int, since: float) -> None:
    """Let one ledger at rest count again: see `ledger.wake`."""
    if (
        shelf.due.item(slot) == inf
        and shelf.full.item(slot)
        and shelf.at.item(slot) < since
    ):
        shelf.at[slot] = since


def charge_one(shelf: Shelf, slot: int, admitted: float, held: float) -> None:
    """Enter this agent's own counters in one ledger: see `ledger.charge_own`."""
    shelf.level[slot] -= admitted - shelf.admitted.item(0, slot)
    shelf.admitted[0, slot] = admitted
    shelf.held[0, slot] = held


def hear_few(place: Place, rows: Rows, told_at: float) -> int:
    """Enter a few rows, one by one: see `ledger.hear`."""
    shelf = place.shelf
    disbelieved = 0
    for row, line, slot in place.few:
        wake_one(shelf, slot, told_at)
        disbelieved += _hear_counter(
            shelf, line, slot, rows.admitted.item(row), told_at
        )
        shelf.refused[line, slot] = rows.refused.item(row)
        demand = rows.demand.item(row)
        shelf.demand[line, slot] = demand if demand > 0.0 else 0.0
        bound = max(shelf.burst.item(slot), shelf.debt_cap.item(slot))
        shelf.held[line, slot] = min(max(rows.held.item(row), -bound), bound)
        shelf.told_at[line, slot] = told_at
        if rows.subjects is not None:
            shelf.subjects[line, slot] = rows.subjects.item(row)
        shelf.dirty[slot] = True
    return disbelieved


def _hear_counter(
    shelf: Shelf, line: int, slot: int, reported: float, told_at: float
) -> bool:
    """Charge what was admitted since the last row; tell whether it is too much."""
    burn, at = shelf.burn.item(line, slot), shelf.at.item(slot)
    grown = reported - shelf.admitted.item(line, slot)
    gap = told_at - shelf.told_at.item(line, slot)
    most = (
        max(2.0 * burn, shelf.plausible.item(slot))
        * ((gap if gap > 0.0 else 0.0) + GRACE_S)
        + GRACE_COSTS * shelf.cost.item(slot)
        + GRACE_BURST * shelf.burst.item(slot)
    )
    wrong = grown > most or grown < 0.0
    charged = grown
    if wrong:
        predicted = shelf.ahead.item(line, slot) + burn * (told_at - at)
        charged = predicted if predicted > 0.0 else 0.0
    elif isnan(grown):
        charged = 0.0  # a base line
    shelf.level[slot] -= charged
    shelf.admitted[line, slot] = reported
    shelf.ahead[line, slot] = burn * (at - told_at)
    return wrong
