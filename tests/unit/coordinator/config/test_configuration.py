"""What a limit may be."""

from __future__ import annotations

import re

import pytest

from headgate.coordinator import LEAST_PERIOD_S, InvalidConfiguration, Limit


@pytest.mark.parametrize("period_s", [0.0, 1e-320, 0.9 * LEAST_PERIOD_S, float("inf")])
def test_a_period_has_a_length_that_rates_can_be_divided_by(period_s: float) -> None:
    expected = f"period_s: expected a finite number ≥ {LEAST_PERIOD_S}, got {period_s}"
    with pytest.raises(InvalidConfiguration, match=re.escape(expected)):
        Limit(dimension="requests", rate=5.0, burst=5.0, period_s=period_s)
