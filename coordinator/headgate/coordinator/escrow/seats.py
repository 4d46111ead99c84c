"""Who owns the permits of a strict limit that are too few for all: they take turns.

A request passes where enough permits lie for it, and a burst of a few requests holds
only a few such *seats*.  If those with most demand kept them, the others would never
admit anything.  So whoever has had its turn gives its seat to the next by id, and the
tokens go along.  Only the owner of permits can give them, so agents that see different
things at worst give in vain, and what is on its way earns nothing
(docs/decisions/0080-permits-that-are-too-few-take-turns.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.conditions import ROUNDING
from headgate.coordinator.messages.report import PERMITS

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Flags, Ints, LedgerBlock

TURN_TRANSFERS = 8.0
"""Shortest turn in which a request was admitted, in times that permits take from one
agent to another: on their way they earn nothing."""

IDLE_TRANSFERS = 2.0
"""Shortest turn without a request."""

IDLE_REQUESTS = 3.0
"""If so many requests would have come by now, nobody is waiting here: e^−3 is 5 %."""


@dataclass(slots=True)
class Seat:
    """An agent's turn to own enough permits for a request.

    Attributes:
        since: When it began, monotonic seconds; infinite while there is none.
        served: A request was admitted since then.
        ready_since: Since when the bucket has held a request; infinite if it does not.
    """

    since: float = inf
    served: bool = False
    ready_since: float = inf
    _counted: float = 0.0

    def look(self, counted: float, now: float, *, ready: bool) -> None:
        """Note what the own bucket has admitted, and whether it holds a request.

        Args:
            counted: Units that the bucket has admitted.
            now: Monotonic seconds.
            ready: A request would be admitted.
        """
        if self.since == inf:
            self.since, self._counted = now, counted
        self.served = counted > self._counted
        self.ready_since = min(self.ready_since, now) if ready else inf

    def over(
        self,
        block: LedgerBlock,
        slot: int,
        waiting: Ints,
        transfer_s: float,
        now: float,
    ) -> bool:
        """Return whether others may have the permits now.

        That is so after a request, or when one could have come for long enough: as long
        as the bucket takes to refill, or less if another agent asks for more than this
        one, or if it is plain that nobody waits here.

        Args:
            block: The ledger's block.
            slot: The ledger's column.
            waiting: Lines of the agents without a seat.
            transfer_s: How long permits take from one agent to another.
            now: Monotonic seconds.
        """
        if self.served and now >= self.since + TURN_TRANSFERS * transfer_s:
            return True
        wanted = block.demand[:, slot] / np.maximum(block.weight[:, slot], 1e-200)
        most, own = wanted[waiting].max(initial=0.0), max(wanted.item(0), 1e-200)
        idle_s = block.burst.item(slot) / max(block.rate.item(slot), 1e-200)
        idle_s *= min(1.0, own / max(most, 1e-200))
        cost = block.cost.item(0, slot)
        likely_s = IDLE_REQUESTS * cost / max(block.demand.item(0, slot), 1e-200)
        idle_s = max(min(idle_s, likely_s), IDLE_TRANSFERS * transfer_s)
        return bool(now >= self.ready_since + idle_s)


def asking(block: LedgerBlock, slot: int, lines: Ints) -> Flags:
    """Return whose callers ask for what a full bucket could admit, ``bool[K]``.

    With requests larger than the burst, a turn would never be over: no request passes,
    and none could have come.

    Args:
        block: The ledger's block.
        slot: The ledger's column.
        lines: ``int64[K]`` lines of the agents.
    """
    passes = block.cost[lines, slot] <= block.burst.item(slot) * (1.0 + ROUNDING)
    asks: Flags = (block.demand[lines, slot] > 0.0) & passes
    return asks


def fewest(block: LedgerBlock, slot: int, lines: Ints) -> Ints:
    """Return how many permits hold one request of each agent, ``int64[K]``.

    With fewer, an agent admits nothing at all.  What a request of an agent that asks
    for nothing would cost, nobody knows, so it is taken to be as large as any other.

    Args:
        block: The ledger's block.
        slot: The ledger's column.
        lines: ``int64[K]`` lines of the agents.
    """
    cost, asks = block.cost[lines, slot], asking(block, slot, lines)
    cost = np.where(asks, cost, cost.max(where=asks, initial=cost.min()))
    held = np.maximum(block.burst.item(slot), cost)
    least: Ints = np.ceil(PERMITS * cost / held).astype(np.int64)
    return least


def seated(
    asks: Flags, owns: Ints, least: Ints, left: int, mine: int, *, over: bool
) -> Flags:
    """Return who may own permits, ``bool[K]``.

    Who asks for something comes before who doesn't, then who has a seat, then who owns
    most of one (by id, if two own as much), then the next after this agent.  One at
    least may own some.

    Args:
        asks: ``bool[K]`` whose callers ask for something, by id.
        owns: ``int64[K]`` permits of each.
        least: ``int64[K]`` fewest permits with which each can admit a request.
        left: Most permits for all those together that ask for nothing.
        mine: The place of this agent.
        over: This agent's turn is over.

    >>> asks, least = np.array([True, True, False, True]), np.full(4, 400)
    >>> seated(asks, np.array([424, 600, 0, 0]), least, 51, 1, over=False)
    array([ True,  True, False, False])
    >>> seated(asks, np.array([424, 600, 0, 0]), least, 51, 1, over=True)
    array([ True, False, False,  True])
    """
    permits, owns = int(owns.sum()), owns.copy()
    if over:
        owns[mine] = 0
    places = np.arange(len(owns))
    # If two own as much, both must find the same, or each would give to the other.
    after = np.where(owns > 0, places, (places - mine - 1) % len(owns))
    order = np.lexsort((after, -owns, owns < least, ~asks))
    sits = np.zeros(len(owns), dtype=np.bool_)
    sits[order] = least[order].cumsum() <= max(permits, least[order[0]])
    if asks.any():
        idle = order[~asks[order]]
        sits[idle] &= least[idle].cumsum() <= left
    return sits
