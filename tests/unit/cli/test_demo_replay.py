"""The yardstick of the demo is itself right."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.demo.replay import (
    admitted_by_one_bucket,
    deepest_debt,
    max_min,
    worst_window,
)

TIMES = st.lists(st.integers(0, 20_000).map(lambda ms: ms / 1000), max_size=60).map(
    lambda times: np.array(sorted(times), dtype=np.float64)
)


def test_a_full_bucket_admits_its_burst_at_once_and_then_its_rate() -> None:
    at_s = np.concatenate([np.zeros(50), np.arange(1, 101) / 100])
    admitted = admitted_by_one_bucket(at_s, rate_per_s=20, burst_units=10)
    assert admitted[:50].sum() == 11  # at level 0 it admits and owes one
    assert 19 <= admitted[50:].sum() <= 20


def test_a_bucket_never_holds_more_than_its_burst_after_a_rest() -> None:
    at_s = np.concatenate([np.zeros(1), np.full(50, 1000.0)])
    admitted = admitted_by_one_bucket(at_s, rate_per_s=20, burst_units=10)
    assert admitted[1:].sum() == 11


@given(at_s=TIMES, rate=st.integers(1, 50), burst=st.integers(1, 20))
def test_what_one_bucket_admits_leaves_no_debt_beyond_one_unit(
    at_s: np.ndarray[tuple[int], np.dtype[np.float64]], rate: int, burst: int
) -> None:
    admitted = admitted_by_one_bucket(at_s, rate_per_s=rate, burst_units=burst)
    debt = deepest_debt(at_s[admitted], rate_per_s=rate, burst_units=burst)
    assert debt <= 1.0 + 1e-6


@given(at_s=TIMES, rate=st.integers(1, 50), burst=st.integers(1, 20))
def test_the_deepest_debt_is_the_worst_excess_of_any_closed_window(
    at_s: np.ndarray[tuple[int], np.dtype[np.float64]], rate: int, burst: int
) -> None:
    worst = 0.0
    for first in range(len(at_s)):
        for last in range(first, len(at_s)):
            count = last - first + 1
            allowed = burst + rate * float(at_s[last] - at_s[first])
            worst = max(worst, count - allowed)
    debt = deepest_debt(at_s, rate_per_s=rate, burst_units=burst)
    assert abs(debt - worst) < 1e-6


@given(at_s=TIMES, window_ms=st.integers(1, 5000))
def test_the_worst_window_is_the_fullest_of_all_that_begin_with_an_admission(
    at_s: np.ndarray[tuple[int], np.dtype[np.float64]], window_ms: int
) -> None:
    window_s = window_ms / 1000
    fullest = max(
        (int(((at_s >= t) & (at_s < t + window_s)).sum()) for t in at_s), default=0
    )
    assert worst_window(at_s, window_s=window_s) == fullest


@given(
    demand=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    capacity=st.integers(0, 3000),
)
def test_max_min_gives_nobody_more_by_giving_a_poorer_one_less(
    demand: list[int], capacity: int
) -> None:
    wanted = np.array(demand, dtype=np.float64)
    share = max_min(wanted, float(capacity))
    assert (share <= wanted + 1e-9).all()
    assert abs(share.sum() - min(wanted.sum(), capacity)) < 1e-6
    unserved = share < wanted - 1e-6
    if unserved.any():  # an agent that is refused has as much as any
        assert (share[unserved] >= share.max() - 1e-6).all()
