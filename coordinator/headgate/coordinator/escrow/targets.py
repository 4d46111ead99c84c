"""How many permits of a strict limit each agent should own.

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
from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.demand.estimator import LONGEST_TAU_S
from headgate.coordinator.messages.report import PERMITS

if TYPE_CHECKING:
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.table.arrays import Flags, Floats, Ints, LedgerBlock

TURN_TRANSFERS = 8.0
"""Shortest turn in which a request was admitted, in times that permits take from one
agent to another: on their way they earn nothing."""

IDLE_TRANSFERS = 2.0
"""Shortest turn without a request."""

IDLE_REQUESTS = 3.0
"""If so many requests would have come by now, nobody is waiting here: e^−3 is 5 %."""

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

TINY = 1e-12
"""Keeps a rate, a demand or a weight above 0."""


class Asks:
    """What the agents that can own permits of one limit ask for, by id.

    Attributes:
        rate: Units per second of the limit.
        burst: Units.
        wanted: ``float64[K]`` units per second.
        demand: ``float64[K]`` the same, as far as it counts.
        cost: ``float64[K]`` units of one request.
        weight: ``float64[K]``
        asks: ``bool[K]`` who asks for something that can pass: a request above the
            burst never could, so its turn would never end.
        least: ``int64[K]`` fewest permits that hold one request.  What a request of an
            agent that asks for nothing would cost, nobody knows, so it is taken to be
            as large as any other.
    """

    def __init__(self, block: LedgerBlock, slot: int, lines: Ints) -> None:
        self.rate = max(block.rate.item(slot), TINY)
        self.burst = block.burst.item(slot)
        self.wanted = block.demand[lines, slot]
        self.demand = np.minimum(self.wanted, block.demand_cap[slot])
        self.weight = block.weight[lines, slot]
        self.cost = cost = block.cost[lines, slot]
        self._inside = block.inside[lines, slot]
        passes = cost <= self.burst * (1.0 + ROUNDING)
        self.asks: Flags = (self.wanted > 0.0) & passes
        cost = np.where(self.asks, cost, cost.max(where=self.asks, initial=cost.min()))
        held = np.maximum(self.burst, cost)
        self.least: Ints = np.ceil(PERMITS * cost / held).astype(np.int64)

    def spare(self, permits: int) -> int:
        """Return how many of so many permits are left for those that ask for nothing.

        An agent that starts should find something, but not at the price of requests
        that another one's part of the burst would have admitted: a bucket of C tokens
        at a load of ρ refuses about e^(−2·(1−ρ)·C/cost).  So whoever wants more than
        its even part of the rate (`SHORT_PARTS`) keeps its part of the burst and
        `ROOM_REQUESTS`.
        """
        even = self.rate * self.weight / max(float(self.weight.sum()), TINY)
        wanted = PERMITS * self.demand / self.rate + ROOM_REQUESTS * self.least
        wanted = np.where(self.demand > SHORT_PARTS * even, wanted, 0.0)
        left = permits - np.sum(np.maximum(wanted, self.least), where=self.asks)
        return int(max(left, SPARE_PART * permits))

    def targets(self, sits: Flags, permits: int) -> Ints:
        """Return how many of all their permits each should own, ``int64[K]``.

        Only who sits, ``bool[K]``, gets any.  They are worth the max-min shares of what
        all agents own together, not of Q': no level is needed, because permits alone
        keep the bound.

        **Room.**  An agent's part of the burst absorbs the noise of arrivals: a bucket
        of C tokens at a load of 1 refuses about λ·cost/(2·C).  So while rate is scarce
        no agent gets more than λ·cost/C on top of its demand, and never more than a
        twentieth of it.  Any surplus raises that to √(2·λ·cost), two sigma of the
        arrivals in half a second, and the rest is divided evenly, so that an agent that
        starts has something at once.
        """
        rate, demand, cost = self.rate * permits / PERMITS, self.demand, self.cost
        weight = self.weight
        if self._inside.any():
            # Those that own permits for groups inside share them by their use there.
            weight = np.where(self._inside > 0.0, self._inside, 1.0)
        weight = np.where(sits, weight, 0.0)
        held = max_min(demand, weight, rate) / self.rate * self.burst
        room = np.minimum(ROOM_PART, cost / np.maximum(held, cost))
        most = np.sqrt(2.0 * demand * cost)
        enough = np.minimum(most, demand * room)
        base = np.where(sits, self.least / PERMITS * self.rate, 0.0)
        beyond = np.maximum(demand + enough - base, 0.0)
        share = base + max_min(beyond, weight, max(0.0, rate - float(base.sum())))
        left = max(0.0, rate - float(share.sum()))
        more = np.where(sits, np.maximum(demand + most - share, 0.0), 0.0)
        more *= min(1.0, left / max(float(more.sum()), TINY))
        left = max(0.0, left - float(more.sum()))
        share += more + left * weight / max(float(weight.sum()), TINY)
        wanted = np.rint(share / self.rate * PERMITS)
        return np.where(sits, np.maximum(wanted, self.least), 0.0).astype(np.int64)


def seated(
    asks: Flags, owns: Ints, least: Ints, left: int, mine: int, *, over: bool
) -> Flags:
    """Return who may own permits, ``bool[K]``.

    Who asks for something comes before who doesn't, then who has a seat, then who owns
    most of one (by id, if two own as much), then the next after this agent.  One at
    least may own some.

    Args:
        asks: ``bool[K]`` as in `Asks`.
        owns: ``int64[K]`` permits of each.
        least: ``int64[K]`` as in `Asks`.
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


@dataclass(slots=True)
class Seat:
    """An agent's turn to own enough permits for a request.

    Attributes:
        since: When it began, monotonic seconds; infinite while there is none.
        counted: Units that the bucket had admitted then.
        ready_since: Since when the bucket has held a request; infinite if it does not.
        crowded_since: Since when those that ask have lacked what is kept for others.
    """

    since: float = inf
    counted: float = 0.0
    ready_since: float = inf
    crowded_since: float = inf

    def end(self) -> None:
        """Have no turn, because permits suffice, or because others have them."""
        self.since = self.ready_since = inf

    def is_over(
        self,
        idle_s: float,
        transfer_s: float,
        counted: float,
        now: float,
        *,
        ready: bool,
    ) -> bool:
        """Return whether others may have the permits now.

        That is so after a request, which `counted`, the units that the bucket has
        admitted, shows; or when it has been ready for one for `idle_s`.  Permits take
        `transfer_s` from one agent to another.
        """
        if self.since == inf:
            self.since, self.counted = now, counted
        self.ready_since = min(self.ready_since, now) if ready else inf
        served = counted > self.counted
        if served and now >= self.since + TURN_TRANSFERS * transfer_s:
            return True
        return now >= self.ready_since + max(idle_s, IDLE_TRANSFERS * transfer_s)

    def crowded(self, now: float, *, short: bool) -> bool:
        """Return whether those that ask have been short for as long as demand counts.

        A few requests by chance are over sooner.
        """
        self.crowded_since = min(self.crowded_since, now) if short else inf
        return now - self.crowded_since >= LONGEST_TAU_S


def idle_turn_s(asked: Asks, mine: int, waiting: Flags) -> float:
    """Return how long a turn lasts in which no request comes.

    As long as the bucket takes to refill; less if one of those that wait, ``bool[K]``,
    asks for more than this agent, or if it is plain that nobody waits here.
    """
    wanted = asked.wanted / np.maximum(asked.weight, TINY)
    most, own = wanted.max(where=waiting, initial=TINY), max(wanted.item(mine), TINY)
    refill_s = asked.burst / asked.rate * min(1.0, own / most)
    demand = max(asked.wanted.item(mine), TINY)
    return float(min(refill_s, IDLE_REQUESTS * asked.cost.item(mine) / demand))


def gifts(surplus: int, lacking: Ints) -> Ints:
    """Return how many permits to give to each, in proportion to what it lacks.

    ``int64[K]``; who has too many lacks a negative number.  The remainder of each
    proportion carries over to the next one: if each were rounded down, a small surplus
    among many agents would never be given.

    >>> gifts(10, np.array([30, -5, 10]))
    array([7, 0, 3])
    """
    upto = np.maximum(lacking, 0).cumsum()
    whole = int(upto.max(initial=0))
    return np.diff(upto * min(surplus, whole) // max(whole, 1), prepend=0)


def max_min(demand: Floats, weight: Floats, rate: float) -> Floats:
    """Return the max-min shares of a rate or a stock, ``float64[K]``."""
    return shares_at(water_level(demand, weight, rate), demand, weight)


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
