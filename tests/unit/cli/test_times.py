"""Times as they are written at the command line."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from headgate.cli.failure import Misused
from headgate.cli.options.times import parse_ago, parse_until

if TYPE_CHECKING:
    from collections.abc import Iterator

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 28, 17, 30, tzinfo=BERLIN)
"""The evening before summer time begins there."""


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("18:00", "2026-03-28T18:00+01:00"),
        ("17:30", "2026-03-29T17:30+02:00"),  # tomorrow, in summer time
        ("08:15:30", "2026-03-29T08:15:30+02:00"),
        ("17:00Z", "2026-03-28T17:00+00:00"),
        ("2026-03-30", "2026-03-30T00:00+02:00"),
        ("2026-03-28T18:00", "2026-03-28T18:00+01:00"),
        ("2026-03-28 18:00+00:00", "2026-03-28T18:00+00:00"),
    ],
)
def test_a_time_of_day_is_the_next_one_on_the_local_clock(
    text: str, means: str
) -> None:
    assert parse_until(text, NOW) == datetime.fromisoformat(means)


@pytest.mark.parametrize(
    "text", ["", "18", "25:00", "soon", "2026-03-28", "0001-01-01", "9999-99-99", "1:2"]
)
def test_what_is_no_time_to_come_is_a_misuse(text: str) -> None:
    with pytest.raises(Misused, match="expected a time"):
        parse_until(text, NOW)


def test_the_past_is_an_age_or_a_time() -> None:
    assert parse_ago("2h", NOW) == NOW - timedelta(hours=2)
    since = datetime.fromisoformat("2026-03-27T00:00+01:00")
    assert parse_ago("2026-03-27", NOW) == since
    for text in ("", "yesterday", "99999999d"):
        with pytest.raises(Misused, match="expected an age"):
            parse_ago(text, NOW)
