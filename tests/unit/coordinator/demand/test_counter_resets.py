"""Counters of buckets that were recreated, or had a charge given back."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator.demand.local_buckets import restarted

COUNTED = 100.0


@pytest.mark.parametrize(
    ("now", "growth", "remembered"),
    [
        (107.0, 7.0, COUNTED),
        (95.0, 0.0, COUNTED),  # a charge was given back, and is not charged again
        (7.0, 7.0, 0.0),  # the bucket was recreated
    ],
)
def test_a_counter_that_fell_was_given_back_or_began_anew(
    now: float, growth: float, remembered: float
) -> None:
    one, many = np.array([COUNTED]), np.array([COUNTED, 1.0])
    alone = restarted(np.array([now - COUNTED])[0], one, 0, np.array([now]))  # type: ignore[arg-type]  # an index may be a number
    both = restarted(
        np.array([now - COUNTED, 2.0]), many, slice(0, 2), np.array([now, 3.0])
    )
    assert (float(alone), one.tolist()) == (growth, [remembered])
    assert (both.tolist(), many.tolist()) == ([growth, 2.0], [remembered, 1.0])
