"""Who may spend what until the others can know of it.

**Spend unseen only your part of the common level.**  Every agent replays the bucket
(`headgate.coordinator.ledger.replay`) and believes in a level E.  Let V_i be what
agent i admitted beyond what the others already know of it or expect of it.  Then
C = E + V_i is the level that all agents hold in common, and the rule is

    agent i may let V_i grow up to its part a_i of C, with Σ a_i ≤ C;
    beyond that one request, the first, while E ≥ 0.

So the true level can't fall below −(one cost per agent that was active within the age
of information Δ) − (what flows in meanwhile).  The same inequality is a local token
bucket where requests are many (V decays at ρ, because the others expect ρ), a central
bucket where admissions are rare (V is 0 soon after each was told), a split of the
burst from rest (a = C/n), and exactly the central bucket for an agent alone.

**What others expect**, ρ.  The rate to share out until the next look is

    Q' = max(0, Q + (C − m)/H)      H = clamp(2·B/Q, 8·lag, 1 s), at least 4·lag
    θ:  Σ min(d_j, w_j·θ) = Q'      ρ_j = min(d_j, w_j·θ)

so a surplus or debt is worked off over H.  The loop sees what it did after the lag; a
first-order loop with delay is without overshoot up to lag/H = 1/e and rings beyond;
4·lag keeps it at ¼.  Where an agent makes fewer than `AT_ONCE_COSTS` requests within
the time T' for which its row may stay untold, it tells each admission *at once*:
silence then means none, and nothing is extrapolated.

**The margin** m = min(room/4, √(Σ c_j·ρ_j·(lag + T'/(1−loss)²))), over those that are
extrapolated, is one sigma of what Poisson arrivals admit unseen: the level is steered
to m, not to 0.  Its size costs fairness, and without it agents below θ are refused.

**The window** a_i is agent i's max-min part of C by what each wants within Δ, and where
all fit, of the rest mostly an even part: whoever starts next can't be known.  An agent
below θ may exceed its part by the noise of its own arrivals: chance is no misuse.

Rejected: local buckets of a tenth of a second of a ceiling (4 to 5 s over for language
models' tokens, 0.67 of the quota where one cost is a sixth of the burst), admission by
chance where there are fewer tokens than agents (0.77), a margin of five sigma as the
level to start at (0.80 with a burst of 10 s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.allocation.reserves import alone_of
from headgate.coordinator.messages.events import Ceilings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.table.arrays import Index, LedgerBlock

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

AT_ONCE_COSTS = 8.0
"""Requests within T' below which each admission is told at once: with fewer, what is
extrapolated is mostly noise."""

QUIET_BURST = 6.0
"""T' is the time in which three sigma of a Poisson stream at Q make half of B: a row
that stays untold for longer could hide more than a small burst can bear."""

MARGIN_SIGMAS = 2.0
"""At two sigma fairness between light and heavy agents falls by 3 %."""

MARGIN_PART = 0.25
"""The margin takes at most this part of the burst."""

HORIZON_BURSTS = 2.0
"""H in times that it takes to refill the burst: a small one is steered faster."""

LAGS_AT_LEAST = 8.0
"""H in lags at least, where B is small."""

LAGS_PER_HORIZON = 4.0
"""H in lags at least, always: see above."""

NOISE_SIGMAS = 3.0
"""What an agent below θ may spend by chance beyond its part."""

NEAR = 1.15
"""Multiple of θ up to which an agent counts as light: its estimate is no better than
that, and each time that it is taken for heavy it is refused what it is due."""

SLACK_BY_DEMAND = 0.0
"""Part of the spare level that follows demand; the rest is even, for who starts."""

DEMAND_CAP = 2.0
"""λ counts up to this multiple of what could pass within Δ: a storm of retries, or a
lie, buys no more than wanting it all."""

FEWEST_AT_FIRST = 10
"""Agents assumed by a newcomer to whom nobody says how many there are."""

PARENT_S = 0.1
"""Seconds of its ceiling that an agent may hold for a group inside another: what
counts there is the parent's rate, not the group's own level."""

HIGH = 1e300
"""In place of an infinite θ where it is multiplied by a weight that may be 0."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds for all ledgers at one look.

    Attributes:
        now: Monotonic seconds.
        lag_s: Of the bus.
        loss: Part of the reports that are lost.
        age_s: Δ, after which the others know what was admitted.
        present: Agents assumed where a ledger's level is still asked for.
        mute: This agent does not hear its own reports.
        adrift: For so long that the others have dropped it.
        quorate: It hears most of the cluster.
        echoed: It has heard a report of its own: before, the lag is a guess.
    """

    now: float
    lag_s: float
    loss: float
    age_s: float
    present: float
    mute: bool
    adrift: bool = False
    quorate: bool = True
    echoed: bool = True


def share_out(  # noqa: PLR0915  # one calculation, in the order of its formulas
    block: LedgerBlock, slots: Index, on: Conditions, settings: Settings
) -> Flags:
    """Compute Q', θ, ρ and this agent's window of settled ledgers.

    Args:
        block: Changed: what is shared out, `burn`, `at_once`, `unseen` and `window`.
        slots: K of its columns.
        on: Lag and ages.
        settings: Parameters.

    Returns:
        ``bool[K]``, whether an agent wants anything there.
    """
    rate, burst = block.rate[slots], block.burst[slots]
    lines = block.lines(slots)
    weight = block.weight[lines, slots]
    present = weight > 0.0
    agents = np.maximum(np.count_nonzero(present, axis=0), 1).astype(np.float64)
    _know(block, slots, on)
    _agree(block, slots)
    belief = block.belief[slots]
    unseen = block.unseen[slots]
    common = np.minimum(belief + unseen, block.burst[slots])
    spare = np.maximum(common - block.aside[lines, slots].sum(axis=0), 0.0)

    told = block.demand[lines, slots]
    # Before it is capped: a cap of 0 is no rest.
    asked: Flags = np.logical_or.reduce(told, axis=0)
    most = rate + spare / on.age_s
    cap = DEMAND_CAP * np.where(block.strict[slots], rate, most)
    demand = np.where(present, np.minimum(told, cap), 0.0)
    # The others share out by the demand that they have heard of: with a newer one in
    # its place this agent would expect to spend what nobody expects of it.
    newest = np.minimum(told[0], cap)
    demand[0] = np.where(present[0], np.minimum(block.known_demand[slots], cap), 0.0)

    # Who is extrapolated, from told demands alone: all must find the same.
    cost = block.cost[lines, slots]
    total = demand.sum(axis=0)
    costly: Floats = (demand * cost).sum(axis=0)
    first: Floats = cost[0]
    mean_cost: Floats = np.where(total > 0.0, costly / np.maximum(total, 1e-300), first)
    quiet = (burst / QUIET_BURST) ** 2 / np.maximum(rate * mean_cost, 1e-300)
    quiet = np.minimum(np.maximum(quiet, on.age_s), settings.interval_s)
    usual = shares_at(water_level(demand, weight, rate), demand, weight)
    at_once = usual * quiet < AT_ONCE_COSTS * cost

    # m: one sigma of what those that are extrapolated admit unseen.
    unsure_s = on.lag_s + quiet / (1.0 - on.loss) ** 2
    variance = np.where(at_once, 0.0, cost * usual * unsure_s)
    owing = block.may_owe[slots]
    most_margin = MARGIN_PART * np.where(owing, burst, np.maximum(burst - cost[0], 0.0))
    whole_variance = variance.sum(axis=0)
    margin = np.minimum(MARGIN_SIGMAS * np.sqrt(whole_variance), most_margin)
    others = np.maximum(whole_variance - variance[0], 0.0)
    others_margin = np.minimum(MARGIN_SIGMAS * np.sqrt(others), most_margin)

    horizon = HORIZON_BURSTS * burst / np.maximum(rate, 1e-300)
    horizon = np.minimum(
        np.maximum(horizon, LAGS_AT_LEAST * on.lag_s), settings.horizon_s
    )
    horizon = np.maximum(horizon, LAGS_PER_HORIZON * on.lag_s)
    available = rate + (common - margin) / horizon
    available = np.where(block.strict[slots], rate, available)
    available = np.minimum(available, block.part[slots]) - block.reserved[slots]
    available = np.where(rate > 0.0, np.maximum(available, 0.0), 0.0)
    theta = water_level(demand, weight, available)
    share = shares_at(theta, demand, weight)
    slack = np.where(theta == inf, available - share.sum(axis=0), 0.0)
    own_most = weight[0] * np.minimum(theta, HIGH)

    block.agents[slots] = agents
    block.demand_cap[slots] = np.where(block.unlimited[slots], inf, cap)
    block.quiet_s[slots] = quiet
    block.margin[slots] = margin
    block.horizon[slots] = horizon
    block.available[slots] = available
    block.theta[slots] = theta
    block.slack[slots] = slack
    block.at_once[lines, slots] = at_once & present
    # A silent member goes on at its reserve, not at a share.
    burn = np.where(at_once, 0.0, share)
    burn = np.where(present, burn, block.burn[lines, slots])
    block.burn[lines, slots] = burn
    block.outflow[slots] = burn.sum(axis=0)
    swing = np.abs(burn[0] - block.told_burn[slots])
    block.swung[slots] = np.maximum(block.swung[slots], swing)
    # Silence of one that tells each admission means that there was none.
    ahead = block.ahead[lines, slots]
    unsaid = np.where(at_once & present, ahead, 0.0)
    block.ahead[lines, slots] = ahead - unsaid
    block.level[slots] -= unsaid[1:].sum(axis=0)
    block.share[slots] = np.minimum(newest, own_most)

    # a: the max-min part of the common level by what each wants within Δ.
    heavy = newest > NEAR * own_most
    pool = np.maximum(spare - np.where(heavy, others_margin, 0.0), 0.0)
    wants = demand * on.age_s
    wanted = wants.sum(axis=0)
    level = water_level(wants, weight, pool)
    window: Floats = shares_at(level, wants, weight)[0]
    even: Floats = weight[0] / np.maximum(weight.sum(axis=0), 1e-300)
    by_demand: Floats = np.where(
        wanted > 0.0, wants[0] / np.maximum(wanted, 1e-300), even
    )
    part: Floats = SLACK_BY_DEMAND * by_demand + (1.0 - SLACK_BY_DEMAND) * even
    window = np.where(level == inf, window + (pool - wanted) * part, window)
    noise_s = np.where(at_once[0], on.age_s, quiet)
    # By told demand: a rate that the others don't know is a change and no chance, and
    # in a herd all change at once.
    arriving = np.minimum(demand[0], rate)
    noise: Floats = NOISE_SIGMAS * np.sqrt(arriving * cost[0] * noise_s)
    noise = np.minimum(spare, noise)
    # Chance comes in whole requests.  One more than the first is as safe as the level
    # is above all that could come by chance.
    by_chance = np.minimum(demand, rate) * cost * np.where(at_once, on.age_s, quiet)
    unsure = np.where(at_once, np.minimum(demand, rate) * on.age_s, 0.0).sum(axis=0)
    unsure += NOISE_SIGMAS * np.sqrt(by_chance.sum(axis=0))
    one_more = (arriving > 0.0) & (spare - unsure >= cost[0])
    noise = np.where(one_more, np.maximum(noise, cost[0]), noise)
    window = np.where(heavy, window, np.maximum(window, noise))
    joining = block.joining_until[slots] > on.now
    if np.count_nonzero(joining):
        # It is not known yet who else is here.
        assumed = spare / np.maximum(agents, on.present)
        window = np.where(joining, np.minimum(window, assumed), window)
    block.window[slots] = np.where(_alone(block, slots, on), inf, window)
    return asked


def _know(block: LedgerBlock, slots: Index, on: Conditions) -> None:
    """Work out V: what was spent beyond what the others know of or expect.

    They know a counter once the report that told it has had its time on the bus, which
    is unknown until one came back.
    """
    at_once = block.at_once[0, slots]
    for name in ("known_ahead", "pending_ahead"):
        column = getattr(block, name)
        column[slots] = np.where(at_once, 0.0, column[slots])
    arrived = block.pending_at[slots] <= on.now - KNOWN_LAGS * on.lag_s
    if np.count_nonzero(arrived) and on.echoed and not on.mute:
        block.known_admitted[slots] = np.where(
            arrived, block.pending_admitted[slots], block.known_admitted[slots]
        )
        block.known_ahead[slots] = np.where(
            arrived, block.pending_ahead[slots], block.known_ahead[slots]
        )
        block.known_demand[slots] = np.where(
            arrived, block.pending_demand[slots], block.known_demand[slots]
        )
        # The newest report follows, if it left after the one that arrived.
        newer = arrived & (block.row_told_at[slots] > block.pending_at[slots])
        told = block.told_admitted[slots]
        block.pending_admitted[slots] = np.where(
            newer, told, block.pending_admitted[slots]
        )
        block.pending_ahead[slots] = np.where(
            newer, block.ahead[0, slots], block.pending_ahead[slots]
        )
        block.pending_demand[slots] = np.where(
            newer, block.told_demand[slots], block.pending_demand[slots]
        )
        then = np.where(arrived, inf, block.pending_at[slots])
        block.pending_at[slots] = np.where(newer, block.row_told_at[slots], then)
    unseen = block.admitted[0, slots] - block.known_admitted[slots]
    unseen -= block.known_ahead[slots]
    block.unseen[slots] = np.where(_alone(block, slots, on), 0.0, unseen)


def _agree(block: LedgerBlock, slots: Index) -> None:
    """Go over to the median of the levels that all believe in.

    Counters alone keep views apart that once differ: a newcomer was told a level a
    moment too late, a report was lost when the bucket was full.  Whoever believes in
    less than the others would be refused its part for ever.  The median, for one of
    them may lie; its own view has a voice, so that two meet half way.  Each voice
    counts once, when at least half of the others have told theirs, and only what is
    under way can't explain: else chance would add up.
    """
    lines = block.lines(slots)
    said = block.said[lines, slots]
    if np.count_nonzero(said == said):
        _compare(block, slots, said)
    apart = block.apart[lines, slots]
    voices = np.where(block.weight[lines, slots] > 0.0, apart, np.nan)
    heard = np.count_nonzero(voices == voices, axis=0)
    enough = (heard > 0) & (2 * heard >= block.used[slots] - block.holes[slots] - 1)
    enough &= ~(block.strict[slots] | block.unlimited[slots])
    if not np.count_nonzero(enough):
        return
    chosen = block.slots[slots][enough]
    voices = voices[:, enough]
    voices[0] = 0.0
    middle = np.nanmedian(voices, axis=0)
    explained = block.margin[chosen] + AGREED_COSTS * block.cost[0, chosen]
    shift = np.where(np.abs(middle) > explained, middle, 0.0)
    block.level[chosen] += shift
    block.belief[chosen] += shift
    block.apart[:, chosen] = np.nan


def _compare(block: LedgerBlock, slots: Index, said: Floats) -> None:
    """Note how far the levels that were told are from the own ones.

    Another knows its own counters, as they have just been entered here, and expects of
    this agent what all expect: so what it tells is the common level.
    """
    lines = block.lines(slots)
    since_s = block.at[slots] - block.told_at[lines, slots]
    common = np.minimum(block.belief[slots] + block.unseen[slots], block.burst[slots])
    grown = (block.rate[slots] - block.outflow[slots]) * since_s
    off = np.minimum(said + grown, block.burst[slots]) - common
    # What was heard here within Δ the other may not have heard when it told.
    known = np.copysign(np.maximum(np.abs(off) - block.news[slots], 0.0), off)
    apart = block.apart[lines, slots]
    block.apart[lines, slots] = np.where(said == said, known, apart)
    block.said[lines, slots] = np.nan


AGREED_COSTS = 2.0
"""Costs by which views may differ: requests of which not all have heard yet."""

KNOWN_LAGS = 1.4
"""A report has arrived everywhere after so many lags: the jitter of the bus."""


def note_told(
    block: LedgerBlock, slots: Index, admitted: Floats, demand: Floats, now: float
) -> None:
    """Note that the own rows of some ledgers were told.

    Args:
        block: Changed: what the others will know.
        slots: K of its columns.
        admitted: ``float64[K]`` the counters that were told.
        demand: ``float64[K]`` the demands, units/s.
        now: Monotonic seconds.
    """
    # What the others expect begins anew, counted from now on: at `at` it was less.
    unexpected = -block.burn[0, slots] * (now - block.at[slots])
    free = block.pending_at[slots] == inf
    block.pending_admitted[slots] = np.where(
        free, admitted, block.pending_admitted[slots]
    )
    block.pending_ahead[slots] = np.where(free, unexpected, block.pending_ahead[slots])
    block.pending_demand[slots] = np.where(free, demand, block.pending_demand[slots])
    block.pending_at[slots] = np.where(free, now, block.pending_at[slots])
    block.ahead[0, slots] = unexpected
    block.told_burn[slots] = block.burn[0, slots]
    block.swung[slots] = 0.0
    block.told_admitted[slots] = admitted
    block.told_demand[slots] = demand
    block.row_told_at[slots] = now


def _alone(block: LedgerBlock, slots: Index, on: Conditions) -> Flags:
    """Return ``bool[K]``: nobody else can have a part in it, silent ones included."""
    if on.mute:
        return np.zeros(len(block.slots[slots]), dtype=np.bool_)
    joining = (block.joining_until[slots] > on.now) & (on.present > 1.0)
    alone: Flags = block.used[slots] - block.holes[slots] == 1
    alone &= block.weight[0, slots] > 0.0
    alone &= ~joining
    return alone


def start_level(
    block: LedgerBlock, slot: int, on: Conditions, settings: Settings
) -> float:
    """Return the level of a ledger that neither the API nor another agent knows.

    The margin that full demand would need.  Never a full bucket: an agent that is
    restarted every few seconds would get a burst each time.
    """
    rate, burst = block.rate.item(slot), block.burst.item(slot)
    unseen_s = on.lag_s + settings.interval_s
    margin = MARGIN_SIGMAS * sqrt(block.own_cost.item(slot) * rate * unseen_s)
    return min(margin, MARGIN_PART * burst)


def own_ceilings(
    block: LedgerBlock, slots: Index, on: Conditions, settings: Settings
) -> Ceilings:
    """Return what this agent's buckets may do in ledgers just shared out."""
    rate, burst = block.rate[slots], block.burst[slots]
    lines = block.lines(slots)
    burn, window = block.burn[lines, slots], block.window[slots]
    alone = window == inf
    size = len(rate)
    aside = block.aside[lines, slots].sum(axis=0)
    expected = burn[0]
    share = block.share[slots]
    # Below θ an agent may exceed its mean by the noise of its own arrivals.
    noisy = share + np.sqrt(2.0 * share * block.own_cost[slots])
    own_most = block.weight[0, slots] * np.minimum(block.theta[slots], HIGH)
    sustained = np.minimum(noisy, own_most) + block.slack[slots] / block.agents[slots]
    reserve, most = alone_of(block, slots, quorate=on.quorate, adrift=on.adrift)
    new = Ceilings(
        shared=np.ones(size, dtype=np.bool_),
        share=share,
        ceiling=sustained,
        # A bucket that nobody shares is exact, and knows its level best itself.
        level=np.where(
            alone & block.bucket_knows[slots], nan, block.belief[slots] - aside
        ),
        rate=rate - burn[1:].sum(axis=0),
        capacity=burst - aside,
        room=window - block.unseen[slots],
        window=window,
        expected_rate=expected,
        room_cap=np.full(size, inf),
        # The first request that is not known may pass all the same.
        cautious=(np.maximum(block.told_demand[slots], block.demand[0, slots]) <= 0.0)
        & ~alone,
        quota=rate,
        least_delay_s=np.where(alone, 0.0, on.age_s),
        reserve=reserve,
    )
    block.bucket_knows[slots] = True
    new = _inside(block, slots, new, settings)
    if on.mute or not on.quorate:
        new = _cut_off(block, slots, new, most, on)
    if np.count_nonzero(block.strict[slots]):
        new = _strictly(block, slots, most, new)
    return _unlimited(block, slots, new)


def _inside(
    block: LedgerBlock, slots: Index, new: Ceilings, settings: Settings
) -> Ceilings:
    """Keep groups inside others to their part of the parent's rate.

    A group's own level says nothing of what its parent has left: there the room is a
    bucket that fills at this agent's part of the parent's rate, and reports don't
    empty it.
    """
    parent = block.direct[slots] == block.direct[slots]  # not NaN
    inside = parent | (block.part[slots] < inf)
    if not np.count_nonzero(inside):
        return new
    rate, cost = block.rate[slots], block.own_cost[slots]
    theta = block.theta[slots]
    demand = np.minimum(block.demand[0, slots], block.demand_cap[slots])
    # What the group's own callers want of it: the children have their part.
    demand = np.where(parent, block.direct[slots], demand)
    theta = np.where(parent, block.direct_theta[slots], theta)
    most = block.weight[0, slots] * np.minimum(theta, HIGH)
    slack = block.slack[slots] * np.maximum(
        1.0 / block.agents[slots], settings.slack_part
    )
    noisy = demand + np.sqrt(2.0 * demand * cost)
    ceiling = np.minimum(most, noisy) + slack
    share = np.minimum(demand, most)
    bucket_s = np.minimum(
        0.25 * block.burst[slots] / np.maximum(rate, 1e-300), PARENT_S
    )
    room = np.maximum(ceiling * bucket_s, np.sqrt(0.5 * share * cost))
    return replace(
        new,
        share=np.where(inside, share, new.share),
        ceiling=np.where(inside, ceiling, new.ceiling),
        room=np.where(inside, nan, new.room),
        window=np.where(inside, room, new.window),
        expected_rate=np.where(inside, ceiling, new.expected_rate),
        room_cap=np.where(inside, room, new.room_cap),
        cautious=new.cautious & ~inside,
    )


def _cut_off(
    block: LedgerBlock, slots: Index, new: Ceilings, most: Floats, on: Conditions
) -> Ceilings:
    """Keep to what the others reserve for this agent, as a bucket of its own."""
    own = np.full(len(most), on.mute) | (most == 0.0)
    reserve = np.minimum(new.reserve, most)
    quota = np.maximum(block.rate[slots], 1e-300)
    part = np.minimum(np.where(reserve == inf, 1.0, reserve / quota), 1.0)
    return replace(
        new,
        shared=new.shared & ~own,
        rate=np.where(own, reserve, new.rate),
        capacity=np.where(own, part * block.burst[slots], new.capacity),
        ceiling=np.where(own, reserve, new.ceiling),
    )


def _strictly(
    block: LedgerBlock, slots: Index, most: Floats, new: Ceilings
) -> Ceilings:
    """Put rights in the place of shares, where groups are strict."""
    strict, rate = block.strict[slots], block.rate[slots]
    right = block.right[slots]
    # Rights say nothing of a parent that has less to give, nor of children that take
    # a part: then that rules, too.
    direct = block.direct[slots]
    bound = (block.part[slots] < rate) | (direct == direct)
    within = np.where(bound, new.ceiling, inf)
    ceiling = np.minimum(np.minimum(right * rate, most), within)
    return replace(
        new,
        shared=new.shared & ~strict,
        share=np.where(strict, right * rate, new.share),
        ceiling=np.where(strict, ceiling, new.ceiling),
        rate=np.where(strict, ceiling, new.rate),
        capacity=np.where(strict, right * block.burst[slots], new.capacity),
        reserve=np.where(strict, 0.0, new.reserve),
    )


def _unlimited(block: LedgerBlock, slots: Index, new: Ceilings) -> Ceilings:
    unlimited = block.unlimited[slots] | (~new.shared & (new.rate == inf))
    if not np.count_nonzero(unlimited):
        return new
    return replace(
        new,
        shared=new.shared & ~unlimited,
        share=np.where(unlimited, inf, new.share),
        ceiling=np.where(unlimited, inf, new.ceiling),
        rate=np.where(unlimited, inf, new.rate),
        capacity=np.where(unlimited, inf, new.capacity),
        reserve=np.where(unlimited, inf, new.reserve),
    )


def allocated_of(block: LedgerBlock, slot: int) -> Floats:
    """Return the shares, ``float64[A]``, as told demands give them.

    Of a silent member its reserve.
    """
    weight = block.weight[:, [slot]]
    demand = block.demand[:, [slot]].copy()
    demand[0] = block.known_demand[slot]
    demand = np.minimum(demand, block.demand_cap[slot])
    share = shares_at(block.theta[slot : slot + 1], demand, weight)[:, 0]
    return np.where(weight[:, 0] > 0.0, share, block.burn[:, slot])
