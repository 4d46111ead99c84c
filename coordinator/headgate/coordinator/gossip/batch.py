"""The rows of many small reports, entered at once.

A hundred agents send a hundred reports between two looks.  To enter the rows of one
takes some fifty calls of numpy, whatever their number, and each of them touches memory
that went cold since: together they are a few long columns.  What comes out is what
hearing one after the other gives, bit for bit
(`tests/unit/coordinator/gossip/test_batch.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

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
"""Rows of a report that waits for others: from a thousand on its columns are long
enough, and where the same come each time their lines need not be looked up again."""

ROWS_TOGETHER = 1 << 13
"""Rows entered at once: a dozen columns of this length stay in the cache of a core."""

FEWEST = 2
"""Reports from which on it pays."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A report whose rows are not entered yet.

    Attributes:
        member: Who sent it.
        report: The report.
        told_at: When its rows were true, monotonic seconds.
    """

    member: Member
    report: Report
    told_at: float


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The rows of one dimension of all that wait, N together.

    Attributes:
        of: Index of the reports that they are of.
        sizes: How many are of each.
        rows: One report's behind the other's.
        places: Where they stand.
    """

    of: list[int]
    sizes: list[int]
    rows: Rows
    places: list[Place]

    def told_at(self, waiting: list[Waiting]) -> Floats:
        """Return ``float64[N]``: when each row was true, monotonic seconds."""
        times = np.array([waiting[at].told_at for at in self.of])
        return np.repeat(times, self.sizes)


def enter_together(table: Table, waiting: list[Waiting]) -> list[int] | None:
    """Enter the rows of reports of different members.

    Returns:
        Of each report in how many dimensions a counter could not be true; None where
        nothing was entered, since some rows must be heard one by one: they have no
        row yet, are no numbers, or are of a ledger at rest.
    """
    if len(waiting) < FEWEST or not len(table):
        return None
    columns: list[_Columns] = []
    for dimension in {rows.dimension for one in waiting for rows in one.report.rows}:
        found = _columns(table, waiting, dimension)
        if found is None:
            return None
        columns.append(found)
    if any(_at_rest(each, waiting) for each in columns):
        return None
    wrong = [0] * len(waiting)
    for each in columns:
        for at in _enter(each, waiting):
            wrong[at] += 1
    return wrong


def _at_rest(columns: _Columns, waiting: list[Waiting]) -> bool:
    """Say whether a ledger overflowed since: then the order of its charges counts."""
    told_at = columns.told_at(waiting)
    return any(
        np.count_nonzero(overflow(place, told_at[place.rows]) > 0.0)
        for place in columns.places
    )


def _enter(columns: _Columns, waiting: list[Waiting]) -> set[int]:
    """Enter one dimension; return the reports of which a counter could not be true."""
    told_at = columns.told_at(waiting)
    whose: set[int] = set()
    for place in columns.places:
        told = told_at[place.rows]
        wrong = hear(place, columns.rows, told, told_together=True)
        if np.count_nonzero(wrong):
            of = np.repeat(columns.of, columns.sizes)[place.rows]
            whose.update(of[wrong].tolist())
    return whose


def _columns(table: Table, waiting: list[Waiting], dimension: str) -> _Columns | None:
    """Return the rows of one dimension; None where they must be heard one by one."""
    pairs = [
        (at, rows)
        for at, one in enumerate(waiting)
        for rows in one.report.rows
        if rows.dimension == dimension
    ]
    of, sizes = [at for at, _ in pairs], [len(rows.group_ids) for _, rows in pairs]
    rows = _joined([rows for _, rows in pairs])
    if rows is None:
        return None
    members = [waiting[at].member.number for at in of]
    numbers = table.numbers(dimension, rows.group_ids)
    places = table.standing(members, sizes, numbers)
    return None if places is None else _Columns(of, sizes, rows, places)


def _joined(parts: list[Rows]) -> Rows | None:
    """Return one dimension's rows behind each other; None if some are no numbers."""
    if len({rows.subjects is None for rows in parts}) > 1:
        return None
    floats = [
        np.concatenate([getattr(rows, name) for rows in parts])
        for name in ("refused", "admitted", "demand", "held", "cost")
    ]
    if not isfinite(sum(float(np.add.reduce(column)) for column in floats)):
        return None
    refused, admitted, demand, held, cost = floats
    largest = [rows.largest for rows in parts]
    levels = [
        np.full(len(rows.cost), np.nan) if rows.level is None else rows.level
        for rows in parts
    ]
    subjects = [rows.subjects for rows in parts if rows.subjects is not None]
    return Rows(
        dimension=parts[0].dimension,
        group_ids=np.concatenate([rows.group_ids for rows in parts]),
        refused=refused,
        admitted=admitted,
        demand=demand,
        held=held,
        cost=cost,
        largest=None
        if all(each is None for each in largest)
        else np.concatenate(
            [
                np.zeros(len(rows.cost)) if rows.largest is None else rows.largest
                for rows in parts
            ]
        ),
        level=np.concatenate(levels),
        subjects=np.concatenate(subjects) if subjects else None,
    )
