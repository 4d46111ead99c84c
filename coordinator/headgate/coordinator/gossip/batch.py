"""The rows of many small reports, entered at once.

A hundred agents send a hundred reports between two looks.  Entering the rows of one
report takes some fifty numpy calls, however many rows it has, and each call touches
memory that has gone cold since.  All reports together are a few long columns.  The
result is that of entering them one after the other, bit for bit
(`tests/unit/coordinator/gossip/test_batch.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
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
"""A report with at most this many rows waits for others.  A longer one has columns that
are long enough, and if it carries the same rows each time it needs no new look-up."""

ROWS_TOGETHER = 1 << 13
"""Rows entered at once: a dozen columns of this length fit a core's cache."""

FEWEST = 2
"""Number of reports from which batching pays off."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A report whose rows are not entered yet.

    Attributes:
        member: Who sent it.
        report: The report.
        reported_at: When its rows held, monotonic seconds.
    """

    member: Member
    report: Report
    reported_at: float


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The rows of one dimension of all waiting reports, N in total.

    Attributes:
        of: Indices of the reports that have rows in this dimension.
        sizes: How many rows each of them has.
        rows: The rows, one report after the other.
        places: Where they stand in the table.
    """

    of: list[int]
    sizes: list[int]
    rows: Rows
    places: list[Place]

    def reported_at(self, waiting: list[Waiting]) -> Floats:
        """Return ``float64[N]``: when each row held, monotonic seconds."""
        times = np.array([waiting[at].reported_at for at in self.of])
        return np.repeat(times, self.sizes)


def enter_together(
    table: Table, waiting: list[Waiting], lag_s: float, loss: float
) -> list[int] | None:
    """Enter the rows of reports of different members, which the bus took `lag_s` for.

    Returns:
        For each report, the number of dimensions with an impossible counter.  None if
        nothing was entered because some rows need to be entered one by one: they have
        no place yet, are not numbers, or belong to a ledger at rest.
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
        for at in _enter(each, waiting, lag_s, loss):
            wrong[at] += 1
    return wrong


def _at_rest(columns: _Columns, waiting: list[Waiting]) -> bool:
    """Return whether a ledger has overflowed: then the order of its charges matters."""
    reported_at = columns.reported_at(waiting)
    return any(
        np.count_nonzero(
            overflow(place.block, place.slots, reported_at[place.rows]) > 0.0
        )
        for place in columns.places
    )


def _enter(
    columns: _Columns, waiting: list[Waiting], lag_s: float, loss: float
) -> set[int]:
    """Enter one dimension; return the reports that had an impossible counter."""
    reported_at = columns.reported_at(waiting)
    whose: set[int] = set()
    for place in columns.places:
        told = reported_at[place.rows]
        wrong = hear(
            place,
            columns.rows,
            told,
            lag_s=lag_s,
            loss=loss,
            reported_together=True,
        )
        if np.count_nonzero(wrong):
            of = np.repeat(columns.of, columns.sizes)[place.rows]
            whose.update(of[wrong].tolist())
    return whose


def _columns(table: Table, waiting: list[Waiting], dimension: str) -> _Columns | None:
    """Return the rows of one dimension; None if they need to be entered one by one."""
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
    """Return one dimension's rows, concatenated; None if some are not numbers."""
    if len({rows.subjects is None for rows in parts}) > 1:
        return None
    floats = [
        np.concatenate([getattr(rows, name) for rows in parts])
        for name in ("refused", "admitted", "demand", "held", "cost")
    ]
    if not isfinite(sum(float(np.add.reduce(column)) for column in floats)):
        return None
    refused, admitted, demand, held, cost = floats
    subjects = [rows.subjects for rows in parts if rows.subjects is not None]
    return Rows(
        dimension=parts[0].dimension,
        group_ids=np.concatenate([rows.group_ids for rows in parts]),
        refused=refused,
        admitted=admitted,
        demand=demand,
        held=held,
        cost=cost,
        largest=_column([rows.largest for rows in parts], parts, absent=0.0),
        level=_column([rows.level for rows in parts], parts, absent=nan),
        subjects=np.concatenate(subjects) if subjects else None,
    )


def _column(
    columns: list[Floats | None], parts: list[Rows], *, absent: float
) -> Floats | None:
    """Return columns that reports may leave out, concatenated."""
    if all(column is None for column in columns):
        return None
    return np.concatenate(
        [
            np.full(len(rows.cost), absent) if column is None else column
            for rows, column in zip(parts, columns, strict=True)
        ]
    )
