"""The rows that a step produces: their schema, and how they are built.

One frame holds rows of several kinds; the columns that a kind doesn't use are
null, which costs a bit each.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# pyarrow's own hints leave the kinds of its columns open.

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from headgate.pipeline.counters.counters import fixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.types import StructType

    from headgate.pipeline.counters.counters import Counters, Part
    from headgate.pipeline.counters.incarnation import Incarnation

KINDS = ("life", "usage", "gap", "healed", "ended", "dead", "tally")
"""State; usage; gaps and those that healed; final counters; dead letters; what a task
read and wrote."""

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
    "window_us": pa.int64(),
    "displaced": pa.bool_(),
    "group_id": pa.int64(),
    "refused": pa.float64(),
    "admitted": pa.float64(),
    "held": pa.float64(),
    "subjects": pa.int64(),
    "revision_first": pa.int64(),
    "revision_last": pa.int64(),
    "weight": pa.float64(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "broker_us": pa.int64(),
    "reason": pa.string(),
    "payload": pa.binary(),
}

ARROW = pa.schema(_COLUMNS)
"""Schema of the rows that a step produces."""

STEP_SCHEMA: StructType = from_arrow_schema(ARROW)
"""The same for Spark."""

_PACKED = ("group_id", "refused", "admitted", "subjects")
"""Columns in the payload of a row of kind ``usage``, in this order."""

_PACKED_BYTES = 8 * len(_PACKED)
"""Bytes of one group in it: little-endian, 8 bytes an entry."""

ONCE = (
    "agent",
    "dimension",
    "window_us",
    "displaced",
    "revision_first",
    "revision_last",
    "weight",
)
"""Columns that hold for all groups of such a row."""

_USED = {
    **{name: _COLUMNS[name] for name in (*_PACKED, *ONCE)},
    "attempted": pa.float64(),
}

USED_SCHEMA: StructType = from_arrow_schema(pa.schema(_USED))
"""Schema of `used_rows`."""


@dataclass(slots=True)
class Tally:
    """What a task read and wrote; tallies of several tasks add up.

    Attributes:
        messages: Messages read.
        rows: Rows (group × dimension) of the reports that could be read.
        offsets: First and last offset read, by ``topic/partition``.
        heard_us: Event time of the last report of each agent that was heard.
        kinds: Rows written of each kind.
    """

    messages: int = 0
    rows: int = 0
    offsets: dict[str, tuple[int, int]] = field(
        default_factory=dict[str, tuple[int, int]]
    )
    heard_us: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, int] = field(default_factory=dict[str, int])

    def saw(self, topic: str, partition: int, offset: int) -> None:
        """Count one message."""
        self.messages += 1
        self._range(f"{topic}/{partition}", offset, offset)

    def add(self, other: Tally) -> None:
        """Add what another task counted."""
        self.messages += other.messages
        self.rows += other.rows
        for name, (first, last) in other.offsets.items():
            self._range(name, first, last)
        self.heard_us |= other.heard_us
        for kind, rows in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + rows

    def _range(self, name: str, first: int, last: int) -> None:
        known = self.offsets.get(name, (first, last))
        self.offsets[name] = min(known[0], first), max(known[1], last)

    def to_json(self) -> str:
        """Return text that `from_json` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Tally:
        """Return the tally that a task wrote."""
        found = json.loads(text)
        ranges = {
            name: (first, last) for name, (first, last) in found["offsets"].items()
        }
        return cls(**found | {"offsets": ranges})


class RowBuilder:
    """Collects rows of all kinds and hands them on as Arrow batches."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._kinds: Counter[str] = Counter()

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield the collected rows once there are enough for a batch."""
        if self._rows >= READY_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows that are still here."""
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
            "weight": part.weight,
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
        """Add the last counters of a life, a row per group.

        ``window_us`` holds the time up to which a row's counters are known, because
        reports leave out rows that are as expected.
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
        self._keep(table, size, kind)

    def life(self, life: Incarnation, payload: bytes) -> None:
        """Add the state of one life."""
        self._one(
            {
                "kind": "life",
                "agent": life.agent,
                "incarnation": life.number,
                "sequence": life.sequence,
                "heard_us": life.heard_us,
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
        """Add what this task read, with the rows that it wrote."""
        tally.kinds = dict(self._kinds)
        self._one({"kind": "tally", "payload": tally.to_json().encode()})

    def _one(self, row: Mapping[str, object], *, weight: int = 1) -> None:
        """Add one row, which stands for `weight` of them."""
        schema = pa.schema({name: _COLUMNS[name] for name in row})
        table = pa.Table.from_pylist([dict(row)], schema=schema)
        self._keep(table, weight, str(row["kind"]))

    def _keep(self, table: pa.Table, weight: int, kind: str) -> None:
        """Add rows that have some of the columns."""
        self._tables.append(table)
        self._rows += weight
        self._kinds[kind] += table.num_rows


def packed_groups(part: Part) -> bytes:
    """Return the groups of a part and their amounts: four columns, one after another.

    Binary because Spark copies it as it is: with 25 columns a row, most of them null,
    converting from Arrow and to Parquet cost more than decoding and differencing.
    """
    columns = (part.group_ids, part.refused, part.admitted, part.subjects)
    return b"".join(column.tobytes() for column in columns)


def used_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of kind ``usage`` into rows of `USED_SCHEMA`, one per group."""
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
    refused, admitted = (columns[_PACKED.index(n)] for n in ("refused", "admitted"))
    attempted = pa.array(fixed(refused.to_numpy() + admitted.to_numpy()))
    return pa.RecordBatch.from_arrays([*columns, *same.columns, attempted], list(_USED))
