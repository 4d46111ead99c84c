"""Groups inside others: what this agent's callers may have of what is left above.

A group's own level says nothing about what its parent has left, so the bucket of a
group inside another one is held to this agent's part of the parent's rate, and to what
is left to this agent in the groups above.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, Any

from headgate.coordinator.allocation.conditions import ROUNDING
from headgate.coordinator.allocation.max_min import FINITE
from headgate.coordinator.allocation.window import room_of
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    root,
    some,
    total,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Conditions
    from headgate.coordinator.messages.events import Ceilings
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock

PARENT_S = 0.1
"""Seconds of its ceiling that an agent may hold for a group inside another one, whose
limit is the parent's rate rather than the group's own level."""

PARENT_LEAVES_S = 0.2
"""Longest delay for a group inside another one that owes nothing, seconds: then it is
known who else wants something."""

LATE_S = 0.1
"""Seconds of the rate that are no surplus: as much is spent by the others while their
reports are late.  Without it, own callers that are due a fifth of 100/s got a
quarter."""

BURST_PARTS = 2.0
"""A surplus above may be spent at once if this agent's part of it exceeds so many times
what a bucket may hold by its rate.  Below that, reports that are late look like one,
and an agent that is due a fifth got a quarter."""

OVERDRAWN_S = 0.2
"""Seconds of an even part of its rate, or of what it is due there if that is more, by
which an agent may overdraw a group with others inside: callers there go by rates.  With
a tenth of a second, `tree`'s worst agent gets 0.96 of its part instead of 0.98."""


IDLE_PART = 0.5
"""Part of a strict group's burst that counts as idle at most, if a request in each
agent is no more."""

IDLE_S = 1.0
"""Seconds of a strict group's rate whose permits lie idle in other agents, or are on
their way.  With none, one group that asked for eight times as much as another took most
of what both were due half of."""


def is_parent(block: LedgerBlock, slots: Index) -> Flags:
    """Return which groups have children that take a part of them."""
    own_callers = block.own_callers[slots]
    parent: Flags = own_callers == own_callers  # not NaN
    return parent


def is_inside(block: LedgerBlock, slots: Index) -> Flags:
    """Return which groups have a parent, or children that take a part of them."""
    return is_parent(block, slots) | (block.parent_cap[slots] < inf)


def left_inside(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return ``float64[K]`` units that are left to this agent in groups with children.

    Of the level, and of this agent's part of it, for their own callers and those of the
    groups inside them.  Below 0 it is what all these have overdrawn beyond
    `OVERDRAWN_S`.
    """
    spare = lesser(
        room_of(block, slots), block.belief[slots] - block.aside_in_all[slots]
    )
    even = block.rate[slots] / block.agents[slots]
    usual = OVERDRAWN_S * greater(even, block.due_inside[slots])
    return greater(spare, 0.0) + lesser(spare + usual, 0.0)


def surplus_of(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return ``float64[K]`` units of a level beyond what all may spend unseen.

    What the others expect this agent to have spent already counts as spent.
    """
    holds = block.belief[slots] - block.aside_in_all[slots]
    holds = holds + lesser(block.unheeded[slots], 0.0)
    kept = block.margin[slots] + LATE_S * block.rate[slots]
    spare = greater(holds - kept, 0.0)
    return chosen(block.strict[slots], surplus_held(block, slots, holds, kept), spare)


def surplus_held(
    block: LedgerBlock, slots: Index | int, level: Floats, kept: Floats | float = 0.0
) -> Floats:
    """Return ``float64[K]`` units of a strict group's `level` that permits cover.

    Of what all present agents hold, more than what lies idle, or is `kept`.  Given
    parts that permits don't cover, whoever asks first would take what others are due.
    """
    lines = block.lines(slots)
    present = block.weight[lines, slots] > 0.0
    held = total(chosen(present, greater(block.held[lines, slots], 0.0), 0.0))
    kept = greater(kept, idle_of(block, slots))
    return greater(lesser(level, held) - kept, 0.0)


def idle_of(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return ``float64[K]`` units of a strict group's permits that nobody can use."""
    burst, agents = block.burst[slots], block.agents[slots]
    requests = agents * block.cost[0, slots]
    elsewhere = lesser(IDLE_S * block.rate[slots], IDLE_PART * burst)
    elsewhere = elsewhere * (1.0 - 1.0 / agents)
    return lesser(greater(requests, elsewhere), burst)


def hold_inside(
    block: LedgerBlock, slots: Index, new: Ceilings, on: Conditions
) -> Ceilings:
    """Hold groups inside others to their part of the parent's rate.

    Their room is a bucket that fills at this agent's part of the parent's rate, up to
    its part of what is left to this agent above, and that reports don't empty, unless
    that was overdrawn.  A large surplus above is put into it at once.
    """
    inside = is_inside(block, slots)
    if not some(inside):
        return new
    parent = is_parent(block, slots)
    rate, cost = block.rate[slots], block.cost[0, slots]
    theta = block.theta[slots]
    demand = lesser(block.demand[0, slots], block.demand_cap[slots])
    # What the group's own callers may use; its children have their own part.
    demand = chosen(parent, block.own_callers[slots], demand)
    theta = chosen(parent, block.own_callers_theta[slots], theta)
    # All that the others know of may fit, but they may want as much more as this agent.
    even = block.weight[0, slots] / greater(block.present_weight[slots], 1e-200)
    known = greater(block.known_demand[slots], even * block.available[slots])
    demand = lesser(demand, known)
    most = block.weight[0, slots] * lesser(theta, FINITE)
    noisy = demand + root(2.0 * demand * cost)
    part = greater(1.0 / block.agents[slots], on.settings.slack_part)
    # While it isn't known who else uses the group, the others may start, too.
    joining = block.joining_until[slots] > on.now
    part = chosen(joining, 1.0 / greater(block.agents[slots], on.present), part)
    ceiling = lesser(most, noisy) + block.slack[slots] * part
    share = lesser(demand, most)
    refill_s = block.burst[slots] / greater(rate, 1e-200)
    bucket_s = lesser(0.25 * refill_s, PARENT_S)
    by_rate, noise = ceiling * bucket_s, root(0.5 * share * cost)
    room = greater(by_rate, noise)
    left = chosen(parent, block.left_own[slots], block.left_above[slots])
    may_hold = chosen(left < inf, lesser(left, new.room), 0.0)
    # A surplus may be spent at once; without one the bucket knows its room best.
    surplus = lesser(block.surplus_left[slots], may_hold)
    burst = surplus > greater(BURST_PARTS * by_rate, noise)
    at_once = chosen(burst, surplus, nan)
    room = greater(room, may_hold)
    overdrawn = greater(-left, 0.0)
    # Debts of the groups above lower the ceiling, so a large request would be paid for
    # twice: there, and here.
    part_above = block.part_above[slots]
    steady = block.fair_part[slots] * lesser(part_above, FINITE)
    large = (cost > PARENT_S * steady) & (part_above < inf)
    refill = chosen(large, greater(ceiling, steady), ceiling)
    # Once nothing is owed above, others may leave their parts as soon as this is known.
    wait_s = lesser(cost / greater(ceiling, 1e-200), PARENT_LEAVES_S)
    wait_s = wait_s + block.wait_above_s[slots]
    # Nothing passes then, but once it may, a child with a small ceiling goes on soon.
    closed = -lesser(overdrawn, PARENT_S * ceiling + ROUNDING)
    return changed(
        new,
        inside,
        share=share,
        ceiling=ceiling,
        room=at_once,
        window=room,
        expected_rate=refill,
        room_cap=chosen(overdrawn > 0.0, closed, room),
        cautious=False,
        least_delay_s=greater(new.least_delay_s, wait_s),
    )


def changed(new: Ceilings, where: Flags, **columns: Floats | float | bool) -> Ceilings:
    """Return the same ceilings with other `columns` where a flag is set."""
    merged: dict[str, Any] = {
        name: chosen(where, column, getattr(new, name))
        for name, column in columns.items()
    }
    return replace(new, **merged)
