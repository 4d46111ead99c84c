"""One formula for one ledger and for many: what it is worked out with.

`many` works on columns, as numpy does.  `one` works on the numbers of a single
ledger, of which a call of numpy costs ten times the arithmetic: a shelf's column
indexed with one slot is a ``numpy.float64``, and lines are ``float64[A]`` instead of
``float64[A, K]``.  A formula that uses numpy itself works with both, only slower with
one; what it must not do is to change a column in place.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from headgate.coordinator.ledger.scalar import slot_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.table.arrays import Index

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


class Ops(Protocol):
    """What formulas of columns need."""

    def maximum(self, a: Floats, b: Floats | float) -> Floats:
        """Return the larger of each pair."""
        ...

    def minimum(self, a: Floats, b: Floats | float) -> Floats:
        """Return the smaller of each pair."""
        ...

    def where(self, flag: Flags, a: Floats | float, b: Floats | float) -> Floats:
        """Return `a` where the flag is set, else `b`."""
        ...

    def sqrt(self, a: Floats) -> Floats:
        """Return square roots."""
        ...

    def any(self, flag: Flags) -> bool:
        """Tell whether a flag is set anywhere."""
        ...

    def count(self, lines: Floats) -> Floats:
        """Return how many lines of each ledger are not zero, at least 1."""
        ...


class _Many:
    def maximum(self, a: Floats, b: Floats | float) -> Floats:
        larger: Floats = np.maximum(a, b)
        return larger

    def minimum(self, a: Floats, b: Floats | float) -> Floats:
        smaller: Floats = np.minimum(a, b)
        return smaller

    def where(self, flag: Flags, a: Floats | float, b: Floats | float) -> Floats:
        return np.where(flag, a, b)

    def sqrt(self, a: Floats) -> Floats:
        root: Floats = np.sqrt(a)
        return root

    def any(self, flag: Flags) -> bool:
        return bool(np.count_nonzero(flag))

    def count(self, lines: Floats) -> Floats:
        counts: Floats = np.count_nonzero(lines, axis=0).astype(np.float64)
        return self.maximum(counts, 1.0)


class _One:
    # Numbers go by the name of columns here: see the module's docstring.

    def maximum(self, a: Floats, b: Floats | float) -> Floats:
        return a if a > b else b  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def minimum(self, a: Floats, b: Floats | float) -> Floats:
        return a if a < b else b  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def where(self, flag: Flags, a: Floats | float, b: Floats | float) -> Floats:
        return a if flag else b  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def sqrt(self, a: Floats) -> Floats:
        return sqrt(a)  # type: ignore[return-value]  # pyright: ignore[reportReturnType, reportArgumentType]

    def any(self, flag: Flags) -> bool:
        return bool(flag)

    def count(self, lines: Floats) -> Floats:
        agents = float(np.count_nonzero(lines))
        return agents if agents > 1.0 else 1.0  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


many: Ops = _Many()
one: Ops = _One()


def ops_of(slots: Index) -> tuple[Index, Ops]:
    """Return what to index columns with, and what to work on them with."""
    slot = slot_of(slots)
    return (slots, many) if slot is None else (cast("Index", slot), one)
