"""Report ↔ bytes; only this module and `codec_permits` know protobuf.

The wire is described in proto/headgate/proto/report.proto and, for people, in
docs/reference/reports.md: packed columns per dimension, group ids once per report
as differences, 13 bytes a row for two counters, demand and held.  Rejected: one
message per row (14 times slower to read), compression (saves a tenth, costs as
much as the decoding), floats (8 bytes a column).

Precision.  Counters are exact to 1 unit if all are whole, otherwise to 0.001; they
are rounded, not summed, so errors don't accumulate.  Demand is kept to 0.2 %.  Held
and level are kept to 0.001 of a unit when small and to one unit when large.

Nothing that arrives is trusted: sizes, lengths, order and ranges are checked
before a `Report` exists.  What a *plausible* report claims is judged by the
coordinator, not here.
"""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from headgate.agent.errors import MalformedReport
from headgate.agent.wire import checksum
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES, MAX_WEIGHT
from headgate.agent.wire.codec_columns import (
    NO_IDS,
    Places,
    group_ids_of,
    scale_of,
    subjects_of,
    units_of,
)
from headgate.agent.wire.codec_permits import decode_permits, encode_permits
from headgate.coordinator.messages.report import Report, Rows
from headgate.proto import report_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FORMAT = 1
"""Format that `encode` writes; report.proto says how it may change."""

FORMAT_OF_PARTS = 2
"""Format of one part of a report: a reader that doesn't know parts would take the
second one for a duplicate of the first."""

MAX_DIMENSIONS = 64
"""Dimensions of one report: the nine known ones, and room for users' own."""

MAX_PARTS = 1_024
"""Most partitions that one report is split over."""

MAX_NAME_CHARACTERS = 256
"""Longest name of a cluster, an agent or a dimension; as long as a group's."""

MAX_INTERVAL_MS = 3_600_000
"""An hour between two heartbeats; the sender's lease is derived from it."""

EXACT = float(1 << 53)
"""Largest double up to which every whole number is exact."""

_STEPS = 256
"""Demand codes per octave: neighbours differ by 0.4 %, rounding by half of that."""

_MAX_DEMAND_CODE = 64 * _STEPS - 1
"""The largest code that a varint holds in two bytes."""

_SMALL = float(1 << 13)
"""Steps of held or level that a signed varint holds in two bytes."""


def _demand_table() -> NDArray[np.float64]:
    """Return the demand of each code, units/s, ``float64[16384]``."""
    octave, step = np.divmod(np.arange(_MAX_DEMAND_CODE + 1), _STEPS)
    table: NDArray[np.float64] = np.ldexp(
        (_STEPS + step).astype(np.float64), octave - 28
    )
    table[0] = 0.0
    return table


_DEMAND = _demand_table()


def encode(report: Report) -> bytes:
    """Return the bytes of `report`.

    Raises:
        MalformedReport: A value is NaN, negative where it may not be, or the
            result would be larger than `MAX_PAYLOAD_BYTES`: the caller's fault.
    """
    if not isfinite(report.sent_at_s):
        raise MalformedReport(f"sent_at_s: expected a time, got {report.sent_at_s}")
    # The first dimension's ids are written once, for all dimensions that share them.
    shared = report.rows[0].group_ids if report.rows else None
    message = wire.Report(
        format=FORMAT_OF_PARTS if report.parts else FORMAT,
        cluster=report.cluster,
        agent=report.agent,
        incarnation=report.incarnation,
        sequence=report.sequence,
        sent_at_us=round(report.sent_at_s * 1e6),
        revision=report.revision,
        hello=report.hello,
        leave=report.leave,
        keyframe=report.keyframe,
        rows=[_encode_rows(rows, shared) for rows in report.rows],
        permits=[encode_permits(permits) for permits in report.permits],
        weight=report.weight if report.weight != 1.0 else 0.0,
        interval_ms=round(report.interval_s * 1e3),
        part=report.part,
        parts=report.parts,
    )
    if shared is not None:
        message.group_id_deltas.extend(_deltas(shared, least=1))
    payload = checksum.sealed(message.SerializeToString())
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise MalformedReport(
            f"expected at most {MAX_PAYLOAD_BYTES} bytes, got {len(payload)}"
        )
    return payload


def decode(payload: bytes, used: NDArray[np.bool_] | None = None) -> Report:
    """Return the report that `payload` encodes.

    Fields that this version doesn't know, and a higher `format`, are ignored.

    Args:
        payload: The bytes.
        used: ``bool[N]`` by group id, the last one for all larger ids; rows of groups
            that are not used are left out.  None for all rows.

    Raises:
        MalformedReport: `payload` is not a report; says what is wrong with it.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise MalformedReport(
            f"expected at most {MAX_PAYLOAD_BYTES} bytes, got {len(payload)}"
        )
    checksum.check(payload)
    try:
        message = wire.Report.FromString(payload)
    except DecodeError as error:
        raise MalformedReport(f"not a protobuf message: {error}") from None
    _check_header(message)
    shared = Places(group_ids_of(message.group_id_deltas, "report", least=1), used)
    left_out: list[NDArray[np.int64]] = []
    rows = tuple(_decode_rows(rows, shared, left_out) for rows in message.rows)
    permits = tuple(decode_permits(permits) for permits in message.permits)
    _check_unique([r.dimension for r in rows], "rows")
    _check_unique([p.dimension for p in permits], "permits")
    return Report(
        cluster=message.cluster,
        agent=message.agent,
        incarnation=message.incarnation,
        sequence=message.sequence,
        sent_at_s=message.sent_at_us / 1e6,
        revision=message.revision,
        hello=message.hello,
        leave=message.leave,
        keyframe=message.keyframe,
        rows=rows,
        permits=permits,
        weight=message.weight or 1.0,
        interval_s=(message.interval_ms or 1_000) / 1e3,
        part=message.part,
        parts=tuple(message.parts),
        left_out=np.unique(np.concatenate(left_out)) if left_out else None,
    )


def _encode_rows(rows: Rows, shared: NDArray[np.int64] | None) -> wire.Rows:
    """Return one dimension's columns, without ids if they are the report's."""
    scale = _counter_scale(rows)
    held_scale = _signed_scale(rows.held)
    message = wire.Rows(
        dimension=rows.dimension,
        counter_scale=scale,
        held_scale=held_scale,
        refused=_steps(rows.refused, scale, "refused", least=0.0),
        admitted=_steps(rows.admitted, scale, "admitted", least=0.0),
        demand=_demand_codes(rows.demand, "demand"),
        held=_steps(rows.held, held_scale, "held", least=-inf),
    )
    if not np.all(rows.cost == 1.0):
        message.cost.extend(_demand_codes(rows.cost, "cost"))
    for name, to, column in (
        ("largest", message.largest, rows.largest),
        ("inside", message.inside, rows.inside),
        ("counted", message.counted, rows.counted),
        ("own", message.own, rows.own),
        ("age", message.age, rows.age_s),
        ("told", message.told, rows.told_s),
    ):
        if column is not None:
            to.extend(_demand_codes(column, name))
    if rows.before is not None:
        message.before.extend(_steps(rows.before, scale, "before", least=0.0))
    if rows.level is not None:
        _encode_levels(rows.level, message)
    if rows.subjects is not None:
        message.subjects.extend(rows.subjects.tolist())
    if shared is None or not np.array_equal(rows.group_ids, shared):
        message.group_id_deltas.extend(_deltas(rows.group_ids, least=1))
    return message


def _encode_levels(level: NDArray[np.float64], message: wire.Rows) -> None:
    """Add levels to a message, in columns of their own if some are NaN."""
    sure = np.flatnonzero(~np.isnan(level))
    scale = message.level_scale = _signed_scale(level[sure])
    steps = _steps(level[sure], scale, "level", least=-inf)
    if len(sure) == len(level):
        message.level.extend(steps)
    else:  # readers of earlier versions take any entry of `level` for a level
        message.sure.extend(sure.tolist())
        message.sure_level.extend(steps)


def _deltas(group_ids: NDArray[np.int64], *, least: int) -> list[int]:
    """Return the first id and then the differences, which are short as varints."""
    deltas: list[int] = np.diff(group_ids, prepend=0).tolist()
    if deltas and min(deltas) < least:
        raise MalformedReport("group_ids: expected ids > 0 in ascending order")
    return deltas


def _counter_scale(rows: Rows) -> int:
    """Return 1 when all counters are whole, else 1,000 as long as that is exact."""
    for column in (rows.refused, rows.admitted, rows.before):
        if column is not None and np.any(column != np.floor(column)):
            return 1000 if max(rows.refused.max(), rows.admitted.max()) < EXACT else 1
    return 1


def _signed_scale(column: NDArray[np.float64]) -> int:
    """Return the finest of 1,000, 100 and 10 whose steps fit two bytes, else 1."""
    largest = float(np.abs(column).max(initial=0.0))
    return next((s for s in (1000, 100, 10) if largest * s < _SMALL), 1)


def _steps(
    column: NDArray[np.float64], scale: int, name: str, *, least: float
) -> list[int]:
    """Return `column` in whole steps, at most ±2⁵³ units."""
    if len(column) and not (np.isfinite(column).all() and column.min() >= least):
        raise MalformedReport(f"{name}: expected finite numbers ≥ {least:g}")
    # One absurd debt must not keep an agent from reporting all its other limits.
    within = np.clip(column, -EXACT, EXACT)
    steps: list[int] = np.rint(within * scale).astype(int).tolist()
    return steps


def _demand_codes(demand: NDArray[np.float64], name: str) -> list[int]:
    """Return the nearest code of each demand; small ones never become 0."""
    if len(demand) and not demand.min() >= 0:  # `not ≥`, so that NaN is refused too
        raise MalformedReport(f"{name}: expected numbers ≥ 0")
    fraction, exponent = np.frexp(np.minimum(demand, _DEMAND[-1]))
    steps = np.rint(fraction * (2 * _STEPS)).astype(np.int64) - _STEPS
    codes = (exponent + 19) * _STEPS + steps
    codes = np.where(demand > 0, np.clip(codes, 1, _MAX_DEMAND_CODE), 0)
    listed: list[int] = codes.tolist()
    return listed


def _check_header(message: wire.Report) -> None:
    """Raise for what is not a report at all: other bytes may parse by accident."""
    if message.format < 1:
        raise MalformedReport("format: expected ≥ 1, got 0")
    for name, value in (("cluster", message.cluster), ("agent", message.agent)):
        if not 0 < len(value) <= MAX_NAME_CHARACTERS:
            raise MalformedReport(
                f"{name}: expected 1 to {MAX_NAME_CHARACTERS} characters, "
                f"got {len(value)}"
            )
    if not message.agent.isprintable():  # it stands in logs and on terminals
        raise MalformedReport(
            f"agent: expected printable characters, got {message.agent[:40]!r}"
        )
    largest = max(message.incarnation, message.sequence, message.revision)
    if largest >= 1 << 63:
        raise MalformedReport("incarnation, sequence, revision: expected < 2⁶³")
    if not 0.0 <= message.weight <= MAX_WEIGHT:  # NaN is refused as well
        raise MalformedReport(f"weight: expected 0 to {MAX_WEIGHT:g}")
    if message.interval_ms > MAX_INTERVAL_MS:
        raise MalformedReport(f"interval_ms: expected ≤ {MAX_INTERVAL_MS}")
    if len(message.parts) > MAX_PARTS or (
        message.parts and message.part not in message.parts
    ):
        raise MalformedReport(f"parts: expected at most {MAX_PARTS}, including `part`")
    if max(len(message.rows), len(message.permits)) > MAX_DIMENSIONS:
        raise MalformedReport(f"rows: expected at most {MAX_DIMENSIONS} dimensions")


def _check_unique(dimensions: Sequence[str], name: str) -> None:
    """Raise for a dimension that occurs twice, or is not an identifier."""
    if len(set(dimensions)) < len(dimensions):
        raise MalformedReport(f"{name}: expected each dimension at most once")
    for dimension in dimensions:
        if len(dimension) > MAX_NAME_CHARACTERS or not dimension.isidentifier():
            raise MalformedReport(
                f"{name}: expected an identifier, got {dimension[:40]!r}"
            )


def _decode_rows(
    message: wire.Rows, shared: Places, left_out: list[NDArray[np.int64]]
) -> Rows:
    """Return one dimension's rows; `shared` are the ids of the report.

    The ids of rows that are left out are appended to `left_out`.
    """
    name = message.dimension[:40]
    places = shared
    if len(message.group_id_deltas):
        ids = group_ids_of(message.group_id_deltas, name, least=1)
        places = Places(ids, shared.used)
    elif not message.admitted:
        places = Places(NO_IDS, None)
    if places.left_out is not None:
        left_out.append(places.left_out)
    # Each access to a repeated field makes a new wrapper: keep one.
    refused, admitted = message.refused, message.admitted
    demand, held = message.demand, message.held
    cost, largest = message.cost, message.largest
    level, subjects, inside = message.level, message.subjects, message.inside
    counted, own = message.counted, message.own
    age, told, before = message.age, message.told, message.before
    size, at = places.size, places.at
    required = (refused, admitted, demand, held)
    optional = (cost, largest, inside, counted, own, age, told, before)
    columns = (*required, *optional, level, subjects)
    for column, values in zip(_COLUMNS, columns, strict=True):
        if len(values) != size and (len(values) or column not in _OPTIONAL):
            raise MalformedReport(
                f"{name}.{column}: expected {size} entries, one per group id, "
                f"got {len(values)}"
            )
    scale = scale_of(message.counter_scale, name)
    held_scale = scale_of(message.held_scale, name)
    level_scale = scale_of(message.level_scale, name)
    return Rows(
        dimension=message.dimension,
        group_ids=places.ids,
        refused=units_of(refused, scale, at),
        admitted=units_of(admitted, scale, at),
        demand=_decoded(demand, f"{name}.demand", at),
        held=units_of(held, held_scale, at),
        cost=_decoded(cost, f"{name}.cost", at) if cost else np.ones(len(places.ids)),
        largest=_largest(largest, f"{name}.largest", at) if largest else None,
        inside=_decoded(inside, f"{name}.inside", at) if inside else None,
        counted=_decoded(counted, f"{name}.counted", at) if counted else None,
        own=_decoded(own, f"{name}.own", at) if own else None,
        age_s=_decoded(age, f"{name}.age", at) if age else None,
        told_s=_decoded(told, f"{name}.told", at) if told else None,
        before=units_of(before, scale, at) if before else None,
        level=_levels(message, level_scale, size, at),
        subjects=subjects_of(subjects, name, at) if subjects else None,
    )


def _largest(
    column: Sequence[int], name: str, at: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Return what the codes stand for; the last one also for all that is larger."""
    largest = _decoded(column, name, at)
    return np.where(largest < _DEMAND[-1], largest, EXACT)


def _levels(
    message: wire.Rows, scale: int, size: int, at: NDArray[np.int64] | None
) -> NDArray[np.float64] | None:
    """Return the levels, NaN where none is told; None if none is told at all."""
    if message.level:
        return units_of(message.level, scale, at)
    sure = np.asarray(message.sure, dtype=np.int64)
    if len(sure) != len(message.sure_level):
        raise MalformedReport(
            f"{message.dimension[:40]}.sure_level: expected {len(sure)} entries, one "
            f"per index in sure, got {len(message.sure_level)}"
        )
    if not len(sure):
        return None
    if sure[-1] >= size or (np.diff(sure) <= 0).any():
        raise MalformedReport(
            f"{message.dimension[:40]}.sure: expected ascending indexes < {size}"
        )
    levels = np.full(size, nan)
    levels[sure] = units_of(message.sure_level, scale, None)
    return levels if at is None else levels[at]


def _decoded(
    column: Sequence[int], name: str, at: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Return the values that the codes of a column stand for."""
    codes = np.asarray(column, dtype=np.uint32)
    if len(codes) and np.maximum.reduce(codes) > _MAX_DEMAND_CODE:
        raise MalformedReport(f"{name}: expected codes ≤ {_MAX_DEMAND_CODE}")
    return _DEMAND.take(codes if at is None else codes[at])


_COLUMNS = (
    "refused",
    "admitted",
    "demand",
    "held",
    "cost",
    "largest",
    "inside",
    "counted",
    "own",
    "age",
    "told",
    "before",
    "level",
    "subjects",
)
"""Columns that must be as long as the ids."""

_OPTIONAL = _COLUMNS[4:]
"""Those of `_COLUMNS` that may be absent."""
