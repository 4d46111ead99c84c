"""Who should own what of a strict ledger.

Targets are the max-min shares of Q itself, not of Q': no level is needed, since
rights alone keep the bound.  What demand leaves over is spread, first as room for
each agent's own noise, then evenly.  The burst is held evenly, and goes to those who
can use it while there is less rate than demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import COSTS_HELD_BACK
from headgate.coordinator.allocation.max_min import shares_at, water_level

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.table.arrays import Shelf

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TOKENS_PER_HOLDER = 2.0
"""Costs of burst that a holder needs: with fewer, not everyone can own a part."""

KEPT_PART = 0.1
"""Of an even part of the burst: kept by who has no demand, to start with."""

KEPT_SIGMAS = 4.0
"""Of what arrives in a second: kept in a flash by who has enough of the rate."""

KEPT_COSTS = 2.0
"""Kept beside that: one request that is under way, and one more."""

LEAST_TOKENS = 0.1
"""Of an even part of the burst: fewer are not worth a report."""

ROOM_PART = 0.1
"""Of its demand: the most room beside it that an agent gets where rate is scarce.  A
bucket of a few costs would ask for a quarter or half, and leave it unused while
somebody else is short."""

FLASH_PART = 0.05
"""Of the rate: what is wanted beyond rights until tokens move for it; rights follow
demand with a noise of a few percent."""

CALM_LOAD = 0.95
"""Demand in parts of the rate below which the burst goes back to even parts; between
this and 1 it stays, since demand is known to a few percent only."""

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
        strict = place.shelf.strict[place.slots]
        usable[place.rows] += np.where(strict, room[place.rows], 0.0)
    own.usable = usable


def tokens_of(shelf: Shelf, slot: int) -> float:
    """Return the units that all buckets of a strict ledger may hold together."""
    held_back = COSTS_HELD_BACK * float(shelf.agents[slot] * shelf.cost[slot])
    return max(0.0, float(shelf.burst[slot]) - held_back)


def rate_targets(
    shelf: Shelf, slot: int, lines: Ints, names_of: Callable[[], list[str]]
) -> Floats:
    """Return the parts of the rate, ``float64[K]``, to be owned; they sum to 1.

    **Room.**  What is held of the burst covers the noise of arrivals: a bucket of C
    tokens at a load of 1 refuses about λ·cost/(2·C), so where rate is scarce nobody
    gets more than λ·cost/C beside its demand, and not more than a tenth of that.  What
    is left over fills that up to √(2·λ·cost), two sigma of what comes in half a second,
    and the rest is even.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that take part.
        names_of: Returns their holders, which is asked only where they matter.
    """
    rate = max(float(shelf.rate[slot]), 1e-12)
    cost = float(shelf.cost[slot])
    demand = _demand(shelf, slot, lines)
    weight = _weights(shelf, slot, lines, demand, names_of)
    even = weight / max(float(weight.sum()), 1e-12)
    most = np.sqrt(2.0 * demand * cost)
    tokens = tokens_of(shelf, slot)
    held = _kept(demand, even, cost=cost, tokens=tokens) * tokens
    room = np.minimum(ROOM_PART, cost / np.maximum(held, cost))
    least = np.minimum(most, demand * room)
    share = _shares(demand + least, weight, rate)
    left = max(0.0, rate - float(share.sum()))
    more = np.where(weight > 0.0, most - least, 0.0)
    more *= min(1.0, left / max(float(more.sum()), 1e-12))
    left = max(0.0, left - float(more.sum()))
    part: Floats = (share + more + left * even) / rate
    return part


def burst_targets(
    shelf: Shelf,
    slot: int,
    lines: Ints,
    names_of: Callable[[], list[str]],
    rights: Floats,
) -> tuple[Floats, bool]:
    """Return the parts of the burst, ``float64[K]``, that agents should own.

    Even parts at rest, so that whoever starts has something at once.  In a *flash*,
    where somebody wants more of the rate than it owns, tokens go to those who do, in
    proportion; each other agent keeps the noise of its own arrivals.  What nobody
    holds tokens for needs no move, except that an agent must own a part to admit
    anything at all.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that take part, this one first.
        names_of: Returns their holders, which is asked only where they matter.
        rights: ``float64[K]`` their parts of the rate.

    Returns:
        The parts, which sum to at most 1, and whether gifts are urgent.
    """
    rate = max(float(shelf.rate[slot]), 1e-12)
    demand = _demand(shelf, slot, lines)
    weight = _weights(shelf, slot, lines, demand, names_of)
    even: Floats = weight / max(float(weight.sum()), 1e-12)
    if not weight.all():
        return even, True
    unmet = np.maximum(demand - rights * rate, 0.0)
    wanted = float(unmet.sum())
    if wanted < FLASH_PART * rate and float(demand.sum()) < CALM_LOAD * rate:
        return even, False
    tokens = tokens_of(shelf, slot)
    kept = _kept(demand, even, cost=float(shelf.cost[slot]), tokens=tokens)
    spare = float(shelf.held[0, slot] - kept[0] * tokens)
    if wanted < FLASH_PART * rate or spare < LEAST_TOKENS * even[0] * tokens:
        return kept, True
    part: Floats = kept + max(0.0, 1.0 - float(kept.sum())) * unmet / wanted
    return part, True


def _demand(shelf: Shelf, slot: int, lines: Ints) -> Floats:
    """Return the demand that counts, ``float64[K]`` units/s."""
    demand: Floats = np.minimum(shelf.demand[lines, slot], shelf.demand_cap[slot])
    return demand


def _weights(
    shelf: Shelf,
    slot: int,
    lines: Ints,
    demand: Floats,
    names_of: Callable[[], list[str]],
) -> Floats:
    """Return the weights, ``float64[K]``; 0 of those for whom tokens are too few."""
    weight: Floats = shelf.weight[lines, slot]
    most = max(1, int(shelf.burst[slot] / (TOKENS_PER_HOLDER * shelf.cost[slot])))
    if len(lines) > most:
        # Those with most demand own parts, ties by name.
        names = names_of()
        order = sorted(range(len(names)), key=lambda i: (-demand[i], names[i]))
        weight = weight.copy()
        weight[order[most:]] = 0.0
    return weight


def _kept(demand: Floats, even: Floats, *, cost: float, tokens: float) -> Floats:
    """Return the parts of the burst, ``float64[K]``, that agents keep in a flash."""
    noise = KEPT_COSTS * cost + KEPT_SIGMAS * np.sqrt(demand * cost)
    least = np.maximum(KEPT_PART * even, noise / max(tokens, 1e-12))
    kept: Floats = np.minimum(even, least)
    return kept


def _shares(demand: Floats, weight: Floats, rate: float) -> Floats:
    """Return the max-min shares, ``float64[K]`` units/s."""
    theta = water_level(demand[:, None], weight[:, None], np.array([rate]))
    return shares_at(theta, demand[:, None], weight[:, None])[:, 0]
