"""How a contended group was divided, against weighted max-min.

The total that was admitted is divided again by what each agent attempted: the *fair*
amounts.  How much capacity was used is another question (see `violations`,
`recommend`); this one asks only who got it.

The level θ with Σ min(λ_j, w_j·θ) = total is the largest of
θ_k = (total − Σ_{i<k} λ_i) / Σ_{i≥k} w_i over agents in ascending order of λ/w:
θ_k grows while it is above λ_k/w_k and falls from there on.  All groups of a task are
done in one pass of numpy.  Rejected: window functions of SQL, which cost more than the
rest of a batch (each of three windows sorts all rows again, by names).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# pyarrow's own hints leave the kinds of its columns open.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headgate.pipeline.counters.counters import fixed
from headgate.pipeline.jobs.segments import NEEDED, Floats, Ints, Sorted, sorted_rows
from headgate.pipeline.jobs.usage import WINDOW
from headgate.pipeline.tables.schema import STARVED, UNFAIRNESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

STARVED_BELOW = 0.9
"""Fraction of its fair amount below which an agent counts as starved: a tenth is the
noise of a division, and a window's edge blurs by less."""

STARVED_LEAST = 1.0
"""Units that must be missing: less is rounding."""

_REVISIONS = [StructField(n, LongType()) for n in ("revision_first", "revision_last")]

_FIELDS = {f.name: f for f in (*UNFAIRNESS.fields, *STARVED.fields, *_REVISIONS)}

JUDGED = StructType([StructField("kind", StringType()), *_FIELDS.values()])
"""Rows of several kinds: ``unfair``, ``starved`` and ``total``."""

_ARROW = to_arrow_schema(JUDGED, timezone="UTC")


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The contended groups of some rows; N agents in all, K groups.

    Contended: something was refused, and two agents or more wanted it.

    Attributes:
        row: ``int64[N]`` place of each agent among the rows.
        start: ``int64[K]`` where each group begins.
        fair: ``float64[N]`` units.
        level: ``float64[K]`` θ.
    """

    row: Ints
    start: Ints
    fair: Floats
    level: Floats


def judged(usage: DataFrame, window_s: float) -> DataFrame:
    """Return rows of `JUDGED`: contended groups, starved agents, totals of groups.

    Args:
        usage: Rows of `schema.USAGE` of windows of one length.
        window_s: Length of the windows.
    """

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sorted_rows(batches)
        if rows is not None:
            for table in _judged(rows, float(window_s)):
                yield from table.to_batches()

    return (
        usage.where(~f.col("displaced"))
        .select(*NEEDED)
        .repartition(*WINDOW)
        .mapInArrow(judge, JUDGED)
    )


def unfairness(rows: DataFrame) -> DataFrame:
    """Return Jain's index and the distance from max-min of each contended group.

    Jain's index is that of admitted / fair: 1 when all have their amount, 1/n when
    one has everything.  The distance is the fraction of all admitted units that would
    have to change hands.

    Args:
        rows: From `judged`.
    """
    return rows.where("kind = 'unfair'").select(*UNFAIRNESS.names)


def starved(rows: DataFrame) -> DataFrame:
    """Return the agents that got less than `STARVED_BELOW` of their fair amount.

    Args:
        rows: From `judged`.
    """
    return rows.where("kind = 'starved'").select(*STARVED.names)


def totals(rows: DataFrame) -> DataFrame:
    """Return what each group was admitted in each window, and under which revisions.

    Groups are named only by id, because names may change within a window.

    Args:
        rows: From `judged`.
    """
    return rows.where("kind = 'total'").select(
        *WINDOW, "admitted", "revision_first", "revision_last"
    )


def division(rows: Sorted) -> Division:
    """Divide what was admitted to each contended group again, by weight."""
    contended = (np.add.reduceat(rows.refused, rows.start) > 0) & (rows.size > 1)
    size = rows.size[contended]
    start = np.cumsum(size) - size
    group = np.repeat(np.arange(len(size)), size)
    row = np.flatnonzero(np.repeat(contended, rows.size))
    # Rows are sorted by agent, and the sort is stable: ties are broken by name.
    row = row[np.lexsort((rows.attempted[row] / rows.weight[row], group))]
    attempted, heavy = rows.attempted[row], rows.weight[row]
    total = _units(rows.admitted[row], start)
    smaller = _before(attempted, start, size)
    rest = np.repeat(_sum(heavy, start), size) - _before(heavy, start, size)
    theta = (np.repeat(total, size) - smaller) / rest
    level = np.maximum.reduceat(theta, start) if len(start) else np.zeros(0)
    return Division(
        row, start, np.minimum(attempted, heavy * np.repeat(level, size)), level
    )


def _judged(rows: Sorted, window_s: float) -> Iterator[pa.Table]:
    """Yield the rows of all kinds of one task."""
    yield _totals(rows)
    found = division(rows)
    if not len(found.start):
        return
    attempted, admitted = rows.attempted[found.row], rows.admitted[found.row]
    lacking = found.fair - admitted
    start, count = found.start, np.diff(np.append(found.start, len(found.row)))
    part = np.divide(
        admitted, found.fair, out=np.ones(len(admitted)), where=found.fair > 0
    )
    squares, parts = _sum(part * part, start), _sum(part, start)
    fair = _sum(found.fair, start)
    one = np.ones(len(start))
    yield _table(
        rows.named(found.row[start]),
        "unfair",
        window_s=window_s,
        agents=count,
        attempted=_units(attempted, start),
        admitted=_units(admitted, start),
        jain=np.divide(parts**2, count * squares, out=one, where=squares > 0),
        distance=np.divide(
            _sum(np.maximum(lacking, 0.0), start),
            fair,
            out=np.zeros(len(start)),
            where=fair > 0,
        ),
        level=found.level,
    )
    poor = (admitted < STARVED_BELOW * found.fair) & (lacking >= STARVED_LEAST)
    row = found.row[poor]
    yield _table(
        rows.named(row),
        "starved",
        window_s=window_s,
        agent=rows.agents[rows.agent[row]],
        weight=rows.weight[row],
        attempted=attempted[poor],
        admitted=admitted[poor],
        fair=found.fair[poor],
        lacking=lacking[poor],
    )


def _totals(rows: Sorted) -> pa.Table:
    """Return a row for each group that was admitted something."""
    admitted = _units(rows.admitted, rows.start)
    used = np.flatnonzero(admitted > 0)
    return _table(
        rows.named(rows.start[used]),
        "total",
        admitted=admitted[used],
        revision_first=rows.revision_first[used],
        revision_last=rows.revision_last[used],
    )


def _table(
    named: pa.Table, kind: str, **columns: NDArray[np.generic] | float
) -> pa.Table:
    """Return rows of `JUDGED` from a group's names and some columns."""
    size = named.num_rows
    known = {name: np.broadcast_to(column, size) for name, column in columns.items()}
    table = named.append_column("kind", pa.repeat(kind, size))
    for name, column in known.items():
        table = table.append_column(name, pa.array(column, _ARROW.field(name).type))
    for field in _ARROW:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(size, field.type))
    return table.select(_ARROW.names).cast(_ARROW)


def _sum(column: Floats, start: Ints) -> Floats:
    """Return the sum of each group."""
    return np.add.reduceat(column, start) if len(start) else np.zeros(0)


def _units(column: Floats, start: Ints) -> Floats:
    """Return the units of each group, as exact as its rows: in whole thousandths.

    Otherwise 0.1 and 0.2 would exceed a limit of 0.3.
    """
    return fixed(_sum(column, start))


def _before(column: Floats, start: Ints, size: Ints) -> Floats:
    """Return the sum of the rows before each, within its group."""
    earlier = np.cumsum(column) - column
    result: Floats = earlier - np.repeat(earlier[start], size)
    return result
