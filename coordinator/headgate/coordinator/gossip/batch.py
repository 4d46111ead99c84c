"""The rows of many small reports, entered at once.

The result is that of entering them one after the other, bit for bit
(docs/decisions/0023-batched-reports.md).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.ledger.replay import hear, overflow
from headgate.coordinator.messages.report import Rows

if TYPE_CHECKING:
    from headgate.coordinator.membership.members import Member
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.arrays import Floats, Ints
    from headgate.coordinator.table.index import Place, Table

    _Entry = tuple[Rows, Ints, Floats, Place]
    """Rows of one dimension of all reports; of those in one block, the index of each
    one's report, when it held, and where they stand."""

ROWS_MAX = 768
"""A report with at most this many rows waits for others.  A longer one has columns that
are long enough, and if it carries the same rows each time it needs no new look-up."""

ROWS_TOGETHER = 1 << 13
"""Rows entered at once: a dozen columns of this length fit a core's cache."""


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
    entries: list[_Entry] = []
    for dimension in {rows.dimension for _, each in waiting for rows in each.rows}:
        found = _entries(table, waiting, dimension)
        if found is None:
            return None
        entries += found
    # Of a ledger that has overflowed at rest, the order of its charges matters.
    if any(overflow(at.block, at.slots, held_s).any() for _, _, held_s, at in entries):
        return None
    wrong: set[tuple[str, int]] = set()
    for rows, of, held_s, at in entries:
        false = hear(at, rows, held_s, lag_s=lag_s, loss=loss, reported_together=True)
        wrong.update((rows.dimension, number) for number in of[false].tolist())
    return sorted(number for _, number in wrong)


def _entries(
    table: Table, waiting: list[tuple[Member, Report]], dimension: str
) -> list[_Entry] | None:
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
    report = np.repeat(of, sizes)
    held_s = np.repeat([member.reported_at for member in members], sizes)
    return [(rows, report[at.rows], held_s[at.rows], at) for at in places]


def finite(rows: Rows) -> bool:
    """Return whether all columns but `level`, where NaN means none, are finite."""
    columns = [rows.admitted, rows.refused, rows.demand, rows.held, rows.cost]
    optional = [rows.largest, rows.inside, rows.counted, rows.own]
    optional += [rows.age_s, rows.told_s, rows.before]
    columns += [each for each in optional if each is not None]
    return isfinite(sum(float(np.add.reduce(column)) for column in columns))
