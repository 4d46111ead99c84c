"""What one agent gives of its rights to a strict ledger, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.targets import (
    LEAST_TOKENS,
    burst_targets,
    rate_targets,
)
from headgate.coordinator.escrow.transfer import DUST, gifts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.coordinator.escrow.transfer import Transfers
    from headgate.coordinator.table.arrays import Shelf

    Floats = NDArray[np.float64]

LEAST_GIFT = 0.004
"""Of all: less is not worth a report; noise moves targets by more."""


def in_use(
    shelf: Shelf,
    slot: int,
    name_of: Callable[[int], str],
    rights: Transfers,
) -> NDArray[np.int64]:
    """Return the lines of the agents that use a ledger, ``int64[K]``, this one first.

    Who has no bucket for it any more has given all away, and would only keep what it
    is given: it wants nothing, and had a part of the burst and has none left.  (Whoever
    has a bucket keeps some of the burst, unless there is too little for all.)  When it
    uses the ledger again it has demand.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        name_of: Returns the holder that a member's number stands for.
        rights: To the burst.
    """
    lines = np.flatnonzero(shelf.weight[:, slot] > 0.0)
    idle = lines[shelf.demand[lines, slot] <= 0.0]
    gone = [
        line
        for line in idle.tolist()
        if line and rights.has_none_left(name_of(shelf.member.item(line, slot)))
    ]
    return np.setdiff1d(lines, gone, assume_unique=True) if gone else lines


def decide(
    shelf: Shelf,
    slot: int,
    lines: NDArray[np.int64],
    *,
    names_of: Callable[[], list[str]],
    transfers: Transfers,
    mine: list[str],
    rights: Transfers | None,
) -> tuple[dict[str, float], bool]:
    """Return what to give to whom, where this agent owns more than its target.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that take part, this one first.
        names_of: Returns their holders, which is asked only where they matter.
        transfers: Of the rights to the rate, or to the burst.
        mine: Own holders, the newest last.
        rights: Where the burst is given, the rights to the rate.

    Returns:
        Parts by holder, before the division by what was minted; and whether they
        are worth a report of their own.
    """
    least = LEAST_GIFT if rights is None else LEAST_TOKENS / len(lines)
    owned = sum(transfers.balance(holder) for holder in mine)
    if owned < least:
        return {}, False
    if rights is None:
        target, urgent = rate_targets(shelf, slot, lines, names_of), True
    else:
        parts = np.array([rights.owned(name) for name in names_of()])
        target, urgent = burst_targets(shelf, slot, lines, names_of, parts)
    target = target * transfers.minted
    surplus = owned - float(target[0])
    if surplus < least:
        return {}, False
    wanted: dict[str, float] = {}
    for name, part in zip(names_of(), target.tolist(), strict=True):
        lacking = part - transfers.balance(name)
        if name != mine[-1] and lacking > 0.5 * least:
            wanted[name] = lacking
    return gifts(surplus=surplus, wanted=wanted, least=least), urgent


def give_all(
    transfers: Transfers, mine: list[str], names: list[str], now: float
) -> bool:
    """Give all that this agent owns, in even parts; return whether it gave any.

    Args:
        transfers: Changed.
        mine: Own holders.
        names: Who gets it; an own holder among them keeps its part.
        now: Monotonic seconds.
    """
    gave = False
    for holder in mine:
        part = transfers.balance(holder)
        if part <= DUST:
            continue
        for name in names:
            if name != holder:
                transfers.give(holder, name, part / len(names), now)
                gave = True
    return gave
