"""The rows of many small reports, entered at once.

A hundred agents send a hundred reports between two looks.  Entering the rows of one
report takes some fifty numpy calls, however many rows it has, and each call touches
memory that has gone cold since.  All reports together are a few long columns.  The
result is that of entering them one after the other, bit for bit
(`tests/unit/coordinator/gossip/test_batch.py`).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headgate.coordinator.ledger.replay import hear, overflow
from headgate.coordinator.messages.report import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.membership.members import Member
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.index import Place, Table

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ROWS_MAX = 768
"""A report with at most this many rows waits for others.  A longer one has columns that
are long enough, and if it carries the same rows each time it needs no new look-up."""

ROWS_TOGETHER = 1 << 13
"""Rows entered at once: a dozen columns of this length fit a core's cache."""


class _Columns(NamedTuple):
    """The rows of one dimension of all waiting reports, N in total.

    Attributes:
        rows: The rows, one report after the other.
        of: ``int64[N]`` index of the report that each row belongs to.
        reported_at: ``float64[N]`` when each row held, monotonic seconds.
        places: Where they stand in the table.
    """

    rows: Rows
    of: Ints
    reported_at: Floats
    places: list[Place]


def enter_together(
    table: Table, waiting: list[tuple[Member, Report]], lag_s: float, loss: float
) -> list[int] | None:
    """Enter the rows of reports of different members, which the bus took `lag_s` for.

    Args:
        table: Changed.
        waiting: Each member's newest report, and no other of that member.
        lag_s: Lag of the bus.
        loss: Fraction of the reports that are lost.

    Returns:
        Indices of the reports with an impossible counter, in order, once for each
        dimension that has one.  None if nothing was entered because some rows need to
        be entered one by one: they have no place yet, are not numbers, or belong to a
        ledger at rest.
    """
    if not len(table):
        return None
    columns: list[_Columns] = []
    for dimension in {rows.dimension for _, each in waiting for rows in each.rows}:
        found = _columns(table, waiting, dimension)
        if found is None:
            return None
        columns.append(found)
    if any(_at_rest(each) for each in columns):
        return None
    wrong: list[int] = []
    for each in columns:
        impossible: set[int] = set()
        for place in each.places:
            false = hear(
                place,
                each.rows,
                each.reported_at[place.rows],
                lag_s=lag_s,
                loss=loss,
                reported_together=True,
            )
            impossible.update(each.of[place.rows][false].tolist())
        wrong += impossible
    return sorted(wrong)


def _at_rest(columns: _Columns) -> bool:
    """Return whether a ledger has overflowed: then the order of its charges matters."""
    return any(
        np.count_nonzero(
            overflow(place.block, place.slots, columns.reported_at[place.rows]) > 0.0
        )
        for place in columns.places
    )


def _columns(
    table: Table, waiting: list[tuple[Member, Report]], dimension: str
) -> _Columns | None:
    """Return the rows of one dimension; None if they need to be entered one by one."""
    found = [
        (at, member, rows)
        for at, (member, report) in enumerate(waiting)
        for rows in report.rows
        if rows.dimension == dimension
    ]
    of, members, parts = zip(*found, strict=True)
    if len({part.subjects is None for part in parts}) > 1:
        return None
    rows = Rows.joined(parts)
    if not finite(rows):
        return None
    sizes = [len(part.group_ids) for part in parts]
    numbers = table.numbers(dimension, rows.group_ids)
    places = table.standing([member.number for member in members], sizes, numbers)
    if places is None:
        return None
    reported_at = np.array([member.reported_at for member in members])
    return _Columns(rows, np.repeat(of, sizes), np.repeat(reported_at, sizes), places)


def finite(rows: Rows) -> bool:
    """Return whether all columns but `level`, where NaN means none, are finite."""
    columns = [rows.admitted, rows.refused, rows.demand, rows.held, rows.cost]
    optional = rows.largest, rows.inside, rows.age_s, rows.before
    columns += [each for each in optional if each is not None]
    return isfinite(sum(float(np.add.reduce(column)) for column in columns))
