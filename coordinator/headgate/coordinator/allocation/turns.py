"""Turns: what an agent that is ahead leaves to those that ask seldom.

Where requests are few, nothing steers the level to a margin, so a token goes to whoever
asks first: an agent that repeats what was refused would starve one that asks seldom.
An agent's *lead* is what it admitted less its max-min part of what all admitted.  One
that reports each admission, wants more than its part and has a lead leaves as much of
the level to others (docs/decisions/0069-turns-for-large-requests.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.coordinator.allocation.conditions import ROUNDING
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    some,
    total,
    without,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Asked
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock

SILENCE = 12.5
"""If so many requests of others were expected and none came though the level allowed
them, nobody yields to them any more: e^−12.5 is five sigma."""

LEAD_COSTS = 3.0
"""Requests up to which an agent's lead is remembered.  With four, six agents left so
much to each other that they spent a twentieth less in their first ten seconds."""

YIELDED_PART = 0.75
"""What is yielded is at most this part of what a bucket holds beyond one request, or a
small one would overflow."""

YIELDED_S = 0.25
"""For each request by which an agent is ahead it leaves at most the refill of this
time: longer waits cost `kip599` up to 6 % from time 0, and who asks often comes back
within it."""


def take_turns(
    block: LedgerBlock, slots: Index, asked: Asked, age_s: float, *, heavy: Flags
) -> None:
    """Find what an agent with a lead leaves to the others.

    Args:
        block: Changed: `lead`, `awaited_per_s` and `yielded`.
        slots: K of its columns.
        asked: What agents ask for.
        age_s: Δ, after which all charges of a moment are known.
        heavy: ``bool[K]`` this agent wants more than its max-min part.
    """
    cost, rate = asked.cost[0], block.rate[slots]
    most = LEAD_COSTS * cost
    lead = lesser(greater(block.lead[slots], -most), most)
    # Without another agent that asks, there is nobody to be ahead of.
    shared = block.fair_part[slots] < 1.0 - ROUNDING
    block.lead[slots] = lead = chosen(shared, lead, 0.0)
    # Demand that just fits seems to exceed Q now and then: who yields wastes a request.
    lacking = asked.wanted / greater(rate, 1e-200) - 1.0
    ahead = lesser(greater(lead, 0.0) / cost, greater(lacking, 0.0))
    holds = block.burst[slots] - block.aside_in_all[slots]
    most = YIELDED_PART * greater(holds - cost, 0.0)
    yielded = lesser(ahead * lesser(cost, YIELDED_S * rate), most)
    yields = heavy & block.at_once[0, slots]
    awaited: Floats | float = 0.0
    if some(yields):
        # Of the others, those whose requests are seen one by one: what is extrapolated
        # comes as predicted.
        at_once = block.at_once[block.lines(slots), slots]
        awaited = total(without(~at_once, asked.demand / asked.cost)[1:])
        awaited = chosen(yields, awaited, 0.0)
        # What an agent is said to want outlasts its last request by seconds.
        yields &= block.untaken[slots] < SILENCE + awaited * age_s
    block.awaited_per_s[slots] = awaited
    block.yielded[slots] = chosen(yields, yielded, 0.0)
