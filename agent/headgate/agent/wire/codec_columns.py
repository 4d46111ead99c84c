"""Reads the columns of a report: checks them, and keeps only the rows in use.

A broker that uses five thousand of the cluster's hundred thousand groups needs four
of a hundred rows that it hears; the others are never turned into numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.errors import MalformedReport
from headgate.coordinator.config.template_values import VALUES_BELOW, VALUES_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_ROWS = 1 << 18
"""Most rows of one dimension; bounds what a hostile payload of 1-byte entries takes."""

MAX_GROUP_ID = VALUES_BELOW - 1
"""Ids of the store are small; those of single values are digests just below this."""

MAX_SUBJECTS = (1 << 31) - 1
"""Most limiters that one agent may report for a group: more than fit into a process,
and the largest number that the coordinator's tables hold."""

MAX_SCALE = 1_000_000
"""Most steps per unit that a foreign writer may choose; ours go up to 1,000."""

NO_IDS = np.zeros(0, dtype=np.int64)
"""The ids of a report or dimension without rows."""


class Places:
    """The group ids of some rows, and the positions of the wanted ones.

    Attributes:
        size: How many rows there are.
        ids: ``int64[K]`` of the wanted rows.
        at: ``int64[K]`` their positions; None if all are wanted.
        left_out: ``int64[K]`` ids of the other rows; None if there is none.
        used: As in `decode`.
    """

    def __init__(self, ids: NDArray[np.int64], used: NDArray[np.bool_] | None) -> None:
        self.size, self.ids, self.used = len(ids), ids, used
        self.at: NDArray[np.int64] | None = None
        self.left_out: NDArray[np.int64] | None = None
        if used is not None and len(ids):
            wanted = used.take(ids, mode="clip")
            if used[-1]:  # of single values, but of no other group beyond the table
                wanted &= (ids < len(used) - 1) | (ids >= VALUES_FROM)
            if np.count_nonzero(wanted) < len(ids):
                self.at = wanted.nonzero()[0]
                self.ids = ids[self.at]
                self.left_out = ids[~wanted]


def group_ids_of(deltas: Sequence[int], name: str, *, least: int) -> NDArray[np.int64]:
    """Return the running sums of `deltas`, each of which is at least `least`."""
    if len(deltas) > MAX_ROWS:
        raise MalformedReport(
            f"{name}: expected at most {MAX_ROWS} rows, got {len(deltas)}"
        )
    if not len(deltas):
        return NO_IDS
    steps = np.asarray(deltas, dtype=np.uint64)
    if steps[0] < 1 or np.minimum.reduce(steps) < least:
        raise MalformedReport(f"{name}: expected group ids > 0 in ascending order")
    if np.maximum.reduce(steps) > MAX_GROUP_ID:
        raise MalformedReport(f"{name}: expected group ids ≤ {MAX_GROUP_ID}")
    first, size = int(steps[0]), len(steps)
    if size > 1 and np.maximum.reduce(steps[1:]) == 1 == least:
        # The usual case if agents use all groups: counting costs a sixth of summing.
        ids = np.arange(first, first + size)
    else:
        ids = steps.view(np.int64).cumsum()
    # The first sum beyond the bound is less than 2**63 or, if it overflows, negative.
    if np.maximum.reduce(ids) > MAX_GROUP_ID or np.minimum.reduce(ids) < 0:
        raise MalformedReport(f"{name}: expected group ids ≤ {MAX_GROUP_ID}")
    return ids


def scale_of(scale: int, name: str) -> int:
    """Return the steps per unit; 0, which protobuf doesn't write, means 1."""
    if scale > MAX_SCALE:
        raise MalformedReport(f"{name}: expected a scale ≤ {MAX_SCALE}, got {scale}")
    return scale or 1


def units_of(
    steps: Sequence[int], scale: int, at: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Return a column in units, as a copy."""
    whole = np.asarray(steps)
    column = (whole if at is None else whole[at]).astype(np.float64)
    return column if scale == 1 else column / scale


def subjects_of(
    counts: Sequence[int], name: str, at: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Return the numbers of limiters in use."""
    column = np.asarray(counts, dtype=np.uint64)
    if column.max() > MAX_SUBJECTS:
        raise MalformedReport(f"{name}.subjects: expected ≤ {MAX_SUBJECTS}")
    return (column if at is None else column[at]).astype(np.int64)
