"""The ledger: every agent replays the group's one token bucket from counters.

Per ledger, with rate Q and burst B::

    L   level by reported counters:      L += Q·Δt − Σ_j ΔA_j
    P   admitted but not yet reported:   Σ_{j≠i} ∫ρ_j since j's row was true
    E = L − P, at most B; then L = E + P

**Why counters and not rates?**  A_j is cumulative: a lost, doubled or reordered report
loses nothing, since the next one carries everything.  So the ledger's error is not a
sum over reports but only what is unseen now, at most Σ_j |a_j − ρ_j|·age_j.

**Why is E never clamped from below?**  L is a sum of counters, so all agents together
admit exactly B + Q·t − overflow − L: any excess is paid back.  A clamp forgives it.

**Why is E clamped and not L?**  A part P of what L shows is spent already.  Clamping L
at B would subtract the unreported part twice, and with a burst smaller than Q·T, 4 to
30 % of the quota would be lost (measured).

**Overflow comes first.**  What a full bucket earned before a charge is lost and must
not pay for that charge, even if the charge is heard of later.  So the level is cut at B
as of the time at which another agent reported its charge; for this agent's own charges
its own bucket counts the overflow.

**Own use is exact.**  This agent's own counters enter at each tick.  In row 0,
`predicted` is what the *others* assume, kept to decide when to report
(`headgate.coordinator.gossip.schedule`).

**What is charged?**  What was counted, as soon as it is reported; until then, what is
predicted: ρ while a member is heard, its reserve while it is silent.  When a silent
member is heard again before it is dropped, its counters replace the prediction.  An
impossible counter is charged as predicted.

Invariant, after each function of this module: L = E + Σ_{j≠i} predicted_j.
"""

from __future__ import annotations

from math import e, inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.table.one_or_many import (
    chosen,
    faded,
    greater,
    lesser,
    single,
    some,
    total,
)

if TYPE_CHECKING:
    from headgate.coordinator.messages.report import Rows
    from headgate.coordinator.table.arrays import Flags, Floats, Index, LedgerBlock
    from headgate.coordinator.table.index import Place, Table

GRACE_S = 0.2
"""Seconds added to the gap between two reports when judging whether a counter is
possible: jitter of the bus and of the sender's ticks."""

GRACE_COSTS = 5.0
"""Requests by which any counter may grow in addition to its rate."""

PLAUSIBLE_S = 3.0
"""How long what was allowed stays plausible, seconds: a report covers the time before
the newest calculation, and a limit may just have been lowered."""

LEAST_LAG_S = 1e-3
"""The lag counts for at least this much, seconds."""

LEAD_S = 10.0
"""How long a lead is remembered, seconds: what an agent admitted that has ended, or
asks no more, would otherwise stay a lead of the others."""

ERROR_S = 1.0
"""How long the deepest debt is remembered, seconds."""


def settle(
    block: LedgerBlock,
    slots: Index,
    now: Floats | float,
    age_s: float = 0.1,
    lag_s: float = 0.025,
) -> None:
    """Bring ledgers to `now`.

    Args:
        block: Changed: `level`, `predicted`, `at`, `belief`, `cut`, `full`, `error`,
            `lead`, `untaken` and what this agent is expected to spend.
        slots: K of its columns.
        now: Monotonic seconds; ``float64[K]`` or one for all.
        age_s: Δ, after which all charges of a moment are known.
        lag_s: Lag of the bus.
    """
    slots = single(slots)
    elapsed = now - block.at[slots]
    lately = faded(elapsed, age_s)
    # What was spent since the last look may be newer than what flowed in.
    paying = block.paying[slots]
    paid = lesser(seen_by_all(block, slots) + paying * elapsed, block.payable[slots])
    paid = chosen(paying > 0.0, paid, 0.0)
    block.paid[slots] = greater(block.paid[slots], paid)
    block.payable[slots] = block.admitted[0, slots]
    predicted_in_all = _predict(block, slots, elapsed, now, age_s)
    # Give back what was cut at B although it had been spent, but was reported late.
    back = lesser(block.late[slots], block.cut[slots])
    block.cut[slots] -= back
    block.level[slots] += back
    _note_turns(block, slots, elapsed)
    block.late[slots] = 0.0
    believed = block.level[slots] + block.rate[slots] * elapsed - predicted_in_all
    belief: Floats = lesser(believed, block.burst[slots])
    block.full[slots] = believed >= block.burst[slots]
    may_overflow = believed + predicted_in_all >= block.burst[slots]
    block.full_at[slots] = chosen(may_overflow, now, block.full_at[slots])
    overflowing = greater(believed - block.burst[slots], 0.0)
    overflowing = _may_pay(block, slots, overflowing, elapsed - age_s)
    block.cut[slots] = block.cut[slots] * lately + overflowing
    block.news[slots] *= lately
    block.unheard[slots] *= faded(elapsed, max(lag_s, LEAST_LAG_S))
    block.level[slots] = belief + predicted_in_all
    block.belief[slots] = belief
    block.at[slots] = now
    remembered = block.error[slots] * faded(elapsed, ERROR_S)
    block.error[slots] = greater(remembered, -belief)
    likely = lesser(2.0 * block.theta[slots], 0.5 * block.demand_cap[slots])
    plausible = block.plausible[slots] * faded(elapsed, PLAUSIBLE_S)
    block.plausible[slots] = greater(plausible, likely)


def _predict(
    block: LedgerBlock,
    slots: Index,
    elapsed: Floats,
    now: Floats | float,
    age_s: float,
) -> Floats:
    """Let agents spend what is expected of them; return Σ of the others' by then.

    An agent that reports each admission at once is silent because there was none, so
    what it was expected to spend before is given back, but not before it can know that
    it is such an agent, and its row can have come.
    """
    lines = block.lines(slots)
    rate = block.extrapolated_rate[lines, slots]
    predicted = block.predicted[lines, slots]
    fading = block.at_once[lines, slots] & (predicted != 0.0)
    if some(fading):
        fading &= block.at_once_since[lines, slots] < now - age_s
        predicted = chosen(fading, predicted * faded(elapsed, age_s), predicted)
    grown = rate * elapsed
    # The others make the same prediction for this agent, from each counter they may
    # have.
    block.known_predicted[slots] += grown[0]
    block.pending_predicted[slots] += grown[0]
    block.ahead_since[slots] += grown[0] - block.rate_left[slots] * elapsed
    grown += predicted
    block.predicted[lines, slots] = grown
    return total(grown[1:])


def _note_turns(block: LedgerBlock, slots: Index, elapsed: Floats) -> None:
    """Let a lead fade, and count the requests of others that may have come."""
    block.lead[slots] *= faded(elapsed, LEAD_S)
    cost = block.cost[0, slots]
    allowed = block.belief[slots] >= chosen(block.may_owe[slots], 0.0, cost)
    missing = chosen(allowed, block.awaited_per_s[slots] * elapsed, 0.0)
    block.untaken[slots] += missing


def _note_came(block: LedgerBlock, slots: Index, came: Flags) -> None:
    """Note where a request came of an agent that reports each, ``bool[K]``."""
    if some(came):
        at = slots if isinstance(slots, int) else block.slots[slots][came]
        block.untaken[at] = 0.0


def _may_pay(
    block: LedgerBlock, slots: Index, overflowing: Floats, earlier_s: Floats
) -> Floats:
    """Return ``float64[K]``: what of an overflow can pay for charges that come late.

    Of a rest it is the end alone.  An agent that was paused, by contrast, hears of
    charges from all that time.
    """
    resting = block.due[slots] == inf
    if not some(resting):
        return overflowing
    earlier = block.rate[slots] * greater(earlier_s, 0.0)
    return greater(overflowing - chosen(resting, earlier, 0.0), 0.0)


def seen_by_all(
    block: LedgerBlock, slots: Index, unheeded: Floats | float = 0.0
) -> Floats:
    """Return ``float64[K]``: the own counter up to which nothing is unseen.

    Either all know or expect it, or it is paid for.

    Args:
        block: Read.
        slots: K of its columns.
        unheeded: ``float64[K]`` units of what they know that don't count.
    """
    known = block.known_admitted[slots] + block.known_predicted[slots] - unheeded
    return greater(known, lesser(block.paid[slots], block.admitted[0, slots]))


def own_news(
    block: LedgerBlock, slots: Index, now: Floats | float, lag_s: float
) -> Floats:
    """Return ``float64[K]`` units that were news when reported, and may be so still.

    The report took one lag, and so does the one that shows that it was heard.
    """
    told_s = greater(now - block.row_reported_at[slots], 0.0)
    left = faded(told_s, (HEARD_LAGS + 1.0) * max(lag_s, LEAST_LAG_S))
    return block.own_news[slots] * left


def seen_by(block: LedgerBlock, slots: Index, heard: Flags) -> Floats:
    """Return ``float64[K]``: the own counter up to which another agent knows all.

    Args:
        block: Read.
        slots: K of its columns.
        heard: ``bool[K]`` it knew this agent's last report, although not all agents may
            know it yet.
    """
    seen = seen_by_all(block, slots)
    reported = block.reported_admitted[slots] + block.predicted[0, slots]
    return chosen(heard, greater(seen, reported), seen)


def common_level(
    block: LedgerBlock, slots: Index, at_s: Floats | float, seen: Floats
) -> Floats:
    """Return ``float64[K]`` C = E + V at a time near the last calculation, at most B.

    The others don't know what this agent has not reported yet, so this is the level
    that they would report if they have heard the same.

    Args:
        block: Read.
        slots: K of its columns.
        at_s: Monotonic seconds.
        seen: ``float64[K]`` own counter that the other agent knew.
    """
    grown = (block.rate[slots] - block.outflow[slots]) * (at_s - block.at[slots])
    unseen = block.admitted[0, slots] - seen
    return lesser(block.belief[slots] + unseen + grown, block.burst[slots])


def keeps_own(block: LedgerBlock, slots: Index) -> Flags:
    """Return ``bool[K]``: in doubt, and yet right once all counters are heard.

    Nobody knows when a bucket overflowed that may have been full meanwhile.  Any other
    needs nothing of the levels that others tell
    (docs/decisions/0088-a-level-is-taken-only-where-the-bucket-may-have-been-full.md).
    """
    since = block.doubtful_since[slots]
    keeps: Flags = (since < inf) & (block.full_at[slots] < since)
    return keeps


def charge_own(
    block: LedgerBlock,
    slots: Index,
    admitted: Floats,
    overflowed: Floats,
    since: float,
    now: float,
    used: Flags,
) -> None:
    """Enter this agent's own counters, exactly.

    Args:
        block: Changed.
        slots: K of its columns.
        admitted: ``float64[K]`` this agent's counters.
        overflowed: ``float64[K]`` what its buckets earned while they were full; NaN if
            no bucket counts that.
        since: When these counters were last read, monotonic seconds.
        now: When they were read now.
        used: ``bool[K]`` callers have asked since, whether or not they were admitted.
    """
    grown = admitted - block.admitted[0, slots]
    lost = overflowed - block.overflowed[slots]
    uncounted = overflowed != overflowed  # NaN
    if some(uncounted):
        spent = total(block.extrapolated_rate[1:, slots])
        earned = (block.rate[slots] - spent) * (since - block.at[slots])
        over = block.belief[slots] + greater(earned, 0.0) - block.burst[slots]
        lost = chosen(uncounted, chosen(grown > 0.0, greater(over, 0.0), 0.0), lost)
    # What overflowed before the last calculation was cut off there.
    lost = lesser(lost, block.rate[slots] * (now - block.at[slots]))
    resting = block.due[slots] == inf
    if some(resting):
        # The local bucket's terms have expired, so its overflow counter is not used.
        lost = chosen(resting, 0.0, lost)
        _wake(block, slots, since, used)
    block.cut[slots] += lost
    charged = grown + lost
    block.lead[slots] += grown * (1.0 - block.fair_part[slots])
    block.level[slots] -= charged
    block.belief[slots] -= charged
    block.admitted[0, slots] = admitted
    block.overflowed[slots] = chosen(uncounted, 0.0, overflowed)


def hear(
    place: Place,
    rows: Rows,
    reported_at: Floats | float,
    *,
    lag_s: float,
    loss: float,
    reported_together: bool = False,
) -> Flags:
    """Enter rows of reports.

    Args:
        place: Where they stand; rows of the report that stand elsewhere are ignored.
        rows: Of one dimension.
        reported_at: When they were true, monotonic seconds; ``float64[K]`` or one for
            all.
        lag_s: Lag of the bus.
        loss: Fraction of the reports that are lost.
        reported_together: The rows are of several members, so two may belong to one
            ledger; no ledger at rest may have overflowed.

    Returns:
        ``bool[K]`` counters that could not be true, and were charged as predicted.
    """
    block, at, slots, cells = place.block, place.rows, place.slots, place.cells
    if not reported_together:
        at, slots, cells = single(at), single(slots), single(cells)
    counters, predicted = block.admitted.reshape(-1), block.predicted.reshape(-1)
    reported_before = block.reported_at.reshape(-1)
    extrapolated_rate = block.extrapolated_rate.reshape(-1)[cells]
    reported = rows.admitted[at]
    grown = reported - counters[cells]
    if not reported_together:
        _wake(block, slots, reported_at, grown > 0.0)
    then, since, heard_before = block.at[slots], reported_at, reported_before[cells]
    unlimited_then: Flags = heard_before < block.limited_at[slots]
    if some(unlimited_then):
        unlimited_then &= heard_before > 0.0
        reported, grown, since = _since_limited(
            block,
            slots,
            unlimited_then,
            reported,
            grown,
            rows.counting[at],
            reported_at,
        )
    # Any member may have spent the burst; most reports are of less.
    wrong: Flags = (grown > block.burst[slots]) | (grown < 0.0)
    if some(wrong):
        gap_s = reported_at - heard_before
        most = _most_possible(block, slots, rows.cost[at], extrapolated_rate, gap_s)
        most += _announced(block, slots, rows, at, unlimited_then)
        wrong = ((grown > most) | (grown < 0.0)) & ~block.unlimited[slots]
    expected = predicted[cells]
    charged = chosen(grown != grown, 0.0, grown)  # NaN: a baseline
    if some(wrong):
        presumed = greater(expected + extrapolated_rate * (reported_at - then), 0.0)
        charged = chosen(wrong, presumed, charged)
    now_ahead = extrapolated_rate * (then - since)
    _note_came(block, slots, block.at_once.reshape(-1)[cells] & (grown > 0.0))
    more = charged + now_ahead - expected
    _charge(block, slots, charged, more, together=reported_together)
    counters[cells] = reported
    predicted[cells] = now_ahead
    _copy(block, rows, at, cells)
    reported_before[cells] = reported_at
    if rows.level is not None:
        _compare(block, slots, cells, rows.level[at], reported_at, more, lag_s, loss)
    _moved_by_others(block, slots)
    return wrong & ~unlimited_then


def _moved_by_others(block: LedgerBlock, slots: Index) -> None:
    """Have the own bucket told: also if those others are gone by the next look."""
    block.dirty[slots] = True
    block.bucket_knows[slots] = False


def _copy(block: LedgerBlock, rows: Rows, at: Index, cells: Index) -> None:
    """Write down what rows say that needs no calculation."""
    block.refused.reshape(-1)[cells] = rows.refused[at]
    demand, beyond = greater(rows.demand[at], 0.0), np.zeros(())
    if rows.counted is not None:
        whole, demand = demand, greater(lesser(rows.counted[at], demand), 0.0)
        beyond = whole - demand
    block.demand.reshape(-1)[cells] = demand
    block.beyond.reshape(-1)[cells] = beyond
    own = greater(rows.of_own_callers[at], 0.0)
    block.own.reshape(-1)[cells] = lesser(own, demand)
    block.cost.reshape(-1)[cells] = greater(rows.cost[at], LEAST_COST)
    block.held.reshape(-1)[cells] = rows.held[at]
    inside = 0.0 if rows.inside is None else rows.inside[at]
    block.inside.reshape(-1)[cells] = inside
    if rows.subjects is not None:
        block.subjects.reshape(-1)[cells] = rows.subjects[at]


def _since_limited(
    block: LedgerBlock,
    slots: Index,
    unlimited_then: Flags,
    reported: Floats,
    grown: Floats,
    demand: Floats,
    reported_at: Floats | float,
) -> tuple[Floats, Floats, Floats]:
    """Let rows count from when a limit was set where there was none.

    What was admitted before that is free.  If a row is older than the limit, what its
    sender admitted until then is taken to be its demand; if that was too much, the next
    row is not charged less than nothing.

    Returns:
        Counters, growth, and the time from which rows are extrapolated.
    """
    limited_at = chosen(unlimited_then, block.limited_at[slots], -inf)
    since = greater(reported_at, limited_at)
    free_s = since - reported_at
    grown = chosen(unlimited_then, greater(grown, 0.0), grown)
    reported = reported + greater(demand, 0.0) * free_s
    return reported, chosen(free_s > 0.0, 0.0, grown), since


def _compare(
    block: LedgerBlock,
    slots: Index,
    cells: Index,
    said: Floats,
    reported_at: Floats | float,
    more: Floats,
    lag_s: float,
    loss: float,
) -> None:
    """Note how far reported levels are from this agent's own.

    The sender knows its own counters, which were just entered here, and expects of this
    agent what all expect, so the level that it reports is the common one.
    """
    # While own reports don't come back, nobody can tell what the sender knows of them.
    awaited: Flags = block.pending_at[slots] <= reported_at - HEARD_LAGS * lag_s
    told = (said == said) & ~awaited
    # Without `heard`, the level of an agent that spent a burst would seem to be higher
    # by it than what the others tell of it (a lone cost of 1,100 units cost 500).
    heard = block.row_reported_at[slots] <= reported_at - HEARD_LAGS * lag_s
    seen = seen_by(block, slots, heard)
    off = said - common_level(block, slots, reported_at, seen)
    cost = block.cost[0, slots]
    # What the sender itself reported (`more`) explains no difference, unless it may not
    # have heard of what this agent reported meanwhile.
    lossless = loss < LOSS_FLOOR
    known = heard & lossless
    own = chosen(known, abs(more), 0.0)
    # It may not have heard yet what others reported here within Δ: `news` fades to 1/e
    # in that time, so at most e times as much arrived.  Nor what this agent reported,
    # unless that left `HEARD_LAGS` before the level was found.  The rest of a
    # difference counts at once; what this could explain on average only, less what
    # usually arrives during the lag.  Levels that are cut at B have no average.
    news = own_news(block, slots, reported_at + lag_s, lag_s)
    mine = chosen(known, 0.0, news)
    explained = e * (block.news[slots] - own + mine)
    rest = np.copysign(greater(abs(off) - explained, 0.0), off)
    unheard = block.unheard[slots] - more
    apart, averaged = block.apart.reshape(-1), block.averaged.reshape(-1)
    before = apart[cells]
    before = chosen(averaged[cells] & (before == before), before, 0.0)
    step = lesser(greater(AVERAGED * (off - unheard - before), -cost), cost)
    # If nothing is on its way, from others or from here, one comparison is enough,
    # unless reports are lost.
    unreported = block.admitted[0, slots] - block.reported_admitted[slots]
    brimful = block.brimful[slots]
    still = (abs(unheard) + abs(unreported) < STILL_COSTS * cost) & known & ~brimful
    mean = chosen(still, off, before + step)
    sure = abs(rest) > abs(mean)
    mean = chosen(brimful, nan, mean)
    # An average stays exact, but not what counts at once: it may be on its way.
    exact = block.exact.reshape(-1)
    still = still | exact[cells] & (apart[cells] == apart[cells]) & ~sure
    exact[cells] = told & still | ~told & exact[cells]
    apart[cells] = chosen(told, chosen(sure, rest, mean), apart[cells])
    averaged[cells] = told & ~sure | ~told & averaged[cells]
    block.voiced[block.slots[slots][told]] = True


AVERAGED = 0.125
"""Weight of the newest of several levels that the same agent reported; it moves the
average by one request at most."""

STILL_COSTS = 0.05
"""Nothing counts as being on its way if it is less than this part of a request: what
arrived three lags ago."""

HEARD_LAGS = 2.5
"""Lags after which the sender of a report had heard this agent's own last one.  Without
that, agents raise one another until they break their bound, in a minute."""

LOSS_FLOOR = 1e-3
"""A measured loss below this counts as none."""


def _charge(
    block: LedgerBlock, slots: Index, charged: Floats, more: Floats, *, together: bool
) -> None:
    """Charge what was reported, and note by how much it is `more` than expected.

    Rows that come `together` may belong to the same ledger.
    """
    at, spent = block.slots[slots], -charged
    for column, by in (
        (block.level, spent),
        (block.lead, spent * block.fair_part[slots]),
        (block.belief, -more),
        (block.late, greater(more, 0.0)),
        (block.news, abs(more)),
        (block.unheard, more),
    ):
        if together:
            np.add.at(column, at, by)
        else:
            column[slots] += by


LEAST_COST = 1e-9
"""Smallest mean cost of a request, units; 0 would be no cost."""


def _most_possible(
    block: LedgerBlock,
    slots: Index,
    cost: Floats,
    extrapolated_rate: Floats,
    gap_s: Floats,
) -> Floats:
    """Return ``float64[K]`` units by which counters may have grown in `gap_s`.

    A member may have spent at its rate since it last reported this row (dead reckoning
    leaves rows out), all of the level at once, and a few requests by chance.  What it
    announces comes on top: an agent that may owe admits a cost of any size while the
    level is not below zero.
    """
    allowed = greater(2.0 * extrapolated_rate, block.plausible[slots])
    most = allowed * (greater(gap_s, 0.0) + GRACE_S)
    most += GRACE_COSTS * cost + block.burst[slots]
    return most


def _announced(
    block: LedgerBlock, slots: Index, rows: Rows, at: Index, unlimited_then: Flags
) -> Floats | float:
    """Return ``float64[K]`` units of the largest request that members tell of.

    It may be one from before there was a limit.
    """
    if rows.largest is None:
        return 0.0
    counts = block.may_owe[slots] & ~unlimited_then
    return chosen(counts, rows.largest[at], 0.0)


def _wake(
    block: LedgerBlock, slots: Index, used_s: Floats | float, used: Flags
) -> None:
    """Bring ledgers at rest to when they were first used.

    A full bucket that nobody uses is not calculated.  Whoever uses it first, what it
    earned before that is lost, once, and is not given back.  Those that were not
    `used`, ``bool[K]``, stay at rest.
    """
    resting = block.due[slots] == inf
    if not some(resting):
        return
    woken = resting & used & (used_s > block.at[slots])
    if not some(woken):
        return
    if isinstance(woken, np.ndarray):
        slots = block.slots[slots][woken]
        used_s = used_s[woken] if isinstance(used_s, np.ndarray) else used_s
    settle(block, slots, used_s)
    block.cut[slots] = 0.0


def overflow(block: LedgerBlock, slots: Index, reported_at: Floats | float) -> Floats:
    """Return ``float64[K]`` units above B when rows were reported; 0 unless at rest.

    A ledger in use has been settled since, and cut at B.
    """
    earned: Floats = block.rate[slots] * (reported_at - block.at[slots])
    over = block.belief[slots] + earned - block.burst[slots]
    return chosen(block.due[slots] == inf, greater(over, 0.0), 0.0)


def close_accounts(table: Table, member: int, *, charge: bool) -> None:
    """Take a member out of every ledger; the next counters heard are a baseline.

    Args:
        table: All ledgers.
        member: Its number.
        charge: Count what was predicted as spent, because it may have been.  Otherwise
            it is given back, because all was reported.
    """
    for place in table.all_places(member):
        block, slots, cells = place.block, place.slots, place.cells
        predicted = block.predicted.reshape(-1)[cells]
        column = block.level if charge else block.belief
        column[slots] += -predicted if charge else predicted
        block.aside_in_all[slots] -= block.aside.reshape(-1)[cells]
        _moved_by_others(block, slots)
    table.drop_member(member)
