"""The rows of one task as columns of numpy, sorted by window, group and agent.

For jobs that compare the agents of a group: Spark brings the rows of a group's window
together, numpy sorts them once, and each group is a segment of the columns.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# pyarrow's own hints leave the kinds of its columns open.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from headgate.pipeline.jobs.usage import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Names: TypeAlias = NDArray[np.object_]
else:
    Floats = Ints = Names = np.ndarray

_AMOUNTS = ("attempted", "admitted", "refused")

_REVISIONS = ("revision_first", "revision_last")

NEEDED = ("window_start", *KEYS, "agent", "weight", *_AMOUNTS, *_REVISIONS)
"""Columns of usage that `sorted_rows` reads."""

_NO_REVISION = np.iinfo(np.int64)
"""Its extremes stand for no revision: any revision is lower, or higher."""


@dataclass(frozen=True, slots=True, eq=False)
class Sorted:
    """Rows of usage, one per agent in a group's window; R rows, K groups.

    Attributes:
        agents: ``object[A]`` names of the agents that occur, ascending.
        agent: ``int64[R]`` index into `agents`, ascending within a group.
        weight: ``float64[R]`` of the agent, as of its newest revision.
        attempted: ``float64[R]`` units.
        admitted: ``float64[R]``.
        refused: ``float64[R]``.
        start: ``int64[K]`` where each group's window begins.
        size: ``int64[K]`` how many agents it has.
        names: Window, group, tenant and dimension of each row, as of its newest
            revision.
        revision_first: ``int64[K]`` lowest revision under which units were admitted;
            meaningless where none were.
        revision_last: ``int64[K]`` highest.
    """

    agents: Names
    agent: Ints
    weight: Floats
    attempted: Floats
    admitted: Floats
    refused: Floats
    start: Ints
    size: Ints
    names: pa.Table
    revision_first: Ints
    revision_last: Ints

    def named(self, row: Ints) -> pa.Table:
        """Return the names of some rows."""
        return self.names.take(row)


def sorted_rows(batches: Iterable[pa.RecordBatch]) -> Sorted | None:
    """Return the rows of a task, added up for each agent; None if there are none."""
    whole = list(batches)
    table = pa.Table.from_batches(whole) if whole else None
    if table is None or not table.num_rows:
        return None
    agents, agent = _coded(table, "agent")
    _, dimension = _coded(table, "dimension")
    window: Ints = table.column("window_start").cast(pa.int64()).to_numpy()
    group: Ints = table.column("group_id").to_numpy()
    revision: Ints = table.column("revision_last").to_numpy()
    order = np.lexsort((revision, agent, dimension, group, window))
    keys = [column[order] for column in (agent, dimension, group, window)]
    first, groups = _begins(keys), _begins(keys[1:])
    last = np.append(first[1:], len(order)) - 1
    start = np.flatnonzero(np.isin(first, groups))
    amounts = {name: table.column(name).to_numpy()[order] for name in _AMOUNTS}
    columns = {name: np.add.reduceat(each, first) for name, each in amounts.items()}
    used = amounts["admitted"] > 0
    oldest: Ints = table.column("revision_first").to_numpy()[order]
    names = table.select(["window_start", *KEYS]).take(order[last])
    return Sorted(
        agents=agents,
        agent=keys[0][first],
        weight=table.column("weight").to_numpy()[order[last]],
        attempted=columns["attempted"],
        admitted=columns["admitted"],
        refused=columns["refused"],
        start=start,
        size=np.diff(np.append(start, len(first))),
        names=names,
        revision_first=np.minimum.reduceat(
            np.where(used, oldest, _NO_REVISION.max), groups
        ),
        revision_last=np.maximum.reduceat(
            np.where(used, revision[order], _NO_REVISION.min), groups
        ),
    )


def _begins(keys: list[Ints]) -> Ints:
    """Return where rows begin that differ from the row before."""
    differs = np.zeros(len(keys[0]), bool)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)


def _coded(table: pa.Table, name: str) -> tuple[Names, Ints]:
    """Return the texts of a column, ascending, and each row's place among them."""
    coded = table.column(name).combine_chunks().dictionary_encode()
    texts: Names = np.array(coded.dictionary.to_pylist(), np.object_)
    order = np.argsort(texts)
    place: Ints = np.argsort(order)
    return texts[order], place[coded.indices.to_numpy()]
