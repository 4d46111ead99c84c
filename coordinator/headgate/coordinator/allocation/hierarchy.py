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

A child's *part* is its term plus an even part of the parent's slack, up to its maximum,
so it may start at once.  What all children of this agent, and its own callers, spend
together is bounded by what is left to it of the parent's level: see `left_inside`.  A
child whose limit is unlimited uses the limit of its nearest limited ancestor.

**Beside the children.**  What agents want from the parent but not from any child
tracked here is a branch, too: the parent's own callers (see
`headgate.coordinator.demand.parents`), and children that this agent does not use.  It
weighs as much as these children, or 1.  Its part is divided among agents by what each
wants there, and this agent's own callers keep to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.inside import left_inside
from headgate.coordinator.allocation.max_min import water_level
from headgate.coordinator.table.arrays import NOBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.coordinator.ledger.limits import Limits, Ruled
    from headgate.coordinator.table.arrays import Floats, LedgerBlock
    from headgate.coordinator.table.index import Key, Table


LEAST_PART = 0.005
"""If less than this fraction of an agent's demand on a parent comes from outside its
children, that part counts as none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One child as its parent sees it.

    Attributes:
        weight: Its weight among its siblings.
        minimum: Units/s set aside for it.
        maximum: Most units/s that it may use.
        demand: Units/s that it wants.
    """

    weight: float
    minimum: float
    maximum: float
    demand: float


def fill(available: float, branches: Sequence[Branch]) -> list[float]:
    """Return what each child gets of the parent's Q', in units/s."""
    high = [min(b.demand, b.maximum) for b in branches]
    low = [min(b.minimum, h) for b, h in zip(branches, high, strict=True)]
    if sum(high) <= available:
        return high
    if sum(low) >= available:
        whole = sum(low)
        return [part * available / whole if whole else 0.0 for part in low]
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
    return [
        max(lo, min(hi, w * theta))
        for lo, hi, w in zip(low, high, weights, strict=True)
    ]


def beside_of(
    above: LedgerBlock, slot: int, children: Sequence[tuple[LedgerBlock, int]]
) -> Floats:
    """Return what each agent wants from a parent but not from any of some children.

    Args:
        above: The parent's block.
        slot: The parent's column.
        children: Block and column of each child.

    Returns:
        ``float64[A]`` units/s, in the order of the parent's lines.
    """
    present = above.weight[:, slot] > 0.0
    wanted = np.where(present, above.demand[:, slot], 0.0)
    line_of = np.full(int(above.member[:, slot].max()) + 1, NOBODY)
    lines = np.flatnonzero(above.member[:, slot] != NOBODY)
    line_of[above.member[lines, slot]] = lines
    left: Floats = wanted.copy()
    for block, at in children:
        member = block.member[:, at]
        here = np.flatnonzero((member != NOBODY) & (member < len(line_of)))
        line = line_of[member[here]]
        here, line = here[line != NOBODY], line[line != NOBODY]
        left[line] -= block.demand[here, at]
    # A small remainder is due to rounding, or to a lost report of parent or child.
    left[left < LEAST_PART * wanted] = 0.0
    capped: Floats = np.minimum(left, above.demand_cap[slot])
    return capped


def pass_down(parent: Key, limits: Limits, table: Table) -> None:
    """Set the parts of the children of a ledger that was just computed."""
    children = limits.children[parent]
    siblings = [key for key in children if key in table]
    if not siblings:
        return
    above, slot = table.at(parent)
    available = inf if above.unlimited[slot] else float(above.available[slot])
    places = [table.at(key) for key in siblings]
    branches = [
        _branch(limits.by_key[key], *place)
        for key, place in zip(siblings, places, strict=True)
    ]
    beside = beside_of(above, slot, places)
    others = [limits.by_key[key] for key in children if key not in table]
    further = Branch(
        weight=sum(r.group.weight for r in others) or 1.0,
        minimum=sum(r.limit.minimum / r.limit.period_s for r in others),
        maximum=inf,
        demand=float(beside.sum()),
    )
    *parts, rest = fill(available, [*branches, further])
    slack = max(0.0, available - sum(parts) - rest) / len(branches)
    left = inf if above.unlimited[slot] else float(left_inside(above, slot))
    left = min(left, float(above.left_above[slot]))
    if left > 0.0:
        left /= len(branches)
    wait_s = max(_debt_s(above, slot), float(above.wait_above_s[slot]))
    for part, branch, (block, at) in zip(parts, branches, places, strict=True):
        block.parent_cap[at] = min(part + slack, branch.maximum)
        block.left_above[at] = left
        block.wait_above_s[at] = wait_s
    above.own_callers[slot] = beside[0]
    weight = above.weight[:, slot : slot + 1]
    theta = water_level(beside[:, None], weight, np.array([rest]))
    above.own_callers_theta[slot] = theta[0]


def _debt_s(block: LedgerBlock, slot: int) -> float:
    """Return how long a ledger takes to pay what is owed, seconds.

    It is 0 if nothing is owed, or nobody knows when it will be: the limit is closed.
    """
    debt, rate = block.aside_in_all[slot] - block.belief[slot], block.rate[slot]
    return max(float(debt / rate), 0.0) if rate > 0.0 else 0.0


def _branch(ruled: Ruled, block: LedgerBlock, slot: int) -> Branch:
    limit = ruled.limit
    wanted = np.where(block.weight[:, slot] > 0.0, block.demand[:, slot], 0.0)
    # A child can't use more than its own limit admits, whatever it wants.
    own = inf
    if not block.unlimited[slot]:
        surplus = float(block.belief[slot] - block.margin[slot])
        horizon = max(float(block.horizon[slot]), 1e-9)
        own = max(0.0, float(block.rate[slot]) + surplus / horizon)
    return Branch(
        weight=ruled.group.weight,
        minimum=limit.minimum / limit.period_s,
        maximum=limit.maximum / limit.period_s,
        demand=min(float(wanted.sum()), own),
    )
