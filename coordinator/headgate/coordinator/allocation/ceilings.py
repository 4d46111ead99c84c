"""How much each agent may spend before the others can know about it.

**Spend no more unseen than your part of the common level.**  Every agent replays the
bucket (`headgate.coordinator.ledger.replay`) and computes a level E.  Let V_i be what
agent i admitted beyond what the others already know or expect.  Then C = E + V_i is the
level that all agents have in common, and the rule is

    agent i may let V_i grow up to its part a_i of C, with Σ a_i ≤ C;
    beyond that it may admit one more request, the first, while E ≥ 0.

So the true level can't fall below −(one cost per agent that was active within the age
of information Δ) − (what flows in meanwhile).  This one inequality acts as a local
token bucket if requests are many (V decays at ρ, because the others expect ρ), as a
central bucket if admissions are rare (V returns to 0 soon after each is reported), as a
split of the burst after a rest (a = C/n), and exactly as the central bucket for a
single agent.

**Unseen and unheeded.**  Once the others know what agent i spent, they leave more to
it, but what they had spent by then is still on its way.  So what they learnt beyond
what they expected counts against the window until that must have been heard, h later:
the rule compares V' = V + (what they learnt within h) with a part of C' = E + V'.  For
the same reason a part that grows, because others are known to want less, counts after
h.  What the others know or expect, V ≤ 0, may be spent at any time.  Without this,
agents that spend a burst in the same second admit up to half of it too much
(`bench/rules/herds.py`).

**What the others expect**, ρ.  The rate to divide until the next look is

    Q' = max(0, Q + (C − m)/H)      H = clamp(2·B/Q, 8·lag, 1 s), at least 4·lag
    θ:  Σ min(d_j, w_j·θ) = Q'      ρ_j = min(d_j, w_j·θ)

so a surplus or debt is worked off over H.  The loop sees its own effect one lag later.
A first-order loop with delay does not overshoot up to lag/H = 1/e and rings beyond;
4·lag keeps it at ¼.  An agent that makes fewer than `AT_ONCE_COSTS` requests within T',
the time for which its row may go unreported, reports each admission *at once*: silence
then means that there was none, and nothing is extrapolated.

**The margin** m = min(0.18·room, √(Σ c_j·ρ_j·(lag + T'/(1−loss)²))), summed over the
agents that are extrapolated, is 2.5 sigma of what Poisson arrivals admit unseen: the
level is steered to m, not to 0.  A larger margin costs fairness; without one, agents
below θ are refused.  Where all are far above θ it is 0.07·room at most.

**While C is B**, what flows in would overflow in the eyes of all, so it pays for what
they don't know yet: each agent's V falls at its part of Q.  Otherwise an agent with a
part of 1.5 requests would refuse its second one within Δ although the bucket refills in
20 ms (measured: 12 to 25 % refused at a tenth of the quota).

**The window** a_i is agent i's max-min part of C according to what each agent wants
within Δ.  If all of that fits, the rest is divided mostly evenly, because nobody knows
who will start next.  An agent below θ may exceed its part by the noise of its own
arrivals: chance is not misuse.

**Turns.** Where requests are few, nothing steers the level to a margin, so a token goes
to whoever asks first: an agent that repeats what was refused would starve one that asks
seldom.  An agent's *lead* is what it admitted less its max-min part of what all
admitted.  One that reports each admission, wants more than its part and has a lead
leaves as much of the level to others: at most three quarters of what the bucket holds
beyond one request, and what flows in within a quarter second for each request of the
lead.  One request would not be enough where views of a level differ.  The less demand
exceeds Q, the less is left, and nothing once the others would have come if they still
asked.

Rejected: local buckets of a tenth of a second of a ceiling (4 to 5 s over the quota for
language models' tokens, 0.67 of the quota if one cost is a sixth of the burst);
random admission when there are fewer tokens than agents (0.77); a margin of five sigma
as the level to start at (0.80 with a burst of 10 s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.coordinator.allocation.max_min import FINITE, level_of, shares_at
from headgate.coordinator.allocation.reserves import alone_of, demand_told
from headgate.coordinator.ledger.replay import seen_by_all
from headgate.coordinator.messages.events import Ceilings
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
    from headgate.coordinator.config.constants import Settings
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

NOISE_SIGMAS = 3.0
"""Sigmas of its arrivals by which an agent below θ may exceed its part."""

SILENCE = 12.5
"""If so many requests of others were expected and none came though the level allowed
them, nobody yields to them any more: e^−12.5 is five sigma."""

NEAR = 1.15
"""Multiple of θ up to which an agent counts as light: estimates are no more exact than
that, and an agent mistaken for a heavy one is refused what it is due."""

DEMAND_CAP = 2.0
"""λ counts up to this multiple of what could pass within Δ: a storm of retries, or a
lie, gains no more than asking for everything."""

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

FEWEST_AT_FIRST = 10
"""Least number of agents that a new one assumes if the API doesn't say how many."""

PARENT_S = 0.1
"""Seconds of its ceiling that an agent may hold for a group inside another one, whose
limit is the parent's rate rather than the group's own level."""

OVERDRAWN_S = 0.2
"""Seconds of an even part of its rate by which an agent may overdraw a group with
others inside, because callers there go by rates.  With a tenth of a second, `tree`'s
worst agent gets 0.96 of its part instead of 0.98."""

REQUESTS_INSIDE = 2.0
"""Requests that an agent may always hold for a strict group inside another one, as far
as its permits allow: a bucket of less than one admits nothing, ever."""

ROUNDING = 1e-9
"""Part of the burst by which a full bucket may seem less, and of 1 by which a part of
what all admit may."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What applies to all ledgers at one look.

    Attributes:
        now: Monotonic seconds.
        lag_s: Lag of the bus.
        loss: Fraction of the reports that are lost.
        age_s: Δ, after which the others know what was admitted.
        heed_s: h, after which it is known here what they had spent until then; 0 if
            the bus is too slow to wait for that.
        present: Number of agents to assume while a ledger's level is not known.
        cut_off: This agent does not hear its own reports.
        presumed_dead: It has been cut off so long that the others have dropped it.
        quorate: This agent hears a majority of the cluster.
        echoed: One of its own reports came back; until then the lag is a guess.
    """

    now: float
    lag_s: float
    loss: float
    age_s: float
    heed_s: float
    present: float
    cut_off: bool
    presumed_dead: bool = False
    quorate: bool = True
    echoed: bool = True


@dataclass(slots=True)
class _Asked:
    """What the agents of some ledgers ask for, as far as all agents know it.

    Attributes:
        weight: ``float64[A, K]`` weights, or ``float64[1, K]`` if all that take part
            weigh the same.
        own_weight: ``float64[K]`` this agent's; 0 if it doesn't take part.
        present: ``bool[A, K]`` agents that take part.
        cost: ``float64[A, K]`` mean units of a request.
        demand: ``float64[A, K]`` λ up to `demand_cap`; 0 for agents that don't take
            part.
        wanted: ``float64[K]`` Σ λ.
        newest: ``float64[K]`` this agent's λ, whether or not the others know it.
        spare: ``float64[K]`` C' less what is kept for silent agents, at least 0.
    """

    weight: Floats
    own_weight: Floats
    present: Flags
    cost: Floats
    demand: Floats
    wanted: Floats
    newest: Floats
    spare: Floats


def share_out(
    block: LedgerBlock, slots: Index, on: Conditions, settings: Settings
) -> Flags:
    """Compute Q', θ, ρ and this agent's window for settled ledgers.

    Args:
        block: Changed: what is divided, `extrapolated_rate`, `at_once`, `unseen`,
            `unheeded`, `window`, and what these follow from.
        slots: K of its columns.
        on: Lag and ages.
        settings: Parameters.

    Returns:
        ``bool[K]``, whether any agent wants anything there.
    """
    columns, slots = slots, single(slots)
    alone = _alone(block, slots, on)
    _know(block, slots, on, alone)
    _agree(block, columns)
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
    asked = _Asked(weight, own_weight, present, cost, demand, wanted, newest, pool)
    block.demand_cap[slots] = chosen(block.unlimited[slots], inf, cap)

    _tell_apart(block, slots, asked, on, settings)
    # All agents keep the same margin, unless there is only one.
    margin = chosen(alone, block.others_margin[slots], block.margin[slots])
    block.margin[slots] = margin
    _expect(block, slots, asked, common)
    block.brimful[slots] = full
    settled = block.joining_until[slots] <= on.now
    _pay(block, slots, asked, full & settled & ~strict & (not on.cut_off))
    block.window[slots] = chosen(alone, inf, _window(block, slots, asked, on))
    # Before demand is capped: a cap of 0 does not mean that nobody wants anything.
    active: Flags = (wanted > 0.0) | (told[0] > 0.0)
    closed = cap <= 0.0
    if np.count_nonzero(closed):
        active |= closed & np.logical_or.reduce(told, axis=0)
    return active


def _pay(block: LedgerBlock, slots: Index, asked: _Asked, full: Flags) -> None:
    """Set the rate at which the overflow of a full bucket pays for V.

    It is this agent's part of Q: its share of what is wanted, and an even part of the
    rest.
    """
    even = asked.own_weight / greater(block.present_weight[slots], 1e-300)
    rate = block.rate[slots]
    part = block.fair_part[slots] * lesser(asked.wanted, rate)
    part += greater(rate - asked.wanted, 0.0) * even
    free = greater(1.0 - block.reserved[slots] / greater(rate, 1e-300), 0.0)
    block.paying[slots] = chosen(full, part * free, 0.0)


def _tell_apart(
    block: LedgerBlock, slots: Index, asked: _Asked, on: Conditions, settings: Settings
) -> None:
    """Find which agents are extrapolated, what they may admit unseen, and the horizon.

    Uses only reported demand, because all agents must find the same.
    """
    rate, burst, cost = block.rate[slots], block.burst[slots], asked.cost
    demand, wanted, strict = asked.demand, asked.wanted, block.strict[slots]
    mean_cost = total(demand * cost) / greater(wanted, 1e-300)
    mean_cost = chosen(wanted > 0.0, mean_cost, cost[0])
    quiet = (burst / QUIET_BURST) ** 2 / greater(rate * mean_cost, 1e-200)
    quiet = lesser(greater(quiet, on.age_s), settings.interval_s)
    # Permits alone keep the bound of a strict group, so nobody needs to know what
    # was admitted; reporting demand with each request would only make them noisy.
    quiet = chosen(strict, settings.interval_s, quiet)
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
        # In place: these are the largest arrays, and fresh memory costs more than this.
        chance = greater(demand, 1e-300)
        np.divide(usual, chance, out=chance)
        chance *= 2.0
        chance -= 1.0
        np.maximum(chance, 0.0, out=chance)
        chance *= variance
        by_chance = total(chance)
    light = lesser(2.0 * by_chance / greater(whole, 1e-300), 1.0)
    part = HEAVY_MARGIN_PART + (MARGIN_PART - HEAVY_MARGIN_PART) * light
    most = part * greater(burst - owing, 0.0)
    others = greater(whole - variance[0], 0.0)
    horizon = HORIZON_BURSTS * burst / greater(rate, 1e-300)
    horizon = lesser(greater(horizon, LAGS_AT_LEAST * on.lag_s), settings.horizon_s)
    horizon = greater(horizon, LAGS_PER_HORIZON * on.lag_s)

    block.quiet_s[slots] = quiet
    block.at_once[block.lines(slots), slots] = at_once
    block.margin[slots] = lesser(MARGIN_SIGMAS * root(whole * unsure_s), most)
    block.others_margin[slots] = lesser(MARGIN_SIGMAS * root(others * unsure_s), most)
    block.horizon[slots] = horizon
    part = usual[0] / greater(lesser(wanted, rate), 1e-300)
    block.fair_part[slots] = chosen(wanted > 0.0, part, 1.0)
    _take_turns(block, slots, asked, on.age_s, heavy=demand[0] > NEAR * usual[0])


def _take_turns(
    block: LedgerBlock, slots: Index, asked: _Asked, age_s: float, *, heavy: Flags
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
    lacking = asked.wanted / greater(rate, 1e-300) - 1.0
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


def _expect(block: LedgerBlock, slots: Index, asked: _Asked, common: Floats) -> None:
    """Divide Q', and expect each agent to spend its part."""
    rate, lines = block.rate[slots], block.lines(slots)
    demand, weight, wanted = asked.demand, asked.weight, asked.wanted
    available = rate + (common - block.margin[slots]) / block.horizon[slots]
    available = chosen(block.strict[slots], rate, available)
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


def _window(block: LedgerBlock, slots: Index, asked: _Asked, on: Conditions) -> Floats:
    """Return a, ``float64[K]``: the max-min part of C' by demand within Δ."""
    own_weight, spare = asked.own_weight, asked.spare
    own_most = own_weight * lesser(block.theta[slots], FINITE)
    heavy = asked.newest > NEAR * own_most
    pool = greater(spare - chosen(heavy, block.others_margin[slots], 0.0), 0.0)
    level = level_of(asked.demand, asked.weight, pool / on.age_s, asked.wanted)
    window = shares_at(level, asked.demand[0], own_weight) * on.age_s
    even = own_weight / greater(block.present_weight[slots], 1e-300)
    left = pool - asked.wanted * on.age_s
    window = chosen(level == inf, window + left * even, window)
    part = chosen(pool > 0.0, window / greater(pool, 1e-300), block.part[slots])
    growth = GROWTH_AGES * on.age_s * block.rate[slots] * even
    window = lesser(window, _part_left(block, slots, part, on) * pool + growth)
    # An agent below θ may exceed its part by the noise of its own arrivals.
    noise = _noise(block, slots, asked, on)
    window = chosen(heavy, window, greater(window, noise))
    bootstrap = block.joining_until[slots] > on.now
    if np.count_nonzero(bootstrap):
        # Which other agents exist is not known yet.
        assumed = spare / greater(block.agents[slots], on.present)
        window = chosen(bootstrap, lesser(window, assumed), window)
    return window


def _part_left(
    block: LedgerBlock, slots: Index, part: Floats, on: Conditions
) -> Floats:
    """Return ``float64[K]``: what of its part the others have left to this agent.

    A part that grows does so because theirs shrink.  They may have spent what they had
    before, so it counts when that would have been heard.

    Args:
        block: Changed: `part`, `part_next` and `part_next_at`.
        slots: K of its columns.
        part: ``float64[K]`` its part of C', by what all agents know.
        on: Time and ages.
    """
    left = lesser(block.part[slots], part)
    found_at = block.part_next_at[slots]
    idle = found_at == inf
    following = chosen(idle, part, lesser(block.part_next[slots], part))
    found_at = chosen(part > left + ROUNDING, chosen(idle, on.now, found_at), inf)
    heeded = found_at <= on.now - on.heed_s
    block.part[slots] = left = chosen(heeded, following, left)
    # What it grew by meanwhile counts later.
    later = chosen(part > left + ROUNDING, on.now, inf)
    block.part_next_at[slots] = chosen(heeded, later, found_at)
    block.part_next[slots] = chosen(heeded, part, following)
    return left


def _noise(block: LedgerBlock, slots: Index, asked: _Asked, on: Conditions) -> Floats:
    """Return ``float64[K]`` units by which this agent may exceed its part by chance.

    Computed from reported demand: a rate that the others don't know yet is a change,
    not chance, and in a herd all agents change at once.
    """
    quiet, cost, spare = block.quiet_s[slots], asked.cost, asked.spare
    at_once = block.at_once[block.lines(slots), slots]
    arriving = lesser(asked.demand, block.rate[slots])
    own, own_cost = arriving[0], cost[0]
    # Nothing is expected of who reports each admission, so V' isn't 0 on average.
    own_s = chosen(at_once[0], on.age_s + on.heed_s, quiet)
    mean = chosen(at_once[0], own * own_s, 0.0)
    noise: Floats = lesser(spare, mean + NOISE_SIGMAS * root(own * own_cost * own_s))
    # Chance comes in whole requests.  One more than the first is safe as far as the
    # level exceeds everything that could arrive by chance.
    by_chance = quiet * total(arriving * cost)
    unsure: Floats | float = 0.0
    if np.count_nonzero(at_once):
        untold = without(~at_once, arriving)
        by_chance += (on.age_s - quiet) * total(untold * cost)
        unsure = total(untold) * on.age_s
    unsure = unsure + NOISE_SIGMAS * root(greater(by_chance, 0.0))
    one_more = (own > 0.0) & (spare - unsure >= own_cost)
    return chosen(one_more, greater(noise, own_cost), noise)


def _know(block: LedgerBlock, slots: Index, on: Conditions, alone: Flags) -> None:
    """Compute V and V': what was spent beyond what the others know or have heeded.

    They know a counter once its report has had enough time on the bus.  How long that
    takes is unknown until one report has come back.  What they expect, or what is paid
    for, counts as known, and as heeded.
    """
    at_once = block.at_once[0, slots]
    known_before = block.known_admitted[slots] + block.known_predicted[slots]
    for column in (block.known_predicted, block.pending_predicted):
        column[slots] = chosen(at_once, 0.0, column[slots])
    arrived = block.pending_at[slots] <= on.now - KNOWN_LAGS * on.lag_s
    if np.count_nonzero(arrived) and on.echoed and not on.cut_off:
        # The newest report is awaited next, if it left after the one that arrived.
        newer = arrived & (block.row_reported_at[slots] > block.pending_at[slots])
        for known, pending, reported in (
            (block.known_admitted, block.pending_admitted, block.reported_admitted),
            (block.known_predicted, block.pending_predicted, block.predicted[0]),
            (block.known_demand, block.pending_demand, block.reported_demand),
        ):
            known[slots] = chosen(arrived, pending[slots], known[slots])
            pending[slots] = chosen(newer, reported[slots], pending[slots])
        then = chosen(arrived, inf, block.pending_at[slots])
        block.pending_at[slots] = chosen(newer, block.row_reported_at[slots], then)
    known = block.known_admitted[slots] + block.known_predicted[slots]
    unheeded = _heed(block, slots, known - known_before, on)
    admitted = block.admitted[0, slots]
    for column, seen in (
        (block.unseen, seen_by_all(block, slots)),
        (block.unheeded, seen_by_all(block, slots, unheeded)),
    ):
        column[slots] = chosen(alone, 0.0, admitted - seen)


def _heed(block: LedgerBlock, slots: Index, told: Floats, on: Conditions) -> Floats:
    """Return ``float64[K]`` units that the others know and may not have heeded.

    Args:
        block: Changed.
        slots: K of its columns.
        told: ``float64[K]`` what they just learnt beyond what they expected.
        on: Time and ages.
    """
    if np.count_nonzero(told):
        idle = block.heeding_at[slots] == inf
        for units, at, here in (
            (block.heeding, block.heeding_at, idle),
            (block.heeding_next, block.heeding_next_at, ~idle),
        ):
            units[slots] += chosen(here, told, 0.0)
            at[slots] = chosen(here & (told != 0.0), on.now, at[slots])
    for at in (block.heeding_at[slots], block.heeding_next_at[slots]):
        heeded = at <= on.now - on.heed_s
        if not np.count_nonzero(heeded):
            break
        for first, second, none in (
            (block.heeding, block.heeding_next, 0.0),
            (block.heeding_at, block.heeding_next_at, inf),
        ):
            first[slots] = chosen(heeded, second[slots], first[slots])
            second[slots] = chosen(heeded, none, second[slots])
    return greater(block.heeding[slots] + block.heeding_next[slots], 0.0)


def _agree(block: LedgerBlock, slots: Index) -> None:
    """Adopt the median of the levels that all agents compute.

    With counters alone, views that once differ stay apart, say because a new agent
    learnt a level a moment too late, or because a report was lost while the bucket was
    full.  An agent whose level is below the others' would then be refused its part for
    ever.  The median is used because any agent may lie.  This agent's own level counts
    as well, so that two agents meet half way.  At least half of the others must have
    reported theirs.  What reports in flight could explain is averaged over several
    levels (`hear`), or chance would add up, unless nothing was on its way.
    """
    told = block.voiced[slots]
    if not np.count_nonzero(told):
        return
    at = block.slots[slots][told]
    block.voiced[at] = False
    lines = block.lines(at)
    apart = block.apart[lines, at]
    counts = (block.weight[lines, at] > 0.0) & ~(
        block.averaged[lines, at] & block.brimful[at]
    )
    voices = np.where(counts, apart, np.nan)
    heard = np.count_nonzero(voices == voices, axis=0)
    enough = (heard > 0) & (2 * heard >= block.used[at] - block.holes[at] - 1)
    enough &= ~(block.strict[at] | block.unlimited[at])
    # A new agent adopts the answers of all the others at once.
    enough &= block.joining_until[at] < inf
    if not np.count_nonzero(enough):
        return
    agreed, voices = at[enough], voices[:, enough]
    exact = (block.exact[lines, agreed] | (voices != voices)).all(axis=0)
    voices[0] = 0.0
    middle = _median(voices)
    costs = np.where(exact, EXACT_COSTS, AGREED_COSTS)
    explained = block.margin[agreed] + costs * block.cost[0, agreed]
    shift = np.where(np.abs(middle) > explained, middle, 0.0)
    block.level[agreed] += shift
    block.belief[agreed] += shift
    # An average goes on until this agent moves; what counts at once counts once.
    kept = block.averaged[lines, agreed] & (shift == 0.0)
    block.apart[lines, agreed] = np.where(kept, apart[:, enough], nan)


def _median(voices: Floats) -> Floats:
    """Return the median of each column, ignoring NaN, ``float64[K]``.

    numpy's `nanmedian` takes a millisecond for one column.
    """
    ordered = np.sort(voices, axis=0)  # NaN last
    known = np.count_nonzero(voices == voices, axis=0)
    column = np.arange(len(known))
    middle: Floats = ordered[(known - 1) // 2, column] + ordered[known // 2, column]
    return 0.5 * middle


AGREED_COSTS = 2.0
"""Requests by which levels may differ, besides the margin, because some agents haven't
heard of them yet."""

EXACT_COSTS = 0.5
"""The same where nothing was on its way or was lost: no chance makes levels differ."""

KNOWN_LAGS = 1.4
"""Lags after which a report has arrived everywhere, allowing for the bus's jitter."""

HEED_AT_MOST_S = 0.1
"""Nothing waits to be heeded for longer than this, but counts at once instead.  On a
slow bus a bucket overflows meanwhile although all expect this agent to spend, and their
levels become too high: with 0.3 to 0.6 s of delay, by 0.08 s of the quota."""

GROWTH_AGES = 3.0
"""A part may exceed what the others have left by an even part of what flows in within
so many Δ.  Without this, an agent that takes over 80 % of the quota is refused 0.3 % of
its requests, instead of 0.2 %."""


def note_told(
    block: LedgerBlock, slots: Index, admitted: Floats, demand: Floats, now: float
) -> None:
    """Note that this agent's rows of some ledgers were reported.

    Args:
        block: Changed: what the others will know, and what is news to them.
        slots: K of its columns.
        admitted: ``float64[K]`` reported counters.
        demand: ``float64[K]`` reported demand, units/s.
        now: Monotonic seconds.
    """
    # The others' expectation restarts from 0 now, so at the earlier `at` it was
    # negative.
    unexpected = -block.extrapolated_rate[0, slots] * (now - block.at[slots])
    grown = admitted - block.reported_admitted[slots]
    block.own_news[slots] += np.abs(grown - block.predicted[0, slots] + unexpected)
    free = block.pending_at[slots] == inf
    for pending, reported in (
        (block.pending_admitted, admitted),
        (block.pending_predicted, unexpected),
        (block.pending_demand, demand),
        (block.pending_at, now),
    ):
        pending[slots] = np.where(free, reported, pending[slots])
    block.predicted[0, slots] = unexpected
    block.reported_rate[slots] = block.extrapolated_rate[0, slots]
    block.swung[slots] = 0.0
    block.reported_admitted[slots] = admitted
    block.reported_demand[slots] = demand
    block.row_reported_at[slots] = now


def _alone(block: LedgerBlock, slots: Index, on: Conditions) -> Flags:
    """Return ``bool[K]``: no other agent can have a part, not even a silent one."""
    bootstrap = (block.joining_until[slots] > on.now) & (on.present > 1.0)
    alone: Flags = block.used[slots] - block.holes[slots] == 1
    alone &= block.weight[0, slots] > 0.0
    alone &= ~bootstrap
    alone &= not on.cut_off
    return alone


def start_level(
    block: LedgerBlock, slot: int, on: Conditions, settings: Settings
) -> float:
    """Return the initial level of a ledger that neither the API nor any agent knows.

    It is the margin that full demand would need, and never a full bucket: an agent that
    is restarted every few seconds would get a burst each time.
    """
    rate, burst = block.rate.item(slot), block.burst.item(slot)
    unseen_s = on.lag_s + settings.interval_s
    margin = MARGIN_SIGMAS * sqrt(block.cost.item(0, slot) * rate * unseen_s)
    return min(margin, MARGIN_PART * burst)


def own_ceilings(
    block: LedgerBlock, slots: Index, on: Conditions, settings: Settings
) -> Ceilings:
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
    aside = block.aside_in_all[slots]
    expected = extrapolated_rate[0]
    # An agent below θ may exceed its mean by the noise of its own arrivals.
    noisy = share + root(2.0 * share * cost)
    sustained = lesser(noisy, own_most) + block.slack[slots] / block.agents[slots]
    reserve, most = alone_of(
        block,
        slots,
        present=on.present,
        quorate=on.quorate,
        presumed_dead=on.presumed_dead,
    )
    # What was just admitted is counted at a look, reported after a gap, known at a look
    # after it has arrived, and heeded later.
    heard_s = on.age_s + (KNOWN_LAGS - 1.0) * on.lag_s + settings.tick_s + on.heed_s
    room = _own_room(block, slots)
    paying = chosen(block.unseen[slots] > 0.0, block.paying[slots], 0.0)
    asked = (block.reported_demand[slots] > 0.0) | (block.demand[0, slots] > 0.0)
    new = Ceilings(
        shared=rate == rate,
        share=share,
        ceiling=sustained,
        # A bucket that nobody else shares is exact, and knows its own level best,
        # unless groups inside it are charged here only.
        level=chosen(
            alone & block.bucket_knows[slots] & ~_is_parent(block, slots),
            nan,
            block.belief[slots] - aside,
        ),
        rate=rate - total(extrapolated_rate[1:]),
        capacity=burst - aside,
        room=room,
        window=window,
        expected_rate=greater(expected, paying),
        room_cap=chosen(paying > 0.0, greater(room, window), inf),
        # The first request that the others don't know of may pass anyway.
        cautious=~(alone | asked),
        quota=rate,
        least_delay_s=chosen(alone, 0.0, heard_s),
        reserve=reserve,
    )
    block.bucket_knows[slots] = True
    new = _inside(block, slots, new, on, settings)
    if on.cut_off or not on.quorate:
        new = _cut_off(block, slots, new, most, on)
    if some(block.strict[slots]):
        new = _strictly(block, slots, most, new)
    new = _unlimited(block, slots, new)
    if isinstance(slots, int):  # see `single`
        numbers = (getattr(new, name) for name in Ceilings.__slots__)
        return Ceilings(*(np.array([number]) for number in numbers))
    return new


def _own_room(block: LedgerBlock, slots: Index) -> Floats:
    """Return ``float64[K]`` units that this agent may admit before it is heard."""
    # What the others know or expect may be spent at any time, and one request more.
    room = greater(block.window[slots] - block.unheeded[slots], -block.unseen[slots])
    # Not a lower level, from which delays are told: others may well leave the request.
    yielded = block.yielded[slots]
    need = chosen(block.may_owe[slots], 0.0, block.cost[0, slots])
    mine = block.belief[slots] - block.aside_in_all[slots] - need - yielded
    return chosen(yielded > 0.0, lesser(room, mine), room)


def _is_parent(block: LedgerBlock, slots: Index) -> Flags:
    """Return which groups have children that take a part of them."""
    own_callers = block.own_callers[slots]
    parent: Flags = own_callers == own_callers  # not NaN
    return parent


def _is_inside(block: LedgerBlock, slots: Index) -> Flags:
    """Return which groups have a parent, or children that take a part of them."""
    return _is_parent(block, slots) | (block.parent_cap[slots] < inf)


def left_inside(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return ``float64[K]`` units that are left to this agent in groups with children.

    Of the level, and of this agent's part of it, for their own callers and those of the
    groups inside them.  Below 0 it is what all these have overdrawn beyond
    `OVERDRAWN_S` and one request.
    """
    room = greater(block.window[slots] - block.unheeded[slots], -block.unseen[slots])
    spare = lesser(room, block.belief[slots] - block.aside_in_all[slots])
    usual = OVERDRAWN_S * block.rate[slots] / block.agents[slots]
    usual = usual + block.cost[0, slots]
    return greater(spare, 0.0) + lesser(spare + usual, 0.0)


def _inside(
    block: LedgerBlock,
    slots: Index,
    new: Ceilings,
    on: Conditions,
    settings: Settings,
) -> Ceilings:
    """Hold groups inside others to their part of the parent's rate.

    A group's own level says nothing about what its parent has left.  So its room is a
    bucket that fills at this agent's part of the parent's rate, up to what is left to
    this agent above, and that reports don't empty, unless that was overdrawn.
    """
    inside = _is_inside(block, slots)
    if not some(inside):
        return new
    parent = _is_parent(block, slots)
    rate, cost = block.rate[slots], block.cost[0, slots]
    theta = block.theta[slots]
    demand = lesser(block.demand[0, slots], block.demand_cap[slots])
    # What the group's own callers may use; its children have their own part.
    demand = chosen(parent, block.own_callers[slots], demand)
    theta = chosen(parent, block.own_callers_theta[slots], theta)
    # All that the others know of may fit, but they may want as much more as this agent.
    even = block.weight[0, slots] / greater(block.present_weight[slots], 1e-300)
    known = greater(block.known_demand[slots], even * block.available[slots])
    demand = lesser(demand, known)
    most = block.weight[0, slots] * lesser(theta, FINITE)
    noisy = demand + root(2.0 * demand * cost)
    part = greater(1.0 / block.agents[slots], settings.slack_part)
    # While it isn't known who else uses the group, the others may start, too.
    joining = block.joining_until[slots] > on.now
    part = chosen(joining, 1.0 / greater(block.agents[slots], on.present), part)
    ceiling = lesser(most, noisy) + block.slack[slots] * part
    share = lesser(demand, most)
    refill_s = block.burst[slots] / greater(rate, 1e-300)
    bucket_s = lesser(0.25 * refill_s, PARENT_S)
    room = greater(ceiling * bucket_s, root(0.5 * share * cost))
    left = block.left_above[slots]
    room = greater(room, chosen(left < inf, lesser(left, new.room), 0.0))
    own = chosen(parent, left_inside(block, slots), 0.0)
    overdrawn = greater(-lesser(left, own), 0.0)
    # How long until what flows in above allows a request, once nothing is owed there.
    inflow = greater(ceiling, block.available[slots])
    wait_s = chosen(inflow > 0.0, cost / greater(inflow, 1e-300), 0.0)
    wait_s += block.wait_above_s[slots]
    # Nothing passes then, but once it may, a child with a small ceiling goes on soon.
    closed = -lesser(overdrawn, PARENT_S * ceiling + ROUNDING)
    return _changed(
        new,
        inside,
        share=share,
        ceiling=ceiling,
        room=nan,
        window=room,
        expected_rate=ceiling,
        room_cap=chosen(overdrawn > 0.0, closed, room),
        cautious=False,
        least_delay_s=greater(new.least_delay_s, wait_s),
    )


def _cut_off(
    block: LedgerBlock, slots: Index, new: Ceilings, most: Floats, on: Conditions
) -> Ceilings:
    """Hold this agent to what the others reserve for it, as a bucket of its own."""
    own: Flags = (most == 0.0) | on.cut_off
    reserve = lesser(new.reserve, most)
    quota = greater(block.rate[slots], 1e-300)
    part = lesser(chosen(reserve == inf, 1.0, reserve / quota), 1.0)
    capacity = part * block.burst[slots]
    return _changed(
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
    inside = _is_inside(block, slots)
    within = chosen(inside, new.ceiling, inf)
    ceiling = lesser(lesser(right * rate, most), within)
    # A balanced group in its place may admit one request beyond its room.
    least = REQUESTS_INSIDE * block.cost[0, slots]
    room = chosen(inside, greater(new.room_cap, least), inf)
    capacity = lesser(right * block.burst[slots], room)
    new = _changed(new, strict, shared=False, share=right * rate, ceiling=ceiling)
    return _changed(new, strict, rate=ceiling, capacity=capacity, reserve=0.0)


def _unlimited(block: LedgerBlock, slots: Index, new: Ceilings) -> Ceilings:
    unlimited = block.unlimited[slots] | (
        (new.rate == inf) & np.logical_not(new.shared)
    )
    if not some(unlimited):
        return new
    everything = dict.fromkeys(("share", "ceiling", "rate", "capacity", "reserve"), inf)
    return _changed(new, unlimited, shared=False, **everything)


def _changed(new: Ceilings, where: Flags, **columns: Floats | float | bool) -> Ceilings:
    """Return the same ceilings with other `columns` where a flag is set."""
    changed: dict[str, Any] = {
        name: chosen(where, column, getattr(new, name))
        for name, column in columns.items()
    }
    return replace(new, **changed)


def allocated_of(block: LedgerBlock, slot: int) -> Floats:
    """Return the shares, ``float64[A]``, computed from reported demand.

    A silent member's entry is its reserve.
    """
    weight = block.weight[:, slot]
    share = shares_at(block.theta[slot], demand_told(block, slot), weight)
    return np.where(weight > 0.0, share, block.extrapolated_rate[:, slot])
