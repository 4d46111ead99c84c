"""When calendar periods begin and end, in any zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headgate.agent.follow.periods import (
    UnknownTimeZone,
    in_periods,
    period_at,
    zone_of,
)
from headgate.agent.follow.snapshot import snapshot_from_json
from headgate.coordinator.config.configuration import (
    Configuration,
    Group,
    InvalidConfiguration,
    Limit,
    Period,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("now", "period", "zone", "begin", "end"),
    [
        ("2026-11-22T09:30:10Z", "minute", "UTC", "11-22T09:30Z", "11-22T09:31Z"),
        ("2026-11-22T09:30:10Z", "hour", "UTC", "11-22T09:00Z", "11-22T10:00Z"),
        ("2026-11-22T09:50Z", "hour", "Asia/Kolkata", "11-22T09:30Z", "11-22T10:30Z"),
        ("2026-11-22T09:30Z", "day", "UTC", "11-22T00:00Z", "11-23T00:00Z"),
        # The day on which summer time begins has 23 hours, the other one 25.
        (
            "2026-03-29T12:00Z",
            "day",
            "Europe/Zurich",
            "03-28T23:00Z",
            "03-29T22:00Z",
        ),
        (
            "2026-10-25T12:00Z",
            "day",
            "Europe/Zurich",
            "10-24T22:00Z",
            "10-25T23:00Z",
        ),
        # Midnight comes twice, and the day begins at the first.
        ("2026-11-01T04:30Z", "day", "America/Havana", "11-01T04:00Z", "11-02T05:00Z"),
        ("2026-11-01T05:30Z", "day", "America/Havana", "11-01T04:00Z", "11-02T05:00Z"),
        (
            "2026-11-01T05:30Z",
            "month",
            "America/Havana",
            "11-01T04:00Z",
            "12-01T05:00Z",
        ),
        ("2026-11-22T09:30Z", "week", "UTC", "11-16T00:00Z", "11-23T00:00Z"),
        ("2026-02-28T23:59:59Z", "month", "UTC", "02-01T00:00Z", "03-01T00:00Z"),
        # In Zurich March has begun, and ends in summer time.
        (
            "2026-02-28T23:30Z",
            "month",
            "Europe/Zurich",
            "02-28T23:00Z",
            "03-31T22:00Z",
        ),
        (
            "2026-03-01T00:00Z",
            "month",
            "America/New_York",
            "02-01T05:00Z",
            "03-01T05:00Z",
        ),
    ],
)
def test_periods_begin_and_end_by_the_clock_of_their_zone(
    now: str, period: Period, zone: str, begin: str, end: str
) -> None:
    found = period_at(at(now), period, zone_of(zone))
    assert found == (at(f"2026-{begin}"), at(f"2026-{end}"))


def test_a_year_is_as_long_as_it_is() -> None:
    begin, end = period_at(at("2028-07-01T00:00Z"), "year", zone_of("UTC"))
    assert (begin, end) == (at("2028-01-01T00:00Z"), at("2029-01-01T00:00Z"))
    assert (end - begin) / 86_400 == 366


@pytest.mark.parametrize("period", ["minute", "hour", "day", "week", "month", "year"])
@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Zurich", "Australia/Lord_Howe", "Atlantic/Azores"]
)
def test_one_period_follows_the_other_without_a_gap(period: Period, zone: str) -> None:
    end = at("2025-12-29T13:00Z")
    for _ in range(400 if period in {"minute", "hour", "day"} else 5):
        begin, following = period_at(end, period, zone_of(zone))
        assert begin <= end < following
        if begin < end:  # the first one had begun before
            end = following
            continue
        assert period_at(following - 0.001, period, zone_of(zone)) == (begin, following)
        end = following


def test_a_configuration_says_when_its_periods_began_and_the_next_one_begins() -> None:
    monthly = Limit(dimension="tokens", rate=9, burst=9, period="month")
    daily = Limit(dimension="requests", rate=5, burst=5, period="day")
    plain = Limit(dimension="mutations", rate=5, burst=5)
    groups = (
        Group(id=1, name="a", limits=(monthly, plain)),
        Group(id=2, name="b", limits=(daily,)),
        Group(id=3, name="c", limits=(plain,)),
    )
    now = at("2026-11-22T09:30Z")
    found, ends_s = in_periods(Configuration(groups=groups), now)
    assert ends_s == at("2026-11-23T00:00Z")
    assert found.groups[0].limits[0].begins_at_s == at("2026-11-01T00:00Z")
    assert found.groups[0].limits[0].ends_at_s == at("2026-12-01T00:00Z")
    assert found.groups[0].limits[1] is plain
    assert found.groups[2] is groups[2]
    again, _ = in_periods(found, at("2026-12-31T23:00Z"))
    assert again.groups[0].limits[0].ends_at_s == at("2027-01-01T00:00Z")
    assert datetime.fromtimestamp(
        again.groups[1].limits[0].begins_at_s, UTC
    ) == datetime(2026, 12, 31, tzinfo=UTC)


def test_a_zone_or_a_burst_that_makes_no_sense_is_refused_where_it_stands() -> None:
    with pytest.raises(UnknownTimeZone, match="such as UTC or Europe/Zurich"):
        zone_of("Mars/Olympus")
    with pytest.raises(InvalidConfiguration, match="burst: expected the rate, 5"):
        Limit(dimension="requests", rate=5, burst=6, period="day")
    document = {
        "revision": 1,
        "cluster": "c",
        "groups": [
            {
                "id": 1,
                "name": "g",
                "limits": [
                    {
                        "dimension": "requests",
                        "rate": 5,
                        "burst": 5,
                        "period": "day",
                        "time_zone": "../etc/passwd",
                    }
                ],
            }
        ],
        "attachments": [],
    }
    with pytest.raises(ValueError, match=r"groups\[0\].limits\[0\].time_zone"):
        snapshot_from_json(document)
