"""Calendar periods: when the present one began, and when the next one begins.

A boundary is a change of the configuration that every process makes by itself: each
limit with a calendar period is replaced by one that says when its period began, and
code that follows the configuration renews the level
(`headgate.coordinator.config.configuration.Limit.renewed`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import (
        Configuration,
        Group,
        Limit,
        Period,
    )


class UnknownTimeZone(ValueError):
    """No time zone has this name."""


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises:
        UnknownTimeZone: There is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownTimeZone(
            f"expected a time zone such as UTC or Europe/Zurich, got {name!r:.60}"
        ) from error


def period_at(wall_s: float, period: Period, zone: ZoneInfo) -> tuple[float, float]:
    """Return when the period that holds `wall_s` begins and ends.

    Minutes and hours are counted on the clock of the zone, but keep their length when
    it is set forward or back; a day then has 23 or 25 hours.  Weeks begin on Monday.

    Args:
        wall_s: Seconds since the epoch.
        period: Its length.
        zone: Where it begins at 0:00, or at a whole hour or minute.

    Returns:
        Seconds since the epoch; the end is the beginning of the next.
    """
    local = datetime.fromtimestamp(wall_s, zone)
    if period in {"minute", "hour"}:
        length = 60.0 if period == "minute" else 3600.0
        offset = local.utcoffset() or timedelta(0)
        into_s = (wall_s + offset.total_seconds()) % length
        return wall_s - into_s, wall_s - into_s + length
    # Where the clock is set back at midnight, the day begins at the first of the two.
    begin = datetime(local.year, local.month, local.day)
    if period == "day":
        end = begin + timedelta(days=1)
    elif period == "week":
        begin -= timedelta(days=begin.weekday())
        end = begin + timedelta(days=7)
    elif period == "month":
        begin = begin.replace(day=1)
        end = (begin + timedelta(days=31)).replace(day=1)
    else:
        begin = begin.replace(month=1, day=1)
        end = begin.replace(year=begin.year + 1)
    return _instant(begin, zone), _instant(end, zone)


def in_periods(
    configuration: Configuration, wall_s: float
) -> tuple[Configuration, float]:
    """Return a configuration as it holds at `wall_s`, and when that ends.

    Args:
        configuration: As the API gave it.
        wall_s: Seconds since the epoch.

    Returns:
        The limits with a calendar period say when the present one began and how long
        it is.  The end is the next boundary of any limit, infinite if none has one.
    """
    ends_s = inf
    groups: list[Group] = []
    for group in configuration.groups:
        if any(limit.period for limit in group.limits):
            limits = tuple(_in_period(limit, wall_s) for limit in group.limits)
            ends_s = min(ends_s, *(limit.ends_at_s for limit in limits))
            groups.append(replace(group, limits=limits))
        else:
            groups.append(group)
    if ends_s == inf:
        return configuration, inf
    return replace(configuration, groups=tuple(groups)), ends_s


def _in_period(limit: Limit, wall_s: float) -> Limit:
    if limit.period is None:
        return limit
    begin_s, end_s = period_at(wall_s, limit.period, zone_of(limit.time_zone))
    return replace(limit, begins_at_s=begin_s, period_s=end_s - begin_s)


def _instant(local: datetime, zone: ZoneInfo) -> float:
    """Return when it is `local` in a zone; midnight may be skipped by summer time."""
    return local.replace(tzinfo=zone).astimezone(UTC).timestamp()
