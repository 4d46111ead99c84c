"""How many permits of a strict limit each agent should own."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.messages.report import PERMITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.table.arrays import LedgerBlock

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ROOM_PART = 0.1
"""Of its demand: the most room beside it that an agent gets where rate is scarce.  A
bucket of a few costs would ask for a quarter or half, and leave it unused while
somebody else is short."""

YOUNG_S = 1.0
"""Age of a demand estimate up to which one sigma is asked for beside it: until the
average is as long as it gets."""


def ask_for_room(own: Own) -> None:
    """Let the demand that is told of strict ledgers be no guess on the low side.

    A balanced ledger makes up for a first guess that was too low; rights that were
    not asked for are refusals until the next guess, 75 ms later.

    Args:
        own: Changed: `usable`, just after a reset.
    """
    young = own.demand.age_s < YOUNG_S
    if not young.any():
        return
    room = np.where(young, own.demand.sigma(own.cost), 0.0)
    usable = own.usable.copy()
    for place in own.places:
        strict = place.block.strict[place.slots]
        usable[place.rows] += np.where(strict, room[place.rows], 0.0)
    own.usable = usable


def targets(block: LedgerBlock, slot: int, lines: Ints, permits: int) -> Ints:
    """Return how many permits each agent should own, ``int64[K]``.

    They are worth the max-min shares of what all of them own together, not of Q', for
    no level is needed: permits alone keep the bound.

    **Room.**  What is held of the burst covers the noise of arrivals: a bucket of C
    tokens at a load of 1 refuses about λ·cost/(2·C), so where rate is scarce nobody
    gets more than λ·cost/C beside its demand, and not more than a tenth of that.  What
    is left over fills that up to √(2·λ·cost), two sigma of what comes in half a second,
    and the rest is even: whoever starts has something at once.

    Args:
        block: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that can be given permits, this one first,
            the others by id.
        permits: Owned by all of these together.
    """
    whole = max(float(block.rate[slot]), 1e-12)
    rate = whole * permits / PERMITS
    cost = float(block.own_cost[slot])
    # With less than one cost of the burst an agent admits nothing at all.
    fewest = ceil(PERMITS * cost / max(block.burst.item(slot), cost))
    demand = np.minimum(block.demand[lines, slot], block.demand_cap[slot])
    weight = _weights(block, slot, lines, demand, PERMITS // fewest)
    even = weight / max(float(weight.sum()), 1e-12)
    held = _shares(demand, weight, rate) / whole * block.burst.item(slot)
    room = np.minimum(ROOM_PART, cost / np.maximum(held, cost))
    most = np.sqrt(2.0 * demand * cost)
    least = np.minimum(most, demand * room)
    base = np.where(weight > 0.0, fewest / PERMITS * whole, 0.0)
    beyond = np.maximum(demand + least - base, 0.0)
    share = base + _shares(beyond, weight, max(0.0, rate - float(base.sum())))
    left = max(0.0, rate - float(share.sum()))
    more = np.where(weight > 0.0, np.maximum(demand + most - share, 0.0), 0.0)
    more *= min(1.0, left / max(float(more.sum()), 1e-12))
    left = max(0.0, left - float(more.sum()))
    wanted = np.rint((share + more + left * even) / whole * PERMITS)
    return np.where(weight > 0.0, np.maximum(wanted, fewest), 0.0).astype(np.int64)


def gifts(surplus: int, lacking: Ints) -> Ints:
    """Return how many permits to give to each, ``int64[K]``: in proportion.

    All of the surplus is given, as far as anything is lacking: what is left of each
    proportion goes on to the next one.  Rounded down one by one, a small surplus among
    many would never be given.

    Args:
        surplus: What this agent owns above its own target.
        lacking: ``int64[K]`` what each lacks; below 0 of one that has too many.

    >>> gifts(10, np.array([30, -5, 10]))
    array([7, 0, 3])
    """
    upto = np.maximum(lacking, 0).cumsum()
    whole = int(upto[-1]) if len(upto) else 0
    return np.diff(upto * min(surplus, whole) // max(whole, 1), prepend=0)


def _weights(
    block: LedgerBlock, slot: int, lines: Ints, demand: Floats, most: int
) -> Floats:
    """Return the weights, ``float64[K]``; 0 of those for whom tokens are too few."""
    weight: Floats = block.weight[lines, slot]
    if len(lines) > most:
        # Those with most demand own permits; ties keep the order of the lines.
        weight = weight.copy()
        weight[np.argsort(-demand, kind="stable")[most:]] = 0.0
    return weight


def _shares(demand: Floats, weight: Floats, rate: float) -> Floats:
    """Return the max-min shares, ``float64[K]`` units/s."""
    theta = water_level(demand[:, None], weight[:, None], np.array([rate]))
    return shares_at(theta, demand[:, None], weight[:, None])[:, 0]
