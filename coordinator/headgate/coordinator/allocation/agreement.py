"""One level for all: what an agent makes of the levels that the others report."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Floats, Index, LedgerBlock

AGREED_COSTS = 2.0
"""Requests by which levels may differ, besides the margin, because some agents haven't
heard of them yet."""

EXACT_COSTS = 0.5
"""The same where nothing was on its way or was lost: no chance makes levels differ."""


def agree(block: LedgerBlock, slots: Index, *, missed: bool = False) -> None:
    """Adopt the median of the levels that all agents compute.

    With counters alone, views that once differ stay apart
    (docs/decisions/0053-views-of-one-level-agree.md).  The median is used because any
    agent may lie.  This agent's own level counts
    as well, so that two agents meet half way.  At least half of the others must have
    reported theirs.  What reports in flight could explain is averaged over several
    levels (`hear`), or chance would add up, unless nothing was on its way.  While rows
    are `missed` that the others may have heard, levels differ by those, and once they
    are heard they are charged.
    """
    told = block.voiced[slots]
    if not np.count_nonzero(told):
        return
    at = block.slots[slots][told]
    block.voiced[at] = False
    lines = block.lines(at)
    if missed:
        block.apart[lines, at] = nan
        return
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
