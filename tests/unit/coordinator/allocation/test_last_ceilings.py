"""Which of many buckets are set again when their ceilings hardly changed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.coordinator.allocation.last_ceilings import SET_ANYWAY, LastCeilings
from headgate.coordinator.messages.events import Ceilings, Keys

if TYPE_CHECKING:
    from headgate.coordinator.table.arrays import Flags

SIZE = SET_ANYWAY + 1
NONE = np.zeros(SIZE, dtype=np.bool_)
FIRST = np.arange(SIZE) == 0


def ceilings(
    rate: float = 100.0, capacity: float = 100.0, least_delay_s: float = 1.0
) -> Ceilings:
    """Return the same ceilings for all buckets, none of which is shared."""
    one = np.ones(SIZE)
    return Ceilings(
        shared=NONE,
        share=one,
        ceiling=one,
        level=one,
        rate=rate * one,
        capacity=capacity * one,
        room=one,
        window=one,
        expected_rate=one,
        room_cap=one,
        cautious=NONE,
        quota=one,
        least_delay_s=least_delay_s * one,
        reserve=one,
    )


def set_again(new: Ceilings, exact: Flags = NONE, owed: Flags = NONE) -> list[int]:
    """Return the buckets that are set again just after `ceilings()`."""
    rows, counted = np.arange(SIZE), np.zeros(SIZE)
    last = LastCeilings(Keys(("requests",), np.zeros(SIZE, np.int64), rows), SIZE)
    last.take(rows, ceilings(), counted, counted, now=0.0, lease_s=3.0, exact=NONE)
    credit = owed.astype(np.float64)
    far = last.take(rows, new, counted, credit, now=0.0, lease_s=3.0, exact=exact)
    return [] if far is None else far.index.tolist()


@pytest.mark.parametrize("column", ["rate", "capacity"])
def test_of_a_strict_bucket_every_lowering_counts(column: str) -> None:
    assert set_again(ceilings(**{column: 99.9}), exact=FIRST) == [0]
    assert set_again(ceilings(**{column: 100.1}), exact=FIRST) == []


def test_only_a_large_change_of_any_other_counts() -> None:
    assert set_again(ceilings(rate=99.9)) == []
    assert set_again(ceilings(rate=90.0)) == list(range(SIZE))


def test_a_delay_that_has_no_end_any_more_counts() -> None:
    assert set_again(ceilings(least_delay_s=inf)) == list(range(SIZE))


def test_a_bucket_with_a_credit_is_set_in_any_case() -> None:
    assert set_again(ceilings(), owed=FIRST) == [0]
