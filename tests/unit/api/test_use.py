"""When a limit counts as over."""

from dataclasses import replace

import pytest

from headgate.api.live.snapshot import LiveAgentUse, Use
from headgate.coordinator.config.configuration import Period


def use(*, rate: float, level: float, admitted: float, refused: float) -> Use:
    agent = LiveAgentUse(
        agent="a",
        demand_per_s=admitted + refused,
        share_per_s=admitted,
        ceiling_per_s=admitted,
        admitted_per_s=admitted,
        refused_per_s=refused,
        held_units=0.0,
        subjects=1,
        age_s=0.1,
        state="present",
    )
    return Use(
        group_id=1,
        group="g",
        dimension="requests",
        rate=rate,
        period_s=1.0,
        burst=rate,
        level=level,
        available_per_s=rate,
        agents=(agent,),
    )


@pytest.mark.parametrize(
    ("rate", "level", "pressure"),
    [
        (100.0, 0.0, "over"),
        (100.0, 90.0, "over"),  # wanted three times over, whatever is left just now
        (500.0, 10.0, "over"),  # a burst has just emptied it
        (1000.0, 1000.0, "calm"),  # a group inside it refused
    ],
)
def test_a_limit_is_over_if_it_is_short_itself(
    rate: float, level: float, pressure: str
) -> None:
    assert (
        use(rate=rate, level=level, admitted=100.0, refused=200.0).pressure == pressure
    )


def test_a_limit_that_refuses_nothing_is_not_over() -> None:
    assert use(rate=100.0, level=0.0, admitted=99.0, refused=1.0).pressure == "near"


@pytest.mark.parametrize(
    ("period", "rate", "level", "used"),
    [
        ("month", 50.0, 34.0, 16.0),
        ("month", 50.0, -2.0, 52.0),
        ("month", 50.0, 60.0, 0.0),  # an override has just ended
        ("month", float("inf"), 0.0, None),
        (None, 50.0, 34.0, None),
    ],
)
def test_ably_of_a_calendar_period_what_is_used_is_told(
    period: Period | None, rate: float, level: float, used: float | None
) -> None:
    seen = use(rate=rate, level=level, admitted=1.0, refused=0.0)
    assert replace(seen, period=period).used_units == used
