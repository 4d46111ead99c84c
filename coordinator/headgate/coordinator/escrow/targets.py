"""How many permits of a strict limit each agent should own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.messages.report import PERMITS

if TYPE_CHECKING:
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.table.arrays import Flags, Floats, Ints, LedgerBlock

ROOM_PART = 0.05
"""Fraction of its demand: most room on top of it that an agent gets while rate is
scarce.  Room is unused most of the time, while another agent is short; without any, an
agent with a small bucket is refused more often by chance."""

ROOM_REQUESTS = 1.5
"""Requests that an agent's part of the burst should hold beyond the part of its demand:
then a twentieth is refused by chance."""

SHORT_PARTS = 1.25
"""An agent is short of permits if it wants so many times its even part of the rate.  Of
many that ask for that part, about half want more just now, by chance."""

SPARE_PART = 0.05
"""Part of all permits that agents which ask for nothing may keep in any case."""

YOUNG_S = 1.0
"""Age of a demand estimate up to which one sigma is added to it: until the average has
its full length."""


def ask_for_room(local: LocalBuckets) -> None:
    """Keep the demand reported for strict ledgers from being too low a guess.

    A balanced ledger makes up for a first guess that was too low.  In a strict one,
    permits that were not asked for mean refusals until the next guess, 75 ms later.

    Args:
        local: Changed: `usable`, just after a reset.
    """
    young = local.demand.age_s < YOUNG_S
    if not young.any():
        return
    room = np.where(young, local.demand.sigma(local.cost), 0.0)
    usable = local.usable.copy()
    for place in local.places:
        strict = place.block.strict[place.slots]
        usable[place.rows] += np.where(strict, room[place.rows], 0.0)
    local.usable = usable


def targets(
    block: LedgerBlock, slot: int, lines: Ints, least: Ints, sits: Flags, permits: int
) -> Ints:
    """Return how many permits each agent should own, ``int64[K]``.

    They are worth the max-min shares of what all agents own together, not of Q': no
    level is needed, because permits alone keep the bound.

    **Room.**  An agent's part of the burst absorbs the noise of arrivals: a bucket of C
    tokens at a load of 1 refuses about λ·cost/(2·C).  So while rate is scarce no agent
    gets more than λ·cost/C on top of its demand, and never more than a twentieth of it.
    Any surplus raises that to √(2·λ·cost), two sigma of the arrivals in half a second,
    and the rest is divided evenly, so that an agent that starts has something at once.

    Args:
        block: The ledger's block.
        slot: The ledger's column.
        lines: ``int64[K]`` lines of the agents that can get permits, by id.
        least: ``int64[K]`` fewest permits with which each can admit a request.
        sits: ``bool[K]`` who may own any.
        permits: How many all of these own together.
    """
    whole = max(float(block.rate[slot]), 1e-12)
    rate = whole * permits / PERMITS
    cost = block.cost[lines, slot]
    demand = np.minimum(block.demand[lines, slot], block.demand_cap[slot])
    weight, inside = block.weight[lines, slot], block.inside[lines, slot]
    if inside.any():
        # Those that own permits for groups inside share them by what they use there.
        weight = np.where(inside > 0.0, inside, 1.0)
    weight = np.where(sits, weight, 0.0)
    even = weight / max(float(weight.sum()), 1e-12)
    held = max_min(demand, weight, rate) / whole * block.burst.item(slot)
    room = np.minimum(ROOM_PART, cost / np.maximum(held, cost))
    most = np.sqrt(2.0 * demand * cost)
    enough = np.minimum(most, demand * room)
    base = np.where(sits, least / PERMITS * whole, 0.0)
    beyond = np.maximum(demand + enough - base, 0.0)
    share = base + max_min(beyond, weight, max(0.0, rate - float(base.sum())))
    left = max(0.0, rate - float(share.sum()))
    more = np.where(sits, np.maximum(demand + most - share, 0.0), 0.0)
    more *= min(1.0, left / max(float(more.sum()), 1e-12))
    left = max(0.0, left - float(more.sum()))
    wanted = np.rint((share + more + left * even) / whole * PERMITS)
    return np.where(sits, np.maximum(wanted, least), 0.0).astype(np.int64)


def spare(
    block: LedgerBlock, slot: int, lines: Ints, least: Ints, asks: Flags, permits: int
) -> int:
    """Return how many permits are left for agents that ask for nothing.

    An agent that starts should find something, but not at the price of requests that
    another one's part of the burst would have admitted: a bucket of C tokens at a load
    of ρ refuses about e^(−2·(1−ρ)·C/cost).  So whoever wants more than its even part
    of the rate (`SHORT_PARTS`) keeps its part of the burst and `ROOM_REQUESTS`.

    Args:
        block: The ledger's block.
        slot: The ledger's column.
        lines: ``int64[K]`` lines of the agents that can get permits.
        least: ``int64[K]`` fewest permits with which each can admit a request.
        asks: ``bool[K]`` which ask for something.
        permits: How many all of these own together.
    """
    rate, weight = max(float(block.rate[slot]), 1e-12), block.weight[lines, slot]
    demand = np.minimum(block.demand[lines, slot], block.demand_cap[slot])
    even = rate * weight / max(float(weight.sum()), 1e-12)
    wanted = PERMITS * demand / rate + ROOM_REQUESTS * least
    wanted = np.where(demand > SHORT_PARTS * even, wanted, 0.0)
    left = permits - np.sum(np.maximum(wanted, least), where=asks)
    return int(max(left, SPARE_PART * permits))


def gifts(surplus: int, lacking: Ints) -> Ints:
    """Return how many permits to give to each, ``int64[K]``: in proportion.

    The whole surplus is given, as far as anything is lacking: the remainder of each
    proportion carries over to the next one.  If each were rounded down, a small surplus
    among many agents would never be given.

    Args:
        surplus: What this agent owns above its own target.
        lacking: ``int64[K]`` what each lacks; negative if it has too many.

    >>> gifts(10, np.array([30, -5, 10]))
    array([7, 0, 3])
    """
    upto = np.maximum(lacking, 0).cumsum()
    whole = int(upto.max(initial=0))
    return np.diff(upto * min(surplus, whole) // max(whole, 1), prepend=0)


def max_min(demand: Floats, weight: Floats, rate: float) -> Floats:
    """Return the max-min shares of a rate or a stock, ``float64[K]``."""
    return shares_at(water_level(demand, weight, rate), demand, weight)
