"""How times are written and shown on the command line, in local time."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.cli.failure import Misused
from headgate.cli.options.limits import parse_period

EXPECTED = "expected a time such as 18:00, 2026-11-30 or 2026-11-30T18:00+01:00"

_PART_NAMES = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def parse_until(text: str, now: datetime) -> datetime:
    """Return the time in `text`; a time of day means the next occurrence.

    Args:
        text: A time of day, a date (meaning midnight), or both; local unless it has
            an offset from UTC.
        now: The current time, with an offset from UTC.

    >>> from datetime import timezone
    >>> now = datetime(2026, 11, 21, 17, 30, tzinfo=timezone.utc)
    >>> parse_until("2026-11-30T18:00Z", now).isoformat()
    '2026-11-30T18:00:00+00:00'

    Raises:
        Misused: It is not a time, or in the past.
    """
    try:
        if ":" in text and "-" not in text[:5]:
            until = _next(text, now)
        else:
            until = datetime.fromisoformat(text)
        until = until if until.tzinfo else until.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise Misused(f"{text!r}: {EXPECTED}") from error
    if until <= now:
        raise Misused(f"{text!r}: expected a time in the future")
    return until


def parse_ago(text: str, now: datetime) -> datetime:
    """Return the past time in `text`, such as ``2h`` or ``2026-11-21``.

    Raises:
        Misused: It is not a time.
    """
    try:
        return now - timedelta(seconds=parse_period(text))
    except (Misused, OverflowError):
        pass
    try:
        since = datetime.fromisoformat(text)
        return since if since.tzinfo else since.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        expected = "expected an age such as 2h, or a time such as 2026-11-30T18:00"
        raise Misused(f"{text!r}: {expected}") from error


def show_time(at_s: float) -> str:
    """Return a time since the epoch in local time, with the zone."""
    try:
        return (
            datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        )
    except (ValueError, OverflowError, OSError):  # outside the calendar
        return f"{at_s:.0f} s since the epoch"


def show_span(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> show_span(8130), show_span(59.4), show_span(0), show_span(90_000)
    ('2 h 15 min', '59 s', '0 s', '1 d 1 h')
    """
    left = max(0, round(seconds))
    parts: list[str] = []
    for name, size in _PART_NAMES:
        if left >= size or (parts and len(parts) < 2):
            parts.append(f"{left // size} {name}")
            left %= size
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part[0] != "0") or "0 s"


def _next(text: str, now: datetime) -> datetime:
    """Return the next occurrence of a time of day; local unless it has an offset."""
    day = datetime.fromisoformat(f"2000-01-01T{text}")
    today = now.astimezone(day.tzinfo).replace(tzinfo=day.tzinfo)
    until = today.replace(
        hour=day.hour, minute=day.minute, second=day.second, microsecond=0
    )
    if day.tzinfo is None:  # the zone's offset may change before then
        now = now.astimezone().replace(tzinfo=None)
    return until if until > now else until + timedelta(days=1)
