"""What an observer makes of the counters of rows that are reported now and then."""

from __future__ import annotations

import pytest

from headgate.agent.observer import RowMeter
from headgate.coordinator.explain.views import AgentRow


def row(*, admitted: float, refused: float, demand: float, age_s: float) -> AgentRow:
    return AgentRow(
        agent="a",
        incarnation=1,
        demand=demand,
        attempted=demand,
        share=1.0,
        ceiling=1.0,
        refused=refused,
        admitted=admitted,
        predicted=0.0,
        held=0.0,
        subjects=1,
        age_s=age_s,
        state="present",
    )


@pytest.mark.parametrize(("refused_per_s", "shown"), [(0.0, 0.0), (40.0, 50.0)])
def test_the_rest_of_an_average_counts_as_refused_only_where_something_was_refused(
    refused_per_s: float, shown: float
) -> None:
    """A request of 600 that nothing followed was shown as 351 refused a second."""
    meter = RowMeter()
    for second in range(12):
        told = min(second, 3)  # after that, nothing moves, and nothing is reported
        meter.read(
            row(
                admitted=600.0,
                refused=refused_per_s * told,
                demand=50.0,
                age_s=float(second - told),
            ),
            100.0 + second,
        )
    assert meter.admitted_per_s == 0.0
    assert meter.refused_per_s == shown
