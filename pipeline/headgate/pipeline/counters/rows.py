"""The rows that a step leaves behind: their schema, and how they are built.

One frame holds rows of several kinds; the columns that a kind doesn't use are
null, which costs a bit each.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# pyarrow's own hints leave the kinds of its columns open.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.types import StructType

    from headgate.pipeline.counters.counters import Counters, Part
    from headgate.pipeline.counters.incarnation import Incarnation

KINDS = ("life", "usage", "gap", "healed", "ended", "dead", "offset", "decoded")
"""State; usage; gaps and those that healed; final counters; dead letters; what was
read of each partition; how many rows the reports held."""

READY_ROWS = 65_536
"""Rows after which a batch is handed on; bounds the memory of a task."""

_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "agent": pa.string(),
    "incarnation": pa.int64(),
    "sequence": pa.int64(),
    "dimension": pa.string(),
    "heard_us": pa.int64(),
    "until_us": pa.int64(),
    "fresh": pa.bool_(),
    "window_us": pa.int64(),
    "displaced": pa.bool_(),
    "group_id": pa.int64(),
    "refused": pa.float64(),
    "admitted": pa.float64(),
    "held": pa.float64(),
    "subjects": pa.int64(),
    "revision_first": pa.int64(),
    "revision_last": pa.int64(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "last_offset": pa.int64(),
    "broker_us": pa.int64(),
    "messages": pa.int64(),
    "reason": pa.string(),
    "payload": pa.binary(),
}

ARROW = pa.schema(_COLUMNS)
"""What a step leaves behind."""

STEP_SCHEMA: StructType = from_arrow_schema(ARROW)
"""The same for Spark."""

_PACKED = ("group_id", "refused", "admitted", "subjects")
"""Columns in the payload of a row of kind ``usage``, in this order."""

_PACKED_BYTES = 8 * len(_PACKED)
"""Of one group in it: little-endian, 8 bytes an entry."""

ONCE = (
    "agent",
    "dimension",
    "window_us",
    "displaced",
    "revision_first",
    "revision_last",
)
"""Columns that hold for all groups of such a row."""

_USED = {name: _COLUMNS[name] for name in (*_PACKED, *ONCE)}

USED_SCHEMA: StructType = from_arrow_schema(pa.schema(_USED))
"""Of `used_rows`."""


@dataclass(slots=True)
class _Seen:
    """The offsets of one partition that a task saw."""

    first: int
    last: int
    messages: int = 0


@dataclass(slots=True)
class Tally:
    """What a task read.

    Attributes:
        seen: Offsets by topic and partition.
        rows: Rows (group × dimension) of the reports that could be read.
    """

    rows: int = 0
    seen: dict[tuple[str, int], _Seen] = field(
        default_factory=dict[tuple[str, int], _Seen]
    )

    def saw(self, topic: str, partition: int, offset: int) -> None:
        """Count one message."""
        seen = self.seen.setdefault((topic, partition), _Seen(offset, offset))
        seen.first = min(seen.first, offset)
        seen.last = max(seen.last, offset)
        seen.messages += 1


class RowBuilder:
    """Collects rows of all kinds and hands them on as Arrow batches."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield what there is once it is worth a batch."""
        if self._rows >= READY_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all that was collected."""
        tables, self._tables, self._rows = self._tables, [], 0
        if tables:
            # Columns that a kind lacks are filled with nulls here, all at once.
            whole = pa.concat_tables(
                [ARROW.empty_table(), *tables], promote_options="default"
            )
            yield from whole.combine_chunks().to_batches()

    def usage(self, agent: str, dimension: str, part: Part) -> None:
        """Add what one agent used in one window: one row, its groups as bytes."""
        size = len(part.group_ids)
        if not size:
            return
        row = {
            "kind": "usage",
            "agent": agent,
            "dimension": dimension,
            "window_us": part.window_us,
            "displaced": part.displaced,
            "revision_first": part.revision_first,
            "revision_last": part.revision_last,
            "payload": packed_groups(part),
        }
        self._one(row, weight=size)

    def counters(
        self,
        kind: str,
        life: Incarnation,
        dimension: str,
        counters: Counters,
        *,
        until_us: int = 0,
    ) -> None:
        """Add the last counters of a life, a row a group.

        ``window_us`` holds the time up to which a row's counters are known: rows
        that were as expected are left out of reports.
        """
        size = len(counters.group_ids)
        table = pa.table(
            {
                "kind": pa.repeat(kind, size),
                "agent": pa.repeat(life.agent, size),
                "incarnation": pa.repeat(life.number, size),
                "sequence": pa.repeat(life.sequence, size),
                "dimension": pa.repeat(dimension, size),
                "heard_us": pa.repeat(life.heard_us, size),
                "until_us": pa.repeat(until_us, size),
                "group_id": pa.array(counters.group_ids),
                "refused": pa.array(counters.refused),
                "admitted": pa.array(counters.admitted),
                "window_us": pa.array(counters.time_us),
                "held": pa.array(counters.held),
                "revision_last": pa.repeat(life.revision, size),
            }
        )
        self._keep(table, size)

    def life(self, life: Incarnation, payload: bytes) -> None:
        """Add the state of one life."""
        self._one(
            {
                "kind": "life",
                "agent": life.agent,
                "incarnation": life.number,
                "sequence": life.sequence,
                "heard_us": life.heard_us,
                "fresh": life.heard_now,
                "payload": payload,
            }
        )

    def dead(
        self,
        *,
        topic: str,
        partition: int,
        offset: int,
        broker_us: int,
        reason: str,
        payload: bytes,
    ) -> None:
        """Add a message that can't be used."""
        self._one(
            {
                "kind": "dead",
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "broker_us": broker_us,
                "reason": reason,
                "payload": payload,
            }
        )

    def tally(self, tally: Tally) -> None:
        """Add what was read of each partition."""
        for (topic, partition), seen in sorted(tally.seen.items()):
            self._one(
                {
                    "kind": "offset",
                    "topic": topic,
                    "partition": partition,
                    "offset": seen.first,
                    "last_offset": seen.last,
                    "messages": seen.messages,
                }
            )
        if tally.rows:
            self._one({"kind": "decoded", "messages": tally.rows})

    def _one(self, row: Mapping[str, object], *, weight: int = 1) -> None:
        """Add one row, which stands for `weight` of them."""
        schema = pa.schema({name: _COLUMNS[name] for name in row})
        self._keep(pa.Table.from_pylist([dict(row)], schema=schema), weight)

    def _keep(self, table: pa.Table, weight: int) -> None:
        """Add rows that have some of the columns."""
        self._tables.append(table)
        self._rows += weight


def packed_groups(part: Part) -> bytes:
    """Return the groups of a part and their amounts: four columns, one after another.

    Binary because Spark copies it whole: of 25 columns a row, most of them null, the
    conversion from Arrow and to Parquet cost more than decoding and differencing.
    """
    columns = (part.group_ids, part.refused, part.admitted, part.subjects)
    return b"".join(column.tobytes() for column in columns)


def used_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of kind ``usage`` into rows of `USED_SCHEMA`, one a group."""
    for batch in batches:
        once = batch.select(list(ONCE))
        for n, payload in enumerate(batch.column("payload")):
            yield _used(once.slice(n, 1), payload.as_buffer())


def _used(once: pa.RecordBatch, packed: pa.Buffer) -> pa.RecordBatch:
    """Return the rows of one agent's window."""
    size = packed.size // _PACKED_BYTES
    columns = [
        pa.Array.from_buffers(_USED[name], size, [None, packed.slice(8 * size * n)])
        for n, name in enumerate(_PACKED)
    ]
    same = once.take(np.zeros(size, np.int64))
    return pa.RecordBatch.from_arrays([*columns, *same.columns], list(_USED))
