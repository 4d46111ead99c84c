"""What this agent's own buckets are told to do, from the shares that were computed."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.inside import (
    changed,
    hold_inside,
    is_inside,
    is_parent,
)
from headgate.coordinator.allocation.max_min import FINITE
from headgate.coordinator.allocation.reserves import alone_of
from headgate.coordinator.allocation.window import (
    HEED_AT_MOST_S,
    KNOWN_LAGS,
    room_of,
)
from headgate.coordinator.messages.events import Ceilings
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    root,
    single,
    some,
    total,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Conditions
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock

REQUESTS_INSIDE = 2.0
"""Requests that an agent may always hold for a strict group inside a balanced one, as
far as its permits allow: a bucket of less than one admits nothing, ever."""


def own_ceilings(block: LedgerBlock, slots: Index, on: Conditions) -> Ceilings:
    """Return what this agent's buckets may do in ledgers whose shares are computed."""
    slots = single(slots)
    # Copies: what the shell is told must not change with the ledger.
    rate, window = block.rate[slots] + 0.0, block.window[slots] + 0.0
    burst, cost = block.burst[slots], block.cost[0, slots]
    demand = lesser(block.demand[0, slots], block.demand_cap[slots])
    own_most = block.weight[0, slots] * lesser(block.theta[slots], FINITE)
    share = lesser(demand, own_most)
    extrapolated_rate = block.extrapolated_rate[block.lines(slots), slots]
    alone = window == inf
    aside, guessed = block.aside_in_all[slots], block.guessed[slots]
    expected = block.rate_left[slots]
    # An agent below θ may exceed its mean by the noise of its own arrivals.
    noisy = share + root(2.0 * share * cost)
    sustained = lesser(noisy, own_most) + block.slack[slots] / block.agents[slots]
    reserve, most = alone_of(block, slots, on)
    # What was just admitted is counted at a look, reported after a gap, known at a look
    # after it has arrived, and heeded later.  A slow bus leaves that out: with it the
    # sum exceeds 0.3 s, and half of the refusals told too long a delay.
    heard_s = on.age_s + (KNOWN_LAGS - 1.0) * on.lag_s + on.settings.tick_s
    heard_s += on.heed_s if on.heed_s <= HEED_AT_MOST_S else 0.0
    room = room_of(block, slots)
    # Not a lower level, from which delays are told: others may well leave the request.
    yielded = block.yielded[slots]
    need = chosen(block.may_owe[slots], 0.0, cost)
    mine = block.belief[slots] - aside - need - yielded
    room = chosen(yielded > 0.0, lesser(room, mine), room)
    paying = chosen(block.unseen[slots] > 0.0, block.paying[slots], 0.0)
    # A bucket that nobody else shares is exact, and knows its own level best, unless
    # groups inside it are charged here only.
    knows = alone & block.bucket_knows[slots] & ~is_parent(block, slots)
    asked = (block.reported_demand[slots] > 0.0) | (block.demand[0, slots] > 0.0)
    new = Ceilings(
        shared=rate == rate,
        share=share,
        ceiling=sustained,
        level=chosen(knows, nan, block.belief[slots] - aside),
        rate=rate - total(extrapolated_rate[1:]),
        capacity=burst - aside,
        room=room,
        window=window,
        expected_rate=greater(expected, paying),
        room_cap=chosen(paying > 0.0, greater(room, window), inf),
        # The first request that the others don't know of may pass anyway.
        cautious=~(alone | asked),
        # A debt that is only guessed tells nothing, but the answers will.
        quota=chosen(guessed, inf, rate),
        least_delay_s=chosen(guessed, on.answer_s, chosen(alone, 0.0, heard_s)),
        reserve=reserve,
    )
    block.bucket_knows[slots] = True
    block.left_told[slots] = block.left_above[slots]
    new = hold_inside(block, slots, new, on)
    if on.cut_off or not on.quorate:
        new = _cut_off(block, slots, new, most, on)
    if some(block.strict[slots]):
        new = _strictly(block, slots, most, new)
    new = _unlimited(block, slots, new)
    if isinstance(slots, int):  # see `single`
        numbers = (getattr(new, name) for name in Ceilings.__slots__)
        return Ceilings(*(np.array([number]) for number in numbers))
    return new


def _cut_off(
    block: LedgerBlock, slots: Index, new: Ceilings, most: Floats, on: Conditions
) -> Ceilings:
    """Hold this agent to what the others reserve for it, as a bucket of its own."""
    own: Flags = (most == 0.0) | on.cut_off
    reserve = lesser(new.reserve, most)
    quota = greater(block.rate[slots], 1e-200)
    part = lesser(chosen(reserve == inf, 1.0, reserve / quota), 1.0)
    capacity = part * block.burst[slots]
    return changed(
        new, own, shared=False, rate=reserve, capacity=capacity, ceiling=reserve
    )


def _strictly(
    block: LedgerBlock, slots: Index, most: Floats, new: Ceilings
) -> Ceilings:
    """Replace shares by permits, for strict groups."""
    strict, rate = block.strict[slots], block.rate[slots]
    right = block.right[slots]
    # Permits know nothing about a parent that has less to give, nor about children that
    # take a part of the group, so those limits apply as well.
    within = chosen(is_inside(block, slots), new.ceiling, inf)
    ceiling = lesser(lesser(right * rate, most), within)
    # Callers must have permits of strict groups above, too; others know of no spending
    # but by reports.  A balanced group in its place may admit one request beyond its
    # room.
    least = REQUESTS_INSIDE * block.cost[0, slots]
    room = chosen(block.shared_above[slots], greater(new.room_cap, least), inf)
    capacity = lesser(right * block.burst[slots], room)
    new = changed(new, strict, shared=False, share=right * rate, ceiling=ceiling)
    return changed(new, strict, rate=ceiling, capacity=capacity, reserve=0.0)


def _unlimited(block: LedgerBlock, slots: Index, new: Ceilings) -> Ceilings:
    unlimited = block.unlimited[slots] | (
        (new.rate == inf) & np.logical_not(new.shared)
    )
    if not some(unlimited):
        return new
    everything = dict.fromkeys(("share", "ceiling", "rate", "capacity", "reserve"), inf)
    return changed(new, unlimited, shared=False, **everything)
