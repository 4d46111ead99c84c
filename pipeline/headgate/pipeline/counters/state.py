"""One life's counters as bytes: what is kept between two batches.

A JSON header, a zero byte, then the arrays one after the other, little-endian, 8
bytes an entry.  Binary because Spark copies it as it is: a list column costs a
conversion per entry.  About 48 bytes per (group, agent) pair, and 32 per open window
and group in use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headgate.pipeline.counters.counters import Counters, Part
from headgate.pipeline.counters.incarnation import Incarnation

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 3
"""Version of this format; a state in another one is refused."""


class StateUnreadable(ValueError):
    """The state of another version: start from an empty output folder."""


class _PartHead(NamedTuple):
    window_us: int
    displaced: bool
    revision_first: int
    revision_last: int
    weight: float
    size: int


def pack(life: Incarnation) -> bytes:
    """Return the bytes of `life`; `heard_now` is not kept."""
    arrays: list[NDArray[np.generic]] = []
    dimensions: list[object] = []
    for dimension, c in life.counters.items():
        arrays += [c.group_ids, c.time_us, c.subjects, c.refused, c.admitted, c.held]
        heads: list[_PartHead] = []
        for p in c.parts:
            arrays += [p.group_ids, p.subjects, p.refused, p.admitted]
            heads.append(
                _PartHead(
                    p.window_us,
                    p.displaced,
                    p.revision_first,
                    p.revision_last,
                    p.weight,
                    len(p.group_ids),
                )
            )
        dimensions.append([dimension, len(c.group_ids), heads])
    header = {
        "format": FORMAT,
        "agent": life.agent,
        "number": life.number,
        "sequence": life.sequence,
        "told": sorted(life.told.items()),
        "first": life.first,
        "began_us": life.began_us,
        "heard_us": life.heard_us,
        "before_us": life.before_us,
        "least_delay_us": life.least_delay_us,
        "revision": life.revision,
        "weight": life.weight,
        "left": life.left,
        "listed": life.listed,
        "dimensions": dimensions,
    }
    return b"".join(
        [json.dumps(header).encode(), b"\0", *(a.tobytes() for a in arrays)]
    )


def unpack(payload: bytes) -> Incarnation:
    """Return the life that `payload` stands for.

    Raises:
        StateUnreadable: It was written by another version.
    """
    end = payload.index(b"\0")
    header = json.loads(payload[:end])
    if header.pop("format") != FORMAT:
        raise StateUnreadable(f"state: expected format {FORMAT}")
    dimensions = header.pop("dimensions")
    life = Incarnation(**header | {"told": dict(header["told"])})
    reader = _Reader(payload, end + 1)
    for dimension, size, heads in dimensions:
        counters = Counters(
            group_ids=reader.ints(size),
            time_us=reader.ints(size),
            subjects=reader.ints(size),
            refused=reader.floats(size),
            admitted=reader.floats(size),
            held=reader.floats(size),
        )
        for head in (_PartHead(*h) for h in heads):
            ids, subjects = reader.ints(head.size), reader.ints(head.size)
            refused, admitted = reader.floats(head.size), reader.floats(head.size)
            part = Part(*head[:5], ids, refused, admitted, subjects)
            counters.parts.append(part)
        life.counters[dimension] = counters
    return life


class _Reader:
    """Reads arrays one after the other; each is a copy that may be changed."""

    def __init__(self, payload: bytes, start: int) -> None:
        self._payload = payload
        self._at = start

    def ints(self, size: int) -> NDArray[np.int64]:
        column = np.frombuffer(self._payload, np.int64, size, self._at)
        self._at += 8 * size
        return column.copy()

    def floats(self, size: int) -> NDArray[np.float64]:
        column = np.frombuffer(self._payload, np.float64, size, self._at)
        self._at += 8 * size
        return column.copy()
