"""How much this agent may spend before the others know about it and have answered.

**Unseen and unheeded.**  Once the others know what agent i spent, they leave more to
it, but what they had spent by then is still on its way.  So what they learnt beyond
what they expected counts against the window until that must have been heard, h later:
the rule (`headgate.coordinator.allocation.shares`) compares V' = V + (what they learnt
within h) with a part of C' = E + V'.  A part that grows waits in the same way, and so
does the rate that they expect.  See
docs/decisions/0071-what-others-know-counts-until-they-have-answered.md.

**The window** a_i is agent i's max-min part of C' according to what each agent wants
within Δ.  If all of that fits, the rest is divided mostly evenly, because nobody knows
who will start next.  An agent below θ may exceed its part by the noise of its own
arrivals: chance is not misuse.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.conditions import NEAR, ROUNDING
from headgate.coordinator.allocation.max_min import FINITE, level_of, shares_at
from headgate.coordinator.ledger.replay import own_news, seen_by_all
from headgate.coordinator.table.one_or_many import (
    chosen,
    greater,
    lesser,
    root,
    some,
    total,
    without,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Asked, Conditions
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock

NOISE_SIGMAS = 3.0
"""Sigmas of its arrivals by which an agent below θ may exceed its part."""

KNOWN_LAGS = 1.4
"""Lags after which a report has arrived everywhere, allowing for the bus's jitter."""

UNSURE_LAGS = 4.0
"""For this many lags after it has learnt the levels, an agent reports none itself: rows
still on their way date from when all agents spent even parts, but are extrapolated at a
share."""

HEED_AT_MOST_S = 0.1
"""Where h is longer, nothing waits to be heeded, but counts at once instead: a bucket
of a second overflows meanwhile although all expect this agent to spend, and their
levels become too high; on a bus with 0.3 to 0.6 s of delay by 0.08 s of the quota."""

HEED_LARGE_AT_MOST_S = 1.0
"""The same for large bursts; one echo that is late by half a minute, after the bus
stood still, must not make everybody wait."""

HEED_PART = 0.03
"""A burst is large if what the rate earns within h is no more than this part of it.
Three agents that want 30 s of the rate at once, on a bus with 60 ms of delay, were over
by 222 of 1,500 units without the wait, and aren't with it; with 0.1, eight agents that
want 10 s of it got 0.973 of one bucket on a bus with 0.3 s, instead of 1.0."""

AHEAD_COSTS = 0.5
"""What the others expect beyond the rate that they have left is awaited once it is so
many requests: each wait begins anew with what is added to it."""

GROWTH_AGES = 3.0
"""A part may exceed what the others have left by an even part of what flows in within
so many Δ.  Without this, an agent that takes over 80 % of the quota is refused 0.3 % of
its requests, instead of 0.2 %."""


def heed_s(block: LedgerBlock, slots: Index, on: Conditions) -> Floats | float:
    """Return h, seconds, ``float64[K]`` or for all; 0 where nothing waits.

    Who has just reported is waited for there, too, until it may report again.
    """
    if on.heed_s <= HEED_AT_MOST_S:
        return on.heed_s
    if on.heed_s > HEED_LARGE_AT_MOST_S:
        return 0.0
    earned = on.heed_s * block.rate[slots]
    return chosen(earned <= HEED_PART * block.burst[slots], on.heed_s, 0.0)


def know(block: LedgerBlock, slots: Index, on: Conditions, alone: Flags) -> None:
    """Compute V and V': what was spent beyond what the others know or have heeded.

    They know a counter once its report has had enough time on the bus, and has come
    back: before, nobody knows how long that takes, and a bus that is gone tells nobody.
    What they expect, or what is paid for, counts as known, and as heeded.
    """
    at_once = block.at_once[0, slots]
    known_before = block.known_admitted[slots] + block.known_predicted[slots]
    for column in (block.known_predicted, block.pending_predicted):
        column[slots] = chosen(at_once, 0.0, column[slots])
    by = on.now - KNOWN_LAGS * on.lag_s - on.unheard_s
    arrived = block.pending_at[slots] <= by
    if some(arrived) and not on.cut_off:
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
    since = block.ahead_since[slots] + 0.0  # a copy
    enough = since > AHEAD_COSTS * block.cost[0, slots]
    ahead = chosen(enough, since, 0.0)
    block.ahead_since[slots] = chosen(enough, 0.0, since)
    unheeded = _heed(block, slots, known - known_before + ahead, on)
    block.ahead[slots] = lesser(block.ahead[slots] + ahead, unheeded)
    admitted = block.admitted[0, slots]
    seen = seen_by_all(block, slots)
    block.unseen[slots] = chosen(alone, 0.0, admitted - seen)
    seen = seen_by_all(block, slots, unheeded)
    block.unheeded[slots] = chosen(alone, 0.0, admitted - seen)


def _heed(block: LedgerBlock, slots: Index, told: Floats, on: Conditions) -> Floats:
    """Return ``float64[K]`` units that the others know and may not have heeded.

    `told` is what they just learnt beyond what they expected, ``float64[K]``.
    """
    if some(told):
        idle = block.heeding_at[slots] == inf
        for units, at, here in (
            (block.heeding, block.heeding_at, idle),
            (block.heeding_next, block.heeding_next_at, ~idle),
        ):
            units[slots] += chosen(here, told, 0.0)
            at[slots] = chosen(here & (told != 0.0), on.now, at[slots])
    for _ in range(2):  # the second wait may be over with the first
        heeded = _heeded(block, slots, block.heeding_at[slots], on)
        if not some(heeded):
            break
        for first, second, none in (
            (block.heeding, block.heeding_next, 0.0),
            (block.heeding_at, block.heeding_next_at, inf),
        ):
            first[slots] = chosen(heeded, second[slots], first[slots])
            second[slots] = chosen(heeded, none, second[slots])
    return greater(block.heeding[slots] + block.heeding_next[slots], 0.0)


def _heeded(block: LedgerBlock, slots: Index, at: Floats, on: Conditions) -> Flags:
    """Return ``bool[K]``: by now the others' answers to what they learnt then are here.

    Who had just reported something else when it learnt that had to wait before it could
    report again, and may have spent its part meanwhile.
    """
    before = on.now - heed_s(block, slots, on)
    heeded: Flags = at <= before
    reported = block.reported_at[block.lines(slots), slots][1:]
    if not len(reported) or not some(heeded):
        return heeded
    speaks_at = chosen(reported < at, reported + on.settings.urgent_gap_s, -inf)
    heeded &= np.maximum.reduce(speaks_at, axis=0) <= before
    return heeded


def window_of(block: LedgerBlock, slots: Index, asked: Asked, on: Conditions) -> Floats:
    """Return a, ``float64[K]``: the max-min part of C' by demand within Δ."""
    own_weight, spare = asked.own_weight, asked.spare
    own_most = own_weight * lesser(block.theta[slots], FINITE)
    heavy = asked.newest > NEAR * own_most
    pool = greater(spare - chosen(heavy, block.others_margin[slots], 0.0), 0.0)
    level = level_of(asked.demand, asked.weight, pool / on.age_s, asked.wanted)
    window = shares_at(level, asked.demand[0], own_weight) * on.age_s
    even = own_weight / greater(block.present_weight[slots], 1e-200)
    left = pool - asked.wanted * on.age_s
    window = chosen(level == inf, window + left * even, window)
    part = chosen(pool > 0.0, window / greater(pool, 1e-200), block.part[slots])
    growth = GROWTH_AGES * on.age_s * block.rate[slots] * even
    waits = block.part, block.part_next, block.part_next_at
    window = lesser(window, _share_left(block, slots, part, waits, on) * pool + growth)
    noise = _noise(block, slots, asked, on)
    window = chosen(heavy, window, greater(window, noise))
    bootstrap = block.joining_until[slots] > on.now
    if some(bootstrap):
        # Which other agents exist is not known yet.
        assumed = spare / greater(block.agents[slots], on.present)
        window = chosen(bootstrap, lesser(window, assumed), window)
    return window


def room_of(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return ``float64[K]`` units that this agent may spend; its bucket adds a request.

    They are what is left of its window.  What the others know or expect it may spend
    at any time, as far as they have left it.
    """
    unspent = -block.unseen[slots]
    unspent = lesser(unspent, greater(unspent - block.ahead[slots], 0.0))
    return greater(block.window[slots] - block.unheeded[slots], unspent)


def set_rate_left(
    block: LedgerBlock, slots: Index, asked: Asked, on: Conditions
) -> None:
    """Set how much of its own ρ the others have left to this agent.

    They expect a larger one at once, but may have spent their parts of the same level.
    Its part of Q counts at once: that is no more than Q · h too much.
    """
    expected = block.extrapolated_rate[0, slots]
    waits = block.rate_left, block.rate_next, block.rate_next_at
    left = _share_left(block, slots, expected, waits, on)
    flowing = block.fair_part[slots] * lesser(asked.wanted, block.rate[slots])
    block.rate_left[slots] = greater(left, lesser(expected, flowing))


def _share_left(
    block: LedgerBlock,
    slots: Index,
    due: Floats,
    waits: tuple[Floats, Floats, Floats],
    on: Conditions,
) -> Floats:
    """Return ``float64[K]``: what of a share the others have left to this agent.

    What is `due` to it grows because theirs shrinks.  They may have spent what they had
    before, so it counts when that would have been heard.

    Args:
        block: Read, but for the columns of `waits`.
        slots: K of its columns.
        due: ``float64[K]`` the share by what is known now.
        waits: Columns, changed: what is left, what follows, and when that was found.
        on: h.
    """
    left_before, next_before, next_at = waits
    left = lesser(left_before[slots], due)
    found_at = next_at[slots]
    idle = found_at == inf
    following = chosen(idle, due, lesser(next_before[slots], due))
    found_at = chosen(due > left + ROUNDING, chosen(idle, on.now, found_at), inf)
    heeded = _heeded(block, slots, found_at, on)
    left_before[slots] = left = chosen(heeded, greater(following, left), left)
    # What it grew by meanwhile counts later.
    later = chosen(due > left + ROUNDING, on.now, inf)
    next_at[slots] = chosen(heeded, later, found_at)
    next_before[slots] = chosen(heeded, due, following)
    return left


def _noise(block: LedgerBlock, slots: Index, asked: Asked, on: Conditions) -> Floats:
    """Return ``float64[K]`` units by which this agent may exceed its part by chance.

    Computed from reported demand: a rate that the others don't know yet is a change,
    not chance, and in a herd all agents change at once.
    """
    quiet, cost, spare = block.quiet_s[slots], asked.cost, asked.spare
    at_once = block.at_once[block.lines(slots), slots]
    arriving = lesser(asked.demand, block.rate[slots])
    own, own_cost = arriving[0], cost[0]
    # Nothing is expected of who reports each admission, so V' isn't 0 on average.
    own_s = chosen(at_once[0], on.age_s + heed_s(block, slots, on), quiet)
    mean = chosen(at_once[0], own * own_s, 0.0)
    noise: Floats = lesser(spare, mean + NOISE_SIGMAS * root(own * own_cost * own_s))
    # Chance comes in whole requests.  One more than the first is safe as far as the
    # level exceeds everything that could arrive by chance.
    by_chance = quiet * total(arriving * cost)
    unsure: Floats | float = 0.0
    if some(at_once):
        untold = without(~at_once, arriving)
        by_chance += (on.age_s - quiet) * total(untold * cost)
        unsure = total(untold) * on.age_s
    unsure = unsure + NOISE_SIGMAS * root(greater(by_chance, 0.0))
    one_more = (own > 0.0) & (spare - unsure >= own_cost)
    return chosen(one_more, greater(noise, own_cost), noise)


def note_told(
    block: LedgerBlock,
    slots: Index,
    admitted: Floats,
    demand: Floats,
    now: float,
    lag_s: float,
) -> None:
    """Note that this agent's rows of some ledgers were reported.

    Args:
        block: Changed: what the others will know, and what is news to them.
        slots: K of its columns.
        admitted: ``float64[K]`` reported counters.
        demand: ``float64[K]`` reported demand, units/s.
        now: Monotonic seconds.
        lag_s: Lag of the bus.
    """
    # The others' expectation restarts from 0 now, so at the earlier `at` it was
    # negative.
    unexpected = -block.extrapolated_rate[0, slots] * (now - block.at[slots])
    grown = admitted - block.reported_admitted[slots]
    news = np.abs(grown - block.predicted[0, slots] + unexpected)
    block.own_news[slots] = own_news(block, slots, now, lag_s) + news
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
    block.told_at[slots] = np.minimum(block.told_at[slots], now)
