"""Arithmetic that is cheap for one ledger and uses numpy for many.

An agent with one limit computes one ledger forty times a second.  A numpy function
takes as long for one number as for a hundred, ten times as long as Python takes for
one.  So when a single ledger is computed its column is an `int`, quantities per ledger
are plain numbers and those per cell ``float64[A]``; these functions choose accordingly.
The formulas are the same.  To the type checker such a number is a column, too: the
ignored types say so, because `cast` is a call that takes time itself.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Flags, Floats, Index


def single(slots: Index) -> Index:
    """Return a selection of one column as its number, any other as it is."""
    if isinstance(slots, slice):
        one = slots.stop - slots.start == 1
        return slots.start if one else slots
    if isinstance(slots, int):  # as returned here
        return slots
    return cast("Index", int(slots[0])) if len(slots) == 1 else slots


def lesser(one: Floats | float, other: Floats | float) -> Floats:
    """Return the minimum."""
    if isinstance(one, float) and isinstance(other, float):
        return one if one < other else other  # type: ignore[return-value]
    return np.minimum(one, other)


def greater(one: Floats | float, other: Floats | float) -> Floats:
    """Return the maximum."""
    if isinstance(one, float) and isinstance(other, float):
        return one if one > other else other  # type: ignore[return-value]
    return np.maximum(one, other)


def chosen(where: Flags | bool, one: Floats | float, other: Floats | float) -> Floats:
    """Return `one` where a flag is set, else `other`; not a copy if all flags agree."""
    if isinstance(where, (bool, np.bool_)):
        return one if where else other  # type: ignore[return-value]
    # Flags usually agree: counting them is cheaper than a branch for each cell.
    flags = np.count_nonzero(where)
    if flags == 0 and isinstance(other, np.ndarray) and other.shape == where.shape:
        return other
    if flags == where.size and isinstance(one, np.ndarray) and one.shape == where.shape:
        return one
    return np.where(where, one, other)


def without(where: Flags, cells: Floats) -> Floats:
    """Return finite `cells` with 0 where a flag is set.

    Which flags are set is unpredictable, and a mispredicted branch costs five times as
    much as a multiplication.
    """
    return cells * ~where if np.count_nonzero(where) else cells


def root(of: Floats | float) -> Floats:
    """Return the square root."""
    if isinstance(of, float):
        return np.float64(sqrt(of))  # type: ignore[return-value]
    return np.sqrt(of)


def faded(elapsed_s: Floats | float, within_s: float) -> Floats:
    """Return what remains of 1 if it decays to 1/e in `within_s`."""
    if isinstance(elapsed_s, float):
        return exp(-elapsed_s / within_s)  # type: ignore[return-value]
    return np.exp(-elapsed_s / within_s)


def some(flags: Flags | Floats | bool) -> bool:
    """Return whether any flag is set, or any number is not 0."""
    if isinstance(flags, (bool, float, np.bool_)):
        return bool(flags)
    return bool(np.count_nonzero(flags))


def total(cells: Floats) -> Floats:
    """Return the sum over agents."""
    return np.add.reduce(cells, axis=0)  # type: ignore[no-any-return]
