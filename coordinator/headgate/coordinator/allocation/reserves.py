"""What is reserved for unheard agents, and what this one may spend while cut off.

Crash and partition look the same from inside.  So both sides follow one schedule that
depends only on how long they have not heard each other; a silent agent may spend at
most what the others reserve for it::

    silent ≤ lease           nothing changes: it is extrapolated like any other
    ≤ presumed-dead time M   reserve: w_j/Σw·Q (fair), last share (hold), 0 (closed),
                             and once, of what the bucket holds, w_j/Σw of it
    > M                      dropped, and the others take it back

and agents that hear each other divide Q' − Σ_silent reserve.  An agent that hears
nobody then has exactly its own part, half a cluster has its half, and no vote is
needed.

**hold** reserves the share of Q that a member had, averaged over a second, as of 1.2
heartbeats after its last report.  Later shares already react to its silence, and
freezing one of those exceeded the quota by 0.28 s of it.

**closed** reserves nothing, so two sides must not both go on: the side that hears most
of the weight does (of two equal halves, the one with the smallest id), any other stops.
Any two majorities of one set overlap, and a side without a majority goes on counting
the agents that it drops, so this holds however long the partition lasts.

**open** acts like fair until the others have dropped this agent, and then stops
limiting.

After M, `fair` and `hold` may exceed their bound by one Q for each part of the cluster
that was dropped and is still alive; `Explanation.bound` reports that.  An agent that
hears nobody at all drops nobody (see
`headgate.coordinator.membership.failure_detector`), so while the bus is down all parts
still add up to Q.  Nor does an agent drop others that the API reports as alive.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.config.configuration import CLOSED, HOLD, OPEN
from headgate.coordinator.table.one_or_many import chosen, greater, lesser

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Conditions
    from headgate.coordinator.membership.failure_detector import Roster
    from headgate.coordinator.table.arrays import Floats, Index, LedgerBlock

KEPT_S = 1.0
"""Averaging time of the share that `hold` reserves."""

FREEZE_INTERVALS = 1.2
"""Heartbeats of silence after which that average stops: a report may be late."""


def seat(block: LedgerBlock, slots: Index, roster: Roster) -> None:
    """Determine which agents take part, and what to reserve for silent ones.

    Args:
        block: Changed: `weight`, `extrapolated_rate` and `aside` of silent members, the
            sums `reserved`, `aside_in_all`, `whole_weight`, `present_weight` and
            `agents`, and `equal_weight`.
        slots: K of its columns, all of them settled.
        roster: The members.
    """
    member = block.member[:, slots]
    weight = roster.weights[member]
    gone = roster.silent[member]
    whole = weight.sum(axis=0)
    reserve = block.rate[slots] * weight / np.maximum(whole, 1e-12)
    policy = block.isolation[slots]
    reserve = np.where(policy == CLOSED, 0.0, reserve)
    reserve = np.where(policy == HOLD, block.kept[:, slots], reserve)
    reserve = np.where(gone, reserve, 0.0)
    # A member that falls silent may also spend its part of the present level.
    part = weight / np.maximum(whole, 1e-12) * np.maximum(block.belief[slots], 0.0)
    part = np.where(policy == CLOSED, 0.0, part)
    before = block.weight[:, slots] == 0.0
    aside = np.where(before, block.aside[:, slots], part)
    aside = np.where(gone, aside, 0.0)
    block.aside[:, slots] = aside
    block.aside_in_all[slots] = aside.sum(axis=0)
    block.at_once[:, slots] &= ~gone
    block.whole_weight[slots] = whole
    block.reserved[slots] = reserve.sum(axis=0)
    weight = np.where(gone, 0.0, weight)
    block.weight[:, slots] = weight
    block.present_weight[slots] = weight.sum(axis=0)
    heaviest = weight.max(axis=0)
    differ = ((weight > 0.0) & (weight < heaviest)).any(axis=0)
    block.equal_weight[slots] = np.where(differ, nan, heaviest)
    block.agents[slots] = np.maximum(np.count_nonzero(weight, axis=0), 1)
    block.extrapolated_rate[:, slots] = np.where(
        gone, reserve, block.extrapolated_rate[:, slots]
    )
    block.stale[slots] = False


def keep_shares(
    block: LedgerBlock, slots: Index, roster: Roster, on: Conditions
) -> None:
    """Average the shares that `hold` would reserve for members that are heard.

    Shares of Q less what is reserved, not of Q': a bucket that rested offers many times
    Q for a moment, and an agent that is cut off then would go on at that rate.  Agents
    that report each admission have a share, too, although nobody extrapolates them.

    Call it before the ledgers are settled: the time since the last calculation is the
    weight of the present demand.
    """
    elapsed = on.now - block.at[slots]
    heard_at = roster.heard_at[block.member[:, slots]]
    fresh = on.now - heard_at < FREEZE_INTERVALS * on.settings.interval_s
    weight, demand = block.weight[:, slots], demand_told(block, slots)
    available = np.minimum(block.rate[slots], block.parent_cap[slots])
    available = np.maximum(available - block.reserved[slots], 0.0)
    share = shares_at(water_level(demand, weight, available), demand, weight)
    # Nobody used a bucket at rest since then; what was just reported begins now.
    share = np.where(block.due[slots] == inf, 0.0, share)
    kept = block.kept[:, slots]
    gain = np.where(fresh, -np.expm1(-elapsed / KEPT_S), 0.0)
    block.kept[:, slots] = kept + gain * (share - kept)


def demand_told(block: LedgerBlock, slots: Index | int) -> Floats:
    """Return λ as all agents know it, ``float64[A, K]``, or ``float64[A]`` of one."""
    demand = block.demand[:, slots].copy()
    demand[0] = block.known_demand[slots]
    told: Floats = np.minimum(demand, block.demand_cap[slots])
    return told


def alone_of(block: LedgerBlock, slots: Index, on: Conditions) -> tuple[Floats, Floats]:
    """Return (reserve, most) in units/s, ``float64[K]`` each.

    *reserve* is what this agent may spend once it is cut off, *most* what it may
    spend at all while it does not hear a majority.
    """
    policy = block.isolation[slots]
    whole = greater(block.whole_weight[slots], 1e-9)
    part = lesser(block.weight[0, slots] / whole, 1.0)
    unanswered = block.unanswered[slots]
    part = chosen(unanswered, lesser(part, 1.0 / on.present), part)
    reserve: Floats = block.rate[slots] * part
    reserve = chosen(policy == HOLD, block.kept[0, slots], reserve)
    reserve = chosen(policy == CLOSED, 0.0, reserve)
    if on.presumed_dead:
        reserve = chosen(policy == OPEN, inf, reserve)
    most = chosen((policy == CLOSED) & (not on.quorate), 0.0, inf)
    return reserve, most
