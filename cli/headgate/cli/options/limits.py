"""How limits and quantities are written on the command line.

``--limit requests=1000/s,burst=2000,scope=cluster``
"""

from __future__ import annotations

import re
from math import inf
from typing import TypedDict

from headgate.cli.failure import Misused

UNLIMITED = "unlimited"
"""The rate without a limit, here and in the API's JSON."""

MAX_UNITS = 2**63 - 1
"""Largest finite number that the API accepts."""

_UNITS = {
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
"""Decimal and binary multiples, for rates in bytes."""

_PERIODS_S = {
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
"""Periods by name, in seconds; months differ, so there is only a calendar month."""

_CALENDAR = ("minute", "hour", "day", "week", "month", "year")
"""Calendar periods: all of the rate may pass between one boundary and the next."""

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)(|[kMGT]|[KMGT]i)")
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)?(ms|s|m|h|d|w)")


class LimitJson(TypedDict, total=False):
    """A limit in the API's JSON; settings that were not given are absent."""

    dimension: str
    rate: float | str | None
    burst: float | str
    period_s: float
    period: str | None
    time_zone: str
    scope: str
    minimum: float | str
    maximum: float | str
    samples: int
    window_s: float


def parse_limit(text: str) -> LimitJson:
    """Return the limit that `text` describes.

    >>> parse_limit("requests=1000")
    {'dimension': 'requests', 'rate': 1000.0}
    >>> parse_limit("publish_bytes=10M/m,burst=20M,scope=node")["period_s"]
    60.0
    >>> parse_limit("tokens=1M/month,zone=Europe/Zurich")["period"]
    'month'

    Raises:
        Misused: It is not ``DIMENSION=RATE[/PERIOD][,SETTING=VALUE…]``.
    """
    try:
        return _limit(text)
    except Misused as misuse:
        raise Misused(f"--limit {text!r}: {misuse}") from misuse


def parse_key(text: str) -> LimitJson:
    """Return the dimension and scope that `text` names, to remove that limit.

    >>> parse_key("requests,scope=node")
    {'dimension': 'requests', 'scope': 'node', 'rate': None}

    Raises:
        Misused: It is not ``DIMENSION[,scope=SCOPE]``.
    """
    dimension, comma, setting = text.partition(",")
    limit = LimitJson(dimension=dimension.strip())
    if comma:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if name != "scope":
            raise Misused(
                f"--remove-limit {text!r}: expected DIMENSION[,scope=cluster|node]"
            )
        _set(limit, name, equals, value)
    limit["rate"] = None
    return limit


def parse_quantity(text: str) -> float | str:
    """Return the number of units in `text`.

    >>> parse_quantity("1.5k"), parse_quantity("2Ki"), parse_quantity("unlimited")
    (1500.0, 2048.0, 'unlimited')

    Raises:
        Misused: It is not a number ≥ 0 with an optional multiple.
    """
    if text == UNLIMITED:
        return UNLIMITED
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise Misused(
            f"{text!r}: expected a number such as 1000, 1.5k or 10Mi, or unlimited"
        )
    units = float(match[1]) * _UNITS[match[2]]
    if units > float(MAX_UNITS):  # compared as a float, as in the API
        raise Misused(f"{text!r}: expected at most {MAX_UNITS}, or unlimited")
    return units


def parse_period(text: str) -> float:
    """Return the seconds in `text`.

    >>> parse_period("s"), parse_period("10s"), parse_period("h")
    (1.0, 10.0, 3600.0)

    Raises:
        Misused: It is not a period.
    """
    match = _PERIOD.fullmatch(text)
    seconds = float(match[1] or 1) * _PERIODS_S[match[2]] if match else 0.0
    if not 0 < seconds < inf:
        raise Misused(f"{text!r}: expected a period such as s, 10s, m, h or 30d")
    return seconds


def show_quantity(value: float | str) -> str:
    """Return `value` in readable form.

    >>> show_quantity(1000.0), show_quantity(0.5), show_quantity("unlimited")
    ('1,000', '0.5', 'unlimited')
    """
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) else f"{value:,g}"


def show_period(period_s: float) -> str:
    """Return the period as `parse_period` reads it, the largest that fits.

    >>> show_period(1.0), show_period(60.0), show_period(90.0)
    ('s', 'm', '90s')
    """
    for name, seconds in sorted(_PERIODS_S.items(), key=lambda item: -item[1]):
        if period_s == seconds:
            return name
        if period_s > seconds and (period_s / seconds).is_integer():
            return f"{period_s / seconds:.0f}{name}"
    return f"{period_s:g}s"


def show_limit(limit: LimitJson) -> str:
    """Return a limit much as it is written on the command line.

    >>> show_limit({"dimension": "tokens", "rate": 5.0, "burst": 9.0, "scope": "node"})
    'tokens=5/s burst 9 per node'
    """
    rate, period_s = limit.get("rate"), limit.get("period_s", 1.0)
    shown = f"{limit.get('dimension')}={show_quantity(rate or 0.0)}"
    period = limit.get("period")
    shown += f"/{period or show_period(period_s)}"
    if period and limit.get("time_zone", "UTC") != "UTC":
        shown += f" zone {limit.get('time_zone')}"
    if "burst" in limit and not period:
        shown += f" burst {show_quantity(limit['burst'])}"
    if limit.get("minimum"):
        shown += f" minimum {show_quantity(limit.get('minimum', 0.0))}"
    if limit.get("maximum", UNLIMITED) != UNLIMITED:
        shown += f" maximum {show_quantity(limit.get('maximum', UNLIMITED))}"
    return shown + (" per node" if limit.get("scope") == "node" else "")


def _limit(text: str) -> LimitJson:
    first, *settings = text.split(",")
    dimension, equals, rate = (part.strip() for part in first.partition("="))
    if not equals or not dimension.isidentifier():
        raise Misused("expected DIMENSION=RATE such as requests=1000/s")
    number, slash, period = rate.partition("/")
    limit = LimitJson(dimension=dimension, rate=parse_quantity(number))
    if slash and period in _CALENDAR:
        limit["period"] = period
    elif slash:
        limit["period_s"] = parse_period(period)
    for setting in settings:
        _set(limit, *(part.strip() for part in setting.partition("=")))
    if "time_zone" in limit and "period" not in limit:
        raise Misused(
            "expected a zone only with a calendar period, such as"
            f" {dimension}={number}/month"
        )
    return limit


def _set(limit: LimitJson, name: str, equals: str, value: str) -> None:
    """Set one ``name=value`` of a limit."""
    if equals and name == "burst":
        limit["burst"] = parse_quantity(value)
    elif equals and name == "minimum":
        limit["minimum"] = parse_quantity(value)
    elif equals and name == "maximum":
        limit["maximum"] = parse_quantity(value)
    elif equals and name == "samples" and value.isascii() and value.isdecimal():
        limit["samples"] = int(value)
    elif equals and name == "window":
        limit["window_s"] = parse_period(value)
    elif equals and name == "zone" and value:
        limit["time_zone"] = value
    elif name == "scope" and value in {"cluster", "node"}:
        limit["scope"] = value
    else:
        raise Misused(
            f"setting {name}{equals}{value}: expected burst=UNITS (or samples=NUMBER,"
            "window=PERIOD), minimum=UNITS, maximum=UNITS, scope=cluster|node or "
            "zone=TIME_ZONE of a calendar period"
        )
