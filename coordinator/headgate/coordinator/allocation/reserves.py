"""What is kept for agents that are not heard, and what this one may spend alone.

Crash and partition look the same from inside.  So both sides follow one schedule
that depends only on how long they have not heard each other; the silent one may
spend at most what the others keep for it::

    silent ≤ lease           nothing changes: it is extrapolated like any other
    ≤ presumed-dead time M   reserve: w_j/Σw·Q (fair), last share (hold), 0 (closed),
                             and once, of what the bucket holds, w_j/Σw of it
    > M                      dropped, and the others take it back

and all that hear each other share out Q' − Σ_silent reserve.  An agent that hears
nobody then has exactly its own part, a half has its half, and no vote is needed.

**hold** keeps the share that a member had, averaged over a second, as of 1.2
heartbeats after its last report: what is shared out later is already an answer to
its silence, and freezing that overshot 0.28 s of quota.

**closed** keeps nothing, so two sides must not both go on: the one that hears most
of the weight does (of equal halves the one with the smallest id), any other stops.
Majorities of one set always meet, and a side that was not the majority goes on
counting those that it drops, so this holds however long the partition lasts.

**open** is fair until the others have dropped this agent, then stops limiting.

Past M the bound of `fair` and `hold` is one Q more for each part that was dropped
and yet lives: `Explanation.bound` says it.  An agent that hears nobody at all drops
nobody (see `headgate.coordinator.membership.failure_detector`), so when the bus is away
the parts of all go on adding up to Q; nor does one that the API tells that the others
live.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.config.configuration import CLOSED, HOLD, OPEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.membership.failure_detector import Roster
    from headgate.coordinator.table.arrays import Index, LedgerBlock

    Floats = NDArray[np.float64]

KEPT_S = 1.0
"""Length of the average of a share that `hold` keeps."""

FREEZE_INTERVALS = 1.2
"""Heartbeats of silence after which that average stands still: one may be late."""


def seat(block: LedgerBlock, slots: Index, roster: Roster) -> None:
    """Work out who takes part, and what is kept for the silent.

    Args:
        block: Changed: `weight`, `burn` and `aside` of the silent, `reserved`,
            `whole_weight`.
        slots: K of its slots; they must have been settled.
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
    # Whoever falls silent may also spend its part of what the bucket holds now.
    part = weight / np.maximum(whole, 1e-12) * np.maximum(block.belief[slots], 0.0)
    part = np.where(policy == CLOSED, 0.0, part)
    before = block.weight[:, slots] == 0.0
    aside = np.where(before, block.aside[:, slots], part)
    block.aside[:, slots] = np.where(gone, aside, 0.0)
    block.at_once[:, slots] &= ~gone
    block.whole_weight[slots] = whole
    block.reserved[slots] = reserve.sum(axis=0)
    block.weight[:, slots] = np.where(gone, 0.0, weight)
    block.burn[:, slots] = np.where(gone, reserve, block.burn[:, slots])
    block.stale[slots] = False


def keep_shares(
    block: LedgerBlock, slots: Index, roster: Roster, *, now: float, interval_s: float
) -> None:
    """Follow the shares that `hold` would keep, of members that are heard.

    Must be called before the ledgers are settled: the time since the last
    calculation weighs the shares that have held since then.
    """
    elapsed = now - block.at[slots]
    heard_at = roster.heard_at[block.member[:, slots]]
    fresh = now - heard_at < FREEZE_INTERVALS * interval_s
    kept = block.kept[:, slots]
    gain = np.where(fresh, -np.expm1(-elapsed / KEPT_S), 0.0)
    block.kept[:, slots] = kept + gain * (block.burn[:, slots] - kept)


def alone_of(
    block: LedgerBlock, slots: Index, *, quorate: bool, adrift: bool
) -> tuple[Floats, Floats]:
    """Return (reserve, most) in units/s, ``float64[K]`` each.

    *reserve* is what this agent may spend once it is cut off, *most* what it may
    spend at all while it does not hear a majority.
    """
    policy = block.isolation[slots]
    whole = np.maximum(block.whole_weight[slots], 1e-9)
    part = np.minimum(block.weight[0, slots] / whole, 1.0)
    reserve: Floats = block.rate[slots] * part
    reserve = np.where(policy == HOLD, block.kept[0, slots], reserve)
    reserve = np.where(policy == CLOSED, 0.0, reserve)
    if adrift:
        reserve = np.where(policy == OPEN, inf, reserve)
    most = np.where((policy == CLOSED) & (not quorate), 0.0, inf)
    return reserve, most
