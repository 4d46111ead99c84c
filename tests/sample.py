"""What `make test` leaves to `make simulated`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def thorough(*cases: object) -> Iterator[object]:
    """Yield further cases of a kind; a tuple is the values of several parameters."""
    for case in cases:
        several = isinstance(case, tuple)
        values = cast("tuple[object, ...]", case) if several else (case,)
        yield pytest.param(*values, marks=pytest.mark.thorough)
