"""Groups inside groups: what each child may take from its parent.

cluster → tenant → namespace → …, with weight, minimum and maximum inside the parent.
Demand is summed bottom-up, clamped at each level by what that level could ever use;
the parent's Q' is filled top-down::

    find θ:  Σ_c max(low_c, min(high_c, w_c·θ)) = Q'
    high_c = min(demand_c, maximum_c)      low_c = min(minimum_c, high_c)

Minima come first, since low_c does not depend on θ; a minimum that nobody wants is not
set aside.  Each term rises with θ, so θ is unique where Q' lies between Σ low and Σ
high; the sum is piecewise linear with corners at low_c/w_c and high_c/w_c, and one pass
over the sorted corners finds θ exactly.  Minima that add up to more than Q' are scaled
down together.

A child's *part* is its term plus an even part of the parent's slack, up to its maximum
(of calendar limits only: the maximum of another limit is its rate), so it may start at
once.  What all children of this agent, and its own callers, spend together is bounded
by what is left to it of the parent's level: see `left_inside`.  Of a strict parent
they also need this agent's permits
(docs/decisions/0091-who-is-inside-a-strict-group-spends-its-permits.md).
A child whose limit is unlimited uses the limit of its nearest limited ancestor.

**Beside the children.**  The parent's own callers
(see `headgate.coordinator.demand.parents`) are a branch of weight 1, whose part is
divided among agents by what each of them wants there
(docs/decisions/0084-own-callers-are-told-apart.md).  Children that this agent does not
use are another one.  It weighs as much as what is used there, which agents report
(docs/decisions/0074-what-is-used-inside-is-reported.md).

Agents share the permits of a strict parent by these weights, too: by their demand
alone, own callers would lack those of agents that only use children.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.conditions import ROUNDING
from headgate.coordinator.allocation.inside import left_inside, surplus_of
from headgate.coordinator.allocation.max_min import water_level
from headgate.coordinator.table.arrays import NOBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.coordinator.config.configuration import Limit
    from headgate.coordinator.ledger.limits import Limits, Ruled
    from headgate.coordinator.table.arrays import Floats, LedgerBlock
    from headgate.coordinator.table.index import Key, Table

LEAST_PART = 0.005
"""If less than this fraction of an agent's demand on a parent comes from outside its
children, that part counts as none."""

LEAST_INSIDE = 1e-3
"""Least weight that is reported: without any, an agent has told nothing."""

LEFT_CHANGED = 0.1
"""Change of what is left above, as a part of it, of which a group inside is told even
if nobody uses it: its callers may start at any time."""

LEAST_WEIGHT = 0.1
"""What is used beside the children that are tracked here weighs at least this part of
the lightest of the others: what agents report of it is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One child as its parent sees it.

    Attributes:
        weight: Its weight among its siblings.
        minimum: Units/s set aside for it.
        maximum: Most units/s that it may use.
        demand: Units/s that it wants.
        own: This agent's part of that demand, 0 to 1.
    """

    weight: float
    minimum: float
    maximum: float
    demand: float
    own: float = 0.0


def fill(available: float, branches: Sequence[Branch]) -> tuple[list[float], float]:
    """Return what each child gets of the parent's Q', and θ, units/s.

    θ is infinite if all fits.
    """
    high = [min(b.demand, b.maximum) for b in branches]
    low = [min(b.minimum, h) for b, h in zip(branches, high, strict=True)]
    if sum(high) <= available:
        return high, inf
    if sum(low) >= available:
        whole = sum(low)
        return [part * available / whole if whole else 0.0 for part in low], 0.0
    weights = [b.weight for b in branches]
    corners = sorted(
        [(part / w, w) for part, w in zip(low, weights, strict=True)]
        + [(part / w, -w) for part, w in zip(high, weights, strict=True)]
    )
    total, slope, theta = sum(low), 0.0, 0.0
    for corner, change in corners:
        reached = total + slope * (corner - theta)
        if reached >= available:
            break
        total, theta = reached, corner
        slope += change
    if slope > 0.0:
        theta += (available - total) / slope
    parts = [
        max(lo, min(hi, w * theta))
        for lo, hi, w in zip(low, high, weights, strict=True)
    ]
    return parts, theta


def beside_of(
    above: LedgerBlock,
    slot: int,
    children: Sequence[tuple[LedgerBlock, int]],
    *,
    more: bool,
) -> tuple[Floats, Floats]:
    """Return what each agent wants from a parent but not from any of some children.

    What it wants there beyond limits that this agent doesn't track is left out, too.

    Args:
        above: The parent's block.
        slot: The parent's column.
        children: Block and column of each child.
        more: The parent has further children.

    Returns:
        ``float64[A]`` units/s of its own callers, and of further children, in the order
        of the parent's lines.
    """
    present = above.weight[:, slot] > 0.0
    wanted = np.where(present, above.demand[:, slot], 0.0)
    left: Floats = wanted + np.where(present, above.beyond[:, slot], 0.0)
    counted: Floats = wanted.copy()
    line_of = np.full(int(above.member[:, slot].max()) + 1, NOBODY)
    lines = np.flatnonzero(above.member[:, slot] != NOBODY)
    line_of[above.member[lines, slot]] = lines
    for block, at in children:
        member = block.member[:, at]
        here = np.flatnonzero((member != NOBODY) & (member < len(line_of)))
        line = line_of[member[here]]
        here, line = here[line != NOBODY], line[line != NOBODY]
        demand = block.demand[here, at]
        left[line] -= demand + block.beyond[here, at]
        counted[line] -= block.passes[at] * demand
    # A small remainder is due to rounding, or to a lost report of parent or child.
    small = left < LEAST_PART * (wanted + above.beyond[:, slot])
    # This agent knows all that its own callers use, as exactly as it adds up.
    small[0] = left[0] < ROUNDING * (wanted[0] + above.beyond[0, slot])
    left[small] = 0.0
    counted[0] = left[0]
    counted = np.minimum(left, np.maximum(counted, 0.0))
    own: Floats = counted.copy()
    if more:  # this agent uses none of those
        own[1:] = np.minimum(above.own[1:, slot], counted[1:])
    return own, counted - own


def pass_down(
    parent: Key, limits: Limits, table: Table, wall_s: float, *, called: bool
) -> list[tuple[LedgerBlock, int]]:
    """Set the parts of the children of a ledger that was just computed.

    Args:
        parent: Its key.
        limits: The limits in force.
        table: All ledgers; the parent's and those of the children are changed.
        wall_s: Wall clock, for calendar periods.
        called: The parent has own callers here, or had.

    Returns:
        Block and column of each child whose bucket must be told of the change.
    """
    children = limits.children[parent]
    siblings = [key for key in children if key in table]
    above, slot = table.at(parent)
    above.due_inside[slot] = 0.0
    places = [table.at(key) for key in siblings]
    others = [limits.by_key[key] for key in children if key not in table]
    own, further = beside_of(above, slot, places, more=bool(others))
    if not siblings and (bool(above.strict[slot]) or not further.any()):
        # As any other group: nobody uses those inside it.
        above.inside[0, slot] = max(_own_branch(own).own, LEAST_INSIDE)
        above.own_callers[slot] = nan
        return []
    unlimited = bool(above.unlimited[slot])
    available = inf if unlimited else float(above.available[slot])
    # Not before: of own callers who want all that counts, others would want nothing.
    own, further = np.minimum((own, further), above.demand_cap[slot])
    branches = [
        _branch(limits.by_key[key], *place)
        for key, place in zip(siblings, places, strict=True)
    ]
    branches = _with_rest(above, slot, branches, others, own, further)
    parts, theta = fill(available, branches)
    filled = max(p / b.weight for p, b in zip(parts, branches, strict=True))
    above.branch_theta[slot] = min(theta, filled)
    steady = inf if unlimited else float(above.rate[slot])
    usual = fill(steady, branches)[0] if available < steady else parts
    slack = max(0.0, available - sum(parts)) / max(len(siblings), 1)
    due = [part * b.own for part, b in zip(usual, branches, strict=True)]
    # What nobody else has heard of, others don't leave to this agent.
    above.due_inside[slot] = min(sum(due), steady, float(above.known_demand[slot]))
    whole = max(sum(parts), 1e-200)
    # A maximum caps the rate, whatever the parent holds.
    at_once = [
        part * b.own / whole if b.maximum == inf else 0.0
        for part, b in zip(parts, branches, strict=True)
    ]
    top = not limits.ancestors[parent]
    # Without siblings, its own bucket is all that there is here.
    own_bucket = called or not siblings
    _leave(above, slot, places, due, at_once, top=top, called=own_bucket)
    debt_s = _debt_s(above, slot, limits.calendar.get(parent), wall_s)
    _inherit(above, slot, places, branches, debt_s)
    for n, (block, at) in enumerate(places):
        most = branches[n].maximum
        block.parent_cap[at] = min(parts[n] + slack, most)
        block.part_above[at] = min(usual[n] + slack, most)
    above.own_callers[slot] = own[0]
    above.own_callers_theta[slot] = water_level(
        own, above.weight[:, slot], parts[len(places)]
    )
    return [place for place in places if _changed(*place)]


def _with_rest(
    above: LedgerBlock,
    slot: int,
    tracked: Sequence[Branch],
    others: Sequence[Ruled],
    own: Floats,
    further: Floats,
) -> list[Branch]:
    """Return the branches of tracked children, own callers and any other children."""
    branches = [*tracked, _own_branch(own)]
    lightest = min((ruled.group.weight for ruled in others), default=1.0)
    used = _used(above, slot, branches, own + further, lightest)
    if others:
        branches.append(_further(others, used, float(further.sum())))
    return branches


def _inherit(
    above: LedgerBlock,
    slot: int,
    places: Sequence[tuple[LedgerBlock, int]],
    branches: Sequence[Branch],
    debt_s: float,
) -> None:
    """Tell the children what holds for all that are inside their parent.

    Args:
        above: The parent's block.
        slot: Its column.
        places: Block and column of each child; they are changed.
        branches: Those of the children come first, in the same order.
        debt_s: How long the parent takes to pay what it owes, seconds.
    """
    wait_s = max(debt_s, float(above.wait_above_s[slot]))
    permitted = bool(above.strict[slot]) and not above.unlimited[slot]
    shared = not permitted or bool(above.shared_above[slot])
    for branch, (block, at) in zip(branches, places, strict=False):
        block.wait_above_s[at] = wait_s if branch.maximum > 0.0 else inf
        block.shared_above[at] = shared


def _leave(
    above: LedgerBlock,
    slot: int,
    places: Sequence[tuple[LedgerBlock, int]],
    due: Sequence[float],
    at_once: Sequence[float],
    *,
    top: bool,
    called: bool,
) -> None:
    """Divide what is left of a parent among the buckets of this agent that spend it.

    A surplus, which rates would only give away over the horizon, may be spent at once,
    by each agent and branch in proportion to its part: so a large burst is used as fast
    as callers want it, and weights count as they do for rates.

    Args:
        above: The parent's block, changed.
        slot: Its column.
        places: Block and column of each child; they are changed.
        due: Units/s that each branch is due here; own callers follow the children.
        at_once: What each may spend here of a surplus, as a part of what all may.
        top: The parent has no parent itself.
        called: Its own bucket is asked, too.
    """
    unlimited = bool(above.unlimited[slot])
    left = inf if unlimited else float(left_inside(above, slot))
    left = min(left, float(above.left_above[slot]))
    if not unlimited and above.rate[slot] <= 0.0:
        left = min(left, -1.0)  # closed, whatever it holds
    above.left_own[slot] = min(left, 0.0)
    buckets = len(places) + called
    lefts = _divided(left, due[:buckets], float(above.rate[slot]))
    at_once = at_once[:buckets]
    surplus = inf if unlimited else float(surplus_of(above, slot))
    # From above comes what all that this agent has here may spend.
    given = inf if top else float(above.surplus_left[slot])
    each = min(surplus, given / max(sum(at_once), 1e-200))
    spent = [
        min(here, each * part) if part > 0.0 else 0.0
        for here, part in zip(lefts, at_once, strict=True)
    ]
    for n, (block, at) in enumerate(places):
        block.left_above[at], block.surplus_left[at] = lefts[n], spent[n]
    above.surplus_left[slot] = 0.0
    if called:
        above.left_own[slot], above.surplus_left[slot] = lefts[-1], spent[-1]
    if above.strict[slot] and left >= 0.0:
        # Of its own level, permits tell how much, and a bucket that was held to a part
        # would only fill at its rate once nobody else wants the rest.
        above.left_own[slot] = above.left_above[slot]


def _divided(left: float, due: Sequence[float], rate: float) -> list[float]:
    """Return what of the units that are `left` each bucket may spend.

    Until the next look no bucket knows what the others spend.  Of one half each gets
    the part that it is `due` of the rate, units/s; all the rest is divided evenly,
    because nobody knows who will start next.  What is overdrawn holds for all.
    """
    if not 0.0 < left < inf:
        return [left] * len(due)
    by_due = [0.5 * each / max(sum(due), rate) for each in due]
    even = (1.0 - sum(by_due)) / len(due)
    return [left * (part + even) for part in by_due]


def _changed(block: LedgerBlock, slot: int) -> bool:
    """Return whether what is left above a group differs from what its bucket knows."""
    left, told = float(block.left_above[slot]), float(block.left_told[slot])
    cost = float(block.cost[0, slot])
    left, told = max(left, -cost), max(told, -cost)
    return abs(left - told) > cost + LEFT_CHANGED * min(left, told)


def _used(
    above: LedgerBlock,
    slot: int,
    branches: Sequence[Branch],
    beside: Floats,
    lightest: float,
) -> float:
    """Return the weight of what is used of a parent beside the `branches` known here.

    What an agent reports counts as far as it wants something, so that a false report
    takes no more than its sender could by asking for everything.  Who has not reported
    any weight yet, or doesn't know how to, counts as the `lightest` of the other
    children.  This agent's own weight, `inside`, is set: the others are told.

    From none of the children agents want `beside`, ``float64[A]`` units/s.
    """
    theta = max(float(above.branch_theta[slot]), 1e-200)
    mine = tracked = 0.0
    for branch in branches:
        weight = min(branch.weight, min(branch.demand, branch.maximum) / theta)
        tracked += weight
        mine += weight * branch.own
    above.inside[0, slot] = max(mine, LEAST_INSIDE)
    present = above.weight[:, slot] > 0.0
    inside = above.inside[present, slot]
    silent = (inside <= 0.0) & (beside[present] > 0.0)
    inside = np.where(silent, lightest, inside)
    wanted = np.minimum(above.demand[present, slot], above.demand_cap[slot])
    return float(np.minimum(inside, wanted / theta).sum()) - tracked


def _own_branch(own: Floats) -> Branch:
    """Return the branch of a parent's own callers, who weigh 1 over all agents."""
    demand = float(own.sum())
    part = float(own[0]) / max(demand, 1e-200)
    return Branch(weight=1.0, minimum=0.0, maximum=inf, demand=demand, own=part)


def _further(others: Sequence[Ruled], used: float, demand: float) -> Branch:
    """Return the branch of children that are not tracked here.

    The weight `used` there is not exact, since it is made of reports of many times.
    """
    weights = [ruled.group.weight for ruled in others]
    # Of a template's values only those that are used here are known here.
    any_number = any(ruled.group.per is not None for ruled in others)
    most = inf if any_number else sum(weights) + 1.0
    weight = min(max(used, LEAST_WEIGHT * min(weights)), most)
    minimum = sum(ruled.limit.minimum / ruled.limit.period_s for ruled in others)
    minimum *= min(weight / sum(weights), 1.0)
    return Branch(weight=weight, minimum=minimum, maximum=inf, demand=demand)


def _debt_s(
    block: LedgerBlock, slot: int, calendar: Limit | None, wall_s: float
) -> float:
    """Return how long a ledger takes to pay what is owed, seconds.

    No longer than until its calendar period ends; infinite if it is closed.
    """
    if block.unlimited[slot]:
        return 0.0
    rate = float(block.rate[slot])
    debt = float(block.aside_in_all[slot] - block.belief[slot])
    if rate <= 0.0:
        return inf
    most = inf if calendar is None else max(calendar.ends_at_s - wall_s, 0.0)
    return min(max(debt / rate, 0.0), most)


def _branch(ruled: Ruled, block: LedgerBlock, slot: int) -> Branch:
    """Return a child's branch; note what part of its demand counts for its parent."""
    limit = ruled.limit
    wanted = np.where(block.weight[:, slot] > 0.0, block.demand[:, slot], 0.0)
    demand = float(wanted.sum())
    # A child can't use more than its own limit admits, whatever it wants.
    most = inf
    if not block.unlimited[slot]:
        surplus = float(block.belief[slot] - block.margin[slot])
        horizon = max(float(block.horizon[slot]), 1e-9)
        if block.strict[slot] or block.rate[slot] <= 0.0:
            # Permits admit no more than the rate, and a closed group nothing.
            surplus = 0.0
        most = max(0.0, float(block.rate[slot]) + surplus / horizon)
    usable = min(demand, most, limit.maximum / limit.period_s)
    block.passes[slot] = usable / demand if demand > 0.0 else 1.0
    return Branch(
        weight=ruled.group.weight,
        minimum=limit.minimum / limit.period_s,
        maximum=limit.maximum / limit.period_s,
        demand=usable,
        own=float(wanted[0]) / max(demand, 1e-200),
    )
