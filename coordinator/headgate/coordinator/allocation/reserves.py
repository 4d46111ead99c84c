"""What is kept for agents that are not heard, and what this one may spend alone.

Crash and partition look the same from inside.  So both sides follow one schedule
that depends only on how long they have not heard each other; the silent one may
spend at most what the others keep for it::

    silent ≤ lease           nothing changes: it is extrapolated like any other
    ≤ presumed-dead time M   reserve: w_j/Σw·Q (fair), last share (hold), 0 (closed)
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
from headgate.coordinator.ledger.arithmetic import Ops, many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.membership.failure_detector import Roster
    from headgate.coordinator.table.arrays import Index, Shelf

    Floats = NDArray[np.float64]

KEPT_S = 1.0
"""Length of the average of a share that `hold` keeps."""

FREEZE_INTERVALS = 1.2
"""Heartbeats of silence after which that average stands still: one may be late."""


def seat(shelf: Shelf, slots: Index, roster: Roster) -> None:
    """Work out who takes part, and what is kept for the silent.

    Args:
        shelf: Changed: `weight`, `burn` of the silent, `reserved`, `whole_weight`.
        slots: K of its slots; they must have been settled.
        roster: The members.
    """
    member = shelf.member[:, slots]
    weight = roster.weights[member]
    gone = roster.silent[member]
    whole = weight.sum(axis=0)
    reserve = shelf.rate[slots] * weight / np.maximum(whole, 1e-12)
    policy = shelf.isolation[slots]
    reserve = np.where(policy == CLOSED, 0.0, reserve)
    reserve = np.where(policy == HOLD, shelf.kept[:, slots], reserve)
    reserve = np.where(gone, reserve, 0.0)
    shelf.whole_weight[slots] = whole
    shelf.reserved[slots] = reserve.sum(axis=0)
    shelf.weight[:, slots] = np.where(gone, 0.0, weight)
    shelf.burn[:, slots] = np.where(gone, reserve, shelf.burn[:, slots])
    shelf.stale[slots] = False


def keep_shares(
    shelf: Shelf, slots: Index, roster: Roster, *, now: float, interval_s: float
) -> None:
    """Follow the shares that `hold` would keep, of members that are heard.

    Must be called before the ledgers are settled: the time since the last
    calculation weighs the shares that have held since then.
    """
    elapsed = now - shelf.at[slots]
    heard_at = roster.heard_at[shelf.member[:, slots]]
    fresh = now - heard_at < FREEZE_INTERVALS * interval_s
    kept = shelf.kept[:, slots]
    gain = np.where(fresh, -np.expm1(-elapsed / KEPT_S), 0.0)
    shelf.kept[:, slots] = kept + gain * (shelf.burn[:, slots] - kept)


def alone_of(
    shelf: Shelf, slots: Index, ops: Ops = many, *, quorate: bool, adrift: bool
) -> tuple[Floats, Floats]:
    """Return (reserve, most) in units/s, ``float64[K]`` each.

    *reserve* is what this agent may spend once it is cut off, *most* what it may
    spend at all while it does not hear a majority.
    """
    policy = shelf.isolation[slots]
    whole = ops.maximum(shelf.whole_weight[slots], 1e-9)
    part = ops.minimum(shelf.weight[0, slots] / whole, 1.0)
    reserve: Floats = shelf.rate[slots] * part
    reserve = ops.where(policy == HOLD, shelf.kept[0, slots], reserve)
    reserve = ops.where(policy == CLOSED, 0.0, reserve)
    if adrift:
        reserve = ops.where(policy == OPEN, inf, reserve)
    most = ops.where((policy == CLOSED) & (not quorate), 0.0, inf)
    return reserve, most
