"""What is divided, what everyone expects of everyone, and what may be spent unseen.

**Spend no more unseen than your part of the common level.**  Every agent replays the
bucket (`headgate.coordinator.ledger.replay`) and computes a level E.  Let V_i be what
agent i admitted beyond what the others already know or expect.  Then C = E + V_i is the
level that all agents have in common, and the rule is

    agent i may let V_i grow up to its part a_i of C, with Σ a_i ≤ C;
    beyond that it may admit one more request, the first, while E ≥ 0.

So the true level can't fall below −(one cost per agent that was active within the age
of information Δ) − (what flows in meanwhile).  This one inequality acts as a local
token bucket if requests are many (V decays at the ρ that the others expect), as a
central bucket if admissions are rare (V returns to 0 soon after each is reported), as a
split of the burst after a rest (a = C/n), and exactly as the central bucket for a
single agent.  `headgate.coordinator.allocation.window` says what a_i is.

**What the others expect**, ρ.  The rate to divide until the next look is

    Q' = max(0, Q + (C − m)/H)      H = clamp(2·B/Q, 8·lag, 1 s), at least 4·lag
    θ:  Σ min(d_j, w_j·θ) = Q'      ρ_j = min(d_j, w_j·θ)

so a surplus or debt is worked off over H; groups inside a strict one share Q and what
its permits hold beyond what lies idle (`surplus_held`).  The loop sees its own effect
one lag later.  A first-order loop with delay does not overshoot up to lag/H = 1/e and
rings beyond; 4·lag keeps it at ¼.  An agent that makes fewer than `AT_ONCE_COSTS`
requests within T', the time for which its row may go unreported, reports each admission
*at once*: silence then means that there was none, and nothing is extrapolated.

**The margin** m = min(0.18·room, √(Σ c_j·ρ_j·(lag + T'/(1−loss)²))), summed over the
agents that are extrapolated, is 2.5 sigma of what Poisson arrivals admit unseen: the
level is steered to m, not to 0.  A larger margin costs fairness; without one, agents
below θ are refused.  Where all are far above θ it is 0.07·room at most.

**While C is B**, what flows in would overflow in the eyes of all, so it pays for what
they don't know yet: each agent's V falls at its part of Q
(docs/decisions/0066-overflow-pays-for-unseen-spending.md).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.agreement import agree
from headgate.coordinator.allocation.conditions import NEAR, ROUNDING, Asked
from headgate.coordinator.allocation.inside import is_parent, surplus_held
from headgate.coordinator.allocation.max_min import level_of, shares_at
from headgate.coordinator.allocation.reserves import demand_told
from headgate.coordinator.allocation.turns import take_turns
from headgate.coordinator.allocation.window import know, set_rate_left, window_of
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    root,
    single,
    some,
    total,
    without,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Conditions
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock

AT_ONCE_COSTS = 8.0
"""An agent with fewer requests than this within T' reports each admission at once:
extrapolating so few would mostly extrapolate noise."""

QUIET_BURST = 6.0
"""T' is the time in which three sigma of a Poisson stream at Q amount to half of B: a
row that goes unreported for longer could hide more than a small burst can bear."""

MARGIN_SIGMAS = 2.5
"""With two sigma, agents that swap their demand exceed the quota by 0.02 s of it if
heartbeats are 5 s apart; a third costs fairness between light and heavy agents."""

MARGIN_PART = 0.18
"""The margin takes at most this part of the burst.  Of a quarter, 5 % of what a bucket
of 60 requests admits in 5 s stayed unspent; with 15 %, agents that swap their demand
exceed a quota whose burst is a second, if heartbeats are 5 s apart."""

HEAVY_MARGIN_PART = 0.07
"""The same where all agents want at least twice what they get: what they admit follows
from their shares, so chance plays no part in it."""

HORIZON_BURSTS = 2.0
"""H as a multiple of the time that refills the burst: a small burst is steered
faster."""

LAGS_AT_LEAST = 8.0
"""Smallest H, in lags, for a small B."""

LAGS_PER_HORIZON = 4.0
"""Smallest H, in lags, for any B: see above."""

DEMAND_CAP = 2.0
"""λ counts up to this multiple of what could pass within Δ: a storm of retries, or a
lie, gains no more than asking for everything."""


def share_out(block: LedgerBlock, slots: Index, on: Conditions) -> Flags:
    """Compute Q', θ, ρ and this agent's window for settled ledgers.

    Args:
        block: Changed: what is divided, `extrapolated_rate`, `at_once`, `unseen`,
            `unheeded`, `window`, `rate_left`, and what these follow from.
        slots: K of its columns.
        on: Lag and ages.

    Returns:
        ``bool[K]``, whether any agent wants anything there.
    """
    columns, slots = slots, single(slots)
    alone = _alone(block, slots, on)
    know(block, slots, on, alone)
    agree(block, columns, missed=on.missed)
    rate, strict = block.rate[slots], block.strict[slots]
    lines = block.lines(slots)
    burst = block.burst[slots]
    common = block.belief[slots] + block.unseen[slots]
    full = common >= burst * (1.0 - ROUNDING)
    common = lesser(common, burst)
    spare = greater(common - block.aside_in_all[slots], 0.0)
    told, weight = block.demand[lines, slots], block.weight[lines, slots]
    cap = DEMAND_CAP * chosen(strict, rate, rate + spare / on.age_s)
    present = weight > 0.0
    demand = chosen(present, lesser(told, cap), 0.0)
    # The others compute shares from the demand that they have heard.  If this agent
    # used its newer one, it would expect to spend what they don't expect.
    demand[0] = chosen(present[0], lesser(block.known_demand[slots], cap), 0.0)
    newest, wanted = lesser(told[0], cap), total(demand)
    cost, own_weight = block.cost[lines, slots], weight[0]
    equal = block.equal_weight[slots]
    if equal.ndim and (equal == equal).all():
        weight = equal[None]
    earlier = lesser(block.belief[slots] + block.unheeded[slots], burst)
    pool = greater(earlier - block.aside_in_all[slots], 0.0)
    asked = Asked(weight, own_weight, present, cost, demand, wanted, newest, pool)
    block.demand_cap[slots] = chosen(block.unlimited[slots], inf, cap)

    _tell_apart(block, slots, asked, on)
    # All agents keep the same margin, unless there is only one.
    margin = chosen(alone, block.others_margin[slots], block.margin[slots])
    block.margin[slots] = margin
    _expect(block, slots, asked, common)
    block.brimful[slots] = full
    settled = block.joining_until[slots] <= on.now
    _pay(block, slots, asked, full & settled & ~strict & (not on.cut_off))
    block.window[slots] = chosen(alone, inf, window_of(block, slots, asked, on))
    set_rate_left(block, slots, asked, on)
    # Before demand is capped: a cap of 0 does not mean that nobody wants anything.
    active: Flags = (wanted > 0.0) | (told[0] > 0.0)
    closed = cap <= 0.0
    if some(closed):
        active |= closed & np.logical_or.reduce(told, axis=0)
    return active


def _alone(block: LedgerBlock, slots: Index, on: Conditions) -> Flags:
    """Return ``bool[K]``: no other agent can have a part, not even a silent one."""
    bootstrap = (block.joining_until[slots] > on.now) & (on.present > 1.0)
    alone: Flags = block.used[slots] - block.holes[slots] == 1
    return alone & (block.weight[0, slots] > 0.0) & ~bootstrap & (not on.cut_off)


def _pay(block: LedgerBlock, slots: Index, asked: Asked, full: Flags) -> None:
    """Set the rate at which the overflow of a full bucket pays for V.

    It is this agent's part of Q: its share of what is wanted, and an even part of the
    rest.
    """
    even = asked.own_weight / greater(block.present_weight[slots], 1e-200)
    rate = block.rate[slots]
    part = block.fair_part[slots] * lesser(asked.wanted, rate)
    part += greater(rate - asked.wanted, 0.0) * even
    free = greater(1.0 - block.reserved[slots] / greater(rate, 1e-200), 0.0)
    block.paying[slots] = chosen(full, part * free, 0.0)


def _tell_apart(block: LedgerBlock, slots: Index, asked: Asked, on: Conditions) -> None:
    """Find which agents are extrapolated, what they may admit unseen, and the horizon.

    Uses only reported demand, because all agents must find the same.
    """
    interval_s = on.settings.interval_s
    rate, burst, cost = block.rate[slots], block.burst[slots], asked.cost
    demand, wanted, strict = asked.demand, asked.wanted, block.strict[slots]
    mean_cost = total(demand * cost) / greater(wanted, 1e-200)
    mean_cost = chosen(wanted > 0.0, mean_cost, cost[0])
    quiet = (burst / QUIET_BURST) ** 2 / greater(rate * mean_cost, 1e-200)
    quiet = lesser(greater(quiet, on.age_s), interval_s)
    # Permits alone keep the bound of a strict group, so nobody needs to know what
    # was admitted; reporting demand with each request would only make them noisy.
    quiet = chosen(strict, interval_s, quiet)
    theta = level_of(demand, asked.weight, rate, wanted)
    usual = shares_at(theta, demand, asked.weight)
    few = chosen(strict, 0.0, AT_ONCE_COSTS / quiet)
    at_once = asked.present & (usual < few * cost)

    owing = chosen(block.may_owe[slots], 0.0, cost[0])
    unsure_s = on.lag_s + quiet / (1.0 - on.loss) ** 2
    variance = cost * without(at_once, usual)
    whole = total(variance)
    # What of it comes from agents that get most of what they want: all, if all fits.
    by_chance = whole
    if some(theta < inf):
        chance = greater(2.0 * usual / greater(demand, 1e-200) - 1.0, 0.0)
        by_chance = total(chance * variance)
    light = lesser(2.0 * by_chance / greater(whole, 1e-200), 1.0)
    part = HEAVY_MARGIN_PART + (MARGIN_PART - HEAVY_MARGIN_PART) * light
    most = part * greater(burst - owing, 0.0)
    others = greater(whole - variance[0], 0.0)
    horizon = HORIZON_BURSTS * burst / greater(rate, 1e-200)
    horizon = lesser(greater(horizon, LAGS_AT_LEAST * on.lag_s), on.settings.horizon_s)
    horizon = greater(horizon, LAGS_PER_HORIZON * on.lag_s)

    block.quiet_s[slots] = quiet
    _set_at_once(block, slots, at_once, on.now)
    block.margin[slots] = lesser(MARGIN_SIGMAS * root(whole * unsure_s), most)
    block.others_margin[slots] = lesser(MARGIN_SIGMAS * root(others * unsure_s), most)
    block.horizon[slots] = horizon
    part = usual[0] / greater(lesser(wanted, rate), 1e-200)
    block.fair_part[slots] = chosen(wanted > 0.0, part, 1.0)
    take_turns(block, slots, asked, on.age_s, heavy=demand[0] > NEAR * usual[0])


def _set_at_once(block: LedgerBlock, slots: Index, at_once: Flags, now: float) -> None:
    """Set which agents report each admission, and since when, ``bool[A, K]``."""
    lines = block.lines(slots)
    begins = at_once & ~block.at_once[lines, slots]
    if some(begins):
        since = chosen(begins, now, block.at_once_since[lines, slots])
        block.at_once_since[lines, slots] = since
    block.at_once[lines, slots] = at_once


def _expect(block: LedgerBlock, slots: Index, asked: Asked, common: Floats) -> None:
    """Divide Q', and expect each agent to spend its part."""
    rate, lines = block.rate[slots], block.lines(slots)
    demand, weight, wanted = asked.demand, asked.weight, asked.wanted
    strict = block.strict[slots]
    available = rate + (common - block.margin[slots]) / block.horizon[slots]
    if some(strict):
        # Permits know of no level, but groups inside a strict one go by it.
        surplus = surplus_held(block, slots, common)
        surplus = chosen(is_parent(block, slots), surplus, 0.0)
        available = chosen(strict, rate + surplus / block.horizon[slots], available)
    available = lesser(available, block.parent_cap[slots]) - block.reserved[slots]
    available = chosen(rate > 0.0, greater(available, 0.0), 0.0)
    theta = level_of(demand, weight, available, wanted)
    # A silent member is expected to spend its reserve, not a share.
    share = without(block.at_once[lines, slots], shares_at(theta, demand, weight))
    reserve = block.extrapolated_rate[lines, slots]
    extrapolated_rate = chosen(asked.present, share, reserve)
    swing = np.abs(extrapolated_rate[0] - block.reported_rate[slots])
    block.available[slots] = available
    block.theta[slots] = theta
    block.slack[slots] = chosen(theta == inf, available - wanted, 0.0)
    block.extrapolated_rate[lines, slots] = extrapolated_rate
    block.outflow[slots] = total(extrapolated_rate)
    block.swung[slots] = greater(block.swung[slots], swing)


def start_level(block: LedgerBlock, slot: int, on: Conditions) -> float:
    """Return the initial level of a ledger that neither the API nor any agent knows.

    It is the margin that full demand would need, and never a full bucket: an agent that
    is restarted every few seconds would get a burst each time.
    """
    rate, burst = block.rate.item(slot), block.burst.item(slot)
    unseen_s = on.lag_s + on.settings.interval_s
    margin = MARGIN_SIGMAS * sqrt(block.cost.item(0, slot) * rate * unseen_s)
    return min(margin, MARGIN_PART * burst)


def allocated_of(block: LedgerBlock, slot: int) -> Floats:
    """Return the shares, ``float64[A]``, computed from reported demand.

    A silent member's entry is its reserve.
    """
    weight = block.weight[:, slot]
    share = shares_at(block.theta[slot], demand_told(block, slot), weight)
    return np.where(weight > 0.0, share, block.extrapolated_rate[:, slot])
