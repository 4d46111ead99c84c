"""From a ledger's level to shares, ceilings and capacities.

**Feedback.**  The rate to share out until the next look is

    Q' = max(0, Q + (E − m)/H)        H = max(1 s, 4·lag)

so a surplus or debt is worked off over H.  The loop sees what it did after the
lag; a first-order loop with delay is without overshoot up to lag/H = 1/e and rings
beyond; 4·lag keeps it at ¼.  H does not follow T: dead reckoning makes the ages of
rows irrelevant while demand is steady (at T = 5 s, H = T gave 0.970 on a travelling
wave, H = 1 s 1.000).

**The margin** m = min(B/2, 5·√(cost·Q·(lag + T/(1−loss)²))) is what Poisson
arrivals may admit unseen: the level is steered to m, not to 0, so that chance does
not push the true level below zero.  It costs nothing in the long run: m is filled
once.

**Allocation and ceiling are two things.**  An agent whose ceiling were its mean
demand would be refused a quarter of its Poisson arrivals.  So θ is found from
expected use, and below θ the ceiling exceeds demand by its own noise,
min(w·θ, λ + √(2·λ·cost)), and by that of its estimate while this is young, plus a part
of the slack that does not depend on how many agents there are (σ = ½): whoever starts
first may use it, and the ledger takes back what was too much.  Headroom *inside* θ
would cost a small burst 3 %.

**Small quotas** (B or Q·T below one cost per agent): a token for each agent would
be more than there is, so nobody holds tokens: each request is admitted with chance
ceiling/λ while E covers it, and each admission is told at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import (
    level_of,
    shares_at,
    shares_of,
    wanted_by,
)
from headgate.coordinator.allocation.reserves import alone_of
from headgate.coordinator.ledger.arithmetic import Ops, many, ops_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.table.arrays import Index, Shelf

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

MARGIN_SIGMAS = 5.0
"""At one sigma flashes overshoot 0.03 s of quota; at five none did."""

MARGIN_BURST = 0.5
"""The margin takes at most half of the burst."""

LAGS_PER_HORIZON = 4.0
"""H ≥ 4·lag: see above."""

LOCAL_BURST = 0.25
"""A local bucket holds at most this part of the time in which B is refilled."""

FLOOR_PART = 0.1
"""Of Q/n: what a newcomer may spend before it has heard a round."""

FEWEST_AT_FIRST = 10
"""Agents assumed by a newcomer, which can't know how many start with it: fifty
that start at once spend half of Q for the one round, not five times Q."""


TRICKLE_PART = 0.01
"""Of Q/n: the least ceiling while the ledger is in debt, so that a caller who is
refused is told a finite delay.  All agents together spend 1 % of Q by it."""

LEAST_CAPACITY = 0.01
"""Of one cost: the least that a bucket with tokens holds; none at all would mean
admission by chance."""


FULL_PART = 0.9
"""Of the burst: a ledger this full admits a request whose cost it can never hold, as
one bucket that may owe does."""

HIGH = 1e300
"""In place of an infinite θ where it is multiplied by a weight that may be 0."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds for all ledgers at one look.

    Attributes:
        now: Monotonic seconds.
        lag_s: Of the bus.
        unseen_s: Age that the margin covers: lag + T/(1−loss)².
        mute: This agent does not hear its own reports.
        adrift: For so long that the others have dropped it.
        quorate: It hears most of the cluster.
    """

    now: float
    lag_s: float
    unseen_s: float
    mute: bool
    adrift: bool = False
    quorate: bool = True


def share_out(shelf: Shelf, slots: Index, on: Conditions, settings: Settings) -> Flags:
    """Compute Q', θ and all shares of settled ledgers.

    Args:
        shelf: Changed: `available`, `theta`, `slack`, `burn`, `margin`, `small`.
        slots: K of its slots.
        on: Lag and ages.
        settings: Parameters.

    Returns:
        ``bool[K]``, of one ledger a flag: whether an agent wants anything there.
    """
    at, ops = ops_of(slots)
    rate, burst = shelf.rate[at], shelf.burst[at]
    lines = shelf.lines(slots)
    weight = shelf.weight[lines, at]
    agents = ops.count(weight)
    cost = shelf.cost[at]
    margin = margin_of(rate, burst, cost, on, ops)
    horizon = max(settings.horizon_s, LAGS_PER_HORIZON * on.lag_s)
    available = rate + (shelf.belief[at] - margin) / horizon
    available = ops.where(shelf.strict[at], rate, available)
    available = ops.minimum(available, shelf.part[at]) - shelf.reserved[at]
    available = ops.where(rate > 0.0, ops.maximum(available, 0.0), 0.0)

    told = shelf.demand[lines, at]
    # Before it is capped: a cap of 0 is no rest.
    asked: Flags = np.logical_or.reduce(told, axis=0)
    demand = np.minimum(told, shelf.demand_cap[at])
    # The others know this agent's demand as it told them: with the newest in its
    # place no two agents would predict the same.
    own_demand = demand[0].copy()
    demand[0] = ops.minimum(shelf.told_demand[at], shelf.demand_cap[at])
    wanted = wanted_by(demand, weight)
    theta = level_of(wanted, weight, available)
    share = shares_of(theta, wanted, weight)
    rest = available - np.add.reduce(share, axis=0)
    slack = ops.where(theta == inf, rest, 0.0)
    shelf.small[at] = ops.minimum(rate * settings.interval_s, burst) < agents * cost
    shelf.agents[at] = agents
    shelf.margin[at] = margin
    shelf.horizon[at] = horizon
    shelf.available[at] = available
    shelf.theta[at] = theta
    shelf.slack[at] = slack
    expected = share
    joining = shelf.joining_until[at] > on.now
    if ops.any(joining):
        # Either all are new and spend the floor, or the others will tell the level.
        # Were they charged a share meanwhile, E would be clamped at B as if that had
        # been spent, and what was not would be credit for ever (see decision 4).
        expected = np.where(
            joining, np.minimum(share, floor_of(rate, agents, ops)), share
        )
    # A silent member goes on at its reserve, not at a share.
    present = weight > 0.0
    if np.count_nonzero(present) < present.size:
        expected = np.where(present, expected, shelf.burn[lines, at])
    shelf.burn[lines, at] = expected
    most = weight[0] * ops.minimum(theta, HIGH)
    shelf.share[at] = ops.minimum(own_demand, most)
    return asked


def floor_of(rate: Floats, agents: Floats, ops: Ops = many) -> Floats:
    """Return what may be spent while a level is asked for, ``float64[K]`` units/s."""
    floor: Floats = FLOOR_PART * rate / ops.maximum(agents, FEWEST_AT_FIRST)
    return floor


def margin_of(
    rate: Floats, burst: Floats, cost: Floats, on: Conditions, ops: Ops = many
) -> Floats:
    """Return m, ``float64[K]``."""
    margin: Floats = MARGIN_SIGMAS * ops.sqrt(cost * rate * on.unseen_s)
    return ops.minimum(margin, MARGIN_BURST * burst)


@dataclass(frozen=True, slots=True, eq=False)
class Ceilings:
    """What this agent's buckets may do: columns of equal length K.

    Attributes:
        ceiling: units/s.
        capacity: units.
        probability: of a request where no tokens are held.
        share: units/s.
        reserve: units/s after the deadline.
    """

    ceiling: Floats
    capacity: Floats
    probability: Floats
    share: Floats
    reserve: Floats


def own_ceilings(
    shelf: Shelf, slots: Index, on: Conditions, settings: Settings
) -> Ceilings:
    """Return the ceilings of this agent in ledgers just shared out."""
    at, ops = ops_of(slots)
    rate, burst = shelf.rate[at], shelf.burst[at]
    cost, theta = shelf.cost[at], shelf.theta[at]
    demand = ops.minimum(shelf.demand[0, at], shelf.demand_cap[at])
    weight = shelf.weight[0, at]
    share, belief = shelf.share[at], shelf.belief[at]
    agents = shelf.agents[at]
    parent = shelf.direct[at] == shelf.direct[at]  # not NaN
    if ops.any(parent):
        # What the group's own callers want of it: the children have their part.
        demand = ops.where(parent, shelf.direct[at], demand)
        theta = ops.where(parent, shelf.direct_theta[at], theta)
        most = weight * ops.minimum(theta, HIGH)
        share = ops.where(parent, ops.minimum(demand, most), share)

    ceiling = _ceiling(
        demand,
        weight * ops.minimum(theta, HIGH),
        cost,
        shelf.slack[at] * ops.maximum(1.0 / agents, settings.slack_part),
        ops,
        room=shelf.room[at],
    )
    ceiling = ops.maximum(ceiling, TRICKLE_PART * rate / agents)
    reserve, most = alone_of(shelf, at, ops, quorate=on.quorate, adrift=on.adrift)
    ceiling = ops.minimum(ceiling, most)
    if on.mute:
        ceiling = ops.minimum(ceiling, reserve)
        ceiling = ops.where(reserve == inf, inf, ceiling)
    joining = shelf.joining_until[at] > on.now
    if ops.any(joining):
        ceiling = ops.where(
            joining, ops.minimum(ceiling, floor_of(rate, agents, ops)), ceiling
        )

    seconds = ops.minimum(
        LOCAL_BURST * burst / ops.maximum(rate, 1e-9), settings.local_s
    )
    spare = ops.maximum(belief, 0.0) / agents
    capacity = ops.maximum(
        ceiling * seconds, ops.minimum(ops.sqrt(0.5 * share * cost), spare)
    )
    capacity = ops.where(rate > 0.0, ops.maximum(capacity, LEAST_CAPACITY * cost), 0.0)
    probability = ops.where(rate >= 0.0, 1.0, 0.0)
    small = shelf.small[at]
    if ops.any(small):
        chance = ops.minimum(ceiling / ops.maximum(demand, 1e-9), 1.0)
        chance = ops.where(belief >= ops.minimum(cost, FULL_PART * burst), chance, 0.0)
        probability = ops.where(small, chance, probability)
        capacity = ops.where(small, 0.0, capacity)
    new = Ceilings(ceiling, capacity, probability, share, reserve)
    if ops.any(shelf.strict[at]):
        new = _strictly(shelf, at, most, new, ops)
    return _columns(_unlimited(shelf, at, new, ops))


def _columns(new: Ceilings) -> Ceilings:
    """Return columns, of length 1 where there were numbers."""
    if np.ndim(new.ceiling):
        return new
    numbers = (new.ceiling, new.capacity, new.probability, new.share, new.reserve)
    return Ceilings(*np.array(numbers, dtype=np.float64).reshape(5, 1))


def _strictly(
    shelf: Shelf, at: Index, most: Floats, new: Ceilings, ops: Ops
) -> Ceilings:
    """Put rights in the place of shares, where groups are strict."""
    strict, rate, right = shelf.strict[at], shelf.rate[at], shelf.right[at]
    # Rights say nothing of a parent that has less to give, nor of children that take
    # a part: then that rules, too.
    bound = (shelf.part[at] < rate) | (shelf.direct[at] == shelf.direct[at])
    within = ops.where(bound, new.ceiling, inf)
    ceiling = ops.minimum(ops.minimum(right * rate, most), within)
    return Ceilings(
        ops.where(strict, ceiling, new.ceiling),
        ops.where(strict, right * shelf.burst[at], new.capacity),
        ops.where(strict, 1.0, new.probability),
        ops.where(strict, right * rate, new.share),
        ops.where(strict, 0.0, new.reserve),
    )


def _unlimited(shelf: Shelf, at: Index, new: Ceilings, ops: Ops) -> Ceilings:
    unlimited = shelf.unlimited[at] | (new.ceiling == inf)
    if not ops.any(unlimited):
        return new
    return Ceilings(
        ops.where(unlimited, inf, new.ceiling),
        ops.where(unlimited, inf, new.capacity),
        ops.where(unlimited, 1.0, new.probability),
        ops.where(unlimited, inf, new.share),
        ops.where(unlimited, inf, new.reserve),
    )


def _ceiling(
    demand: Floats,
    most: Floats,
    cost: Floats,
    slack: Floats,
    ops: Ops = many,
    *,
    room: Floats | float = 0.0,
) -> Floats:
    noisy: Floats = demand + ops.sqrt(2.0 * demand * cost) + room
    return ops.minimum(most, noisy) + slack


def allocated_of(shelf: Shelf, slot: int) -> Floats:
    """Return the shares, ``float64[A]``, as told demands give them.

    Of a silent member its reserve.  Not always what it is expected to spend:
    whoever still asks for the level spends a floor.
    """
    weight = shelf.weight[:, slot]
    demand = shelf.demand[:, slot].copy()
    demand[0] = shelf.told_demand[slot]
    demand = np.minimum(demand, shelf.demand_cap[slot])
    share = shares_at(shelf.theta[slot : slot + 1], demand, weight)
    return np.where(weight > 0.0, share, shelf.burn[:, slot])


def ceilings_of(shelf: Shelf, slot: int, settings: Settings) -> Floats:
    """Return the ceilings, ``float64[A]``, that all agents of a ledger compute."""
    weight = shelf.weight[:, slot]
    agents = max(int(np.count_nonzero(weight)), 1)
    slack = shelf.slack[slot] * max(1.0 / agents, settings.slack_part)
    most = weight * min(float(shelf.theta[slot]), HIGH)
    demand = np.minimum(shelf.demand[:, slot], shelf.demand_cap[slot])
    ceiling = _ceiling(demand, most, shelf.cost[slot], slack)
    return np.where(weight > 0.0, ceiling, shelf.burn[:, slot])
