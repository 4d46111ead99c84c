"""How each list is shown to people: which columns, their headings and formats."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pyspark.sql import Row

TITLES = {
    "violations": "Windows above rate · window + burst",
    "unfairness": "Least fair divisions of contended groups",
    "starved": "Agents with demand that got less than their share",
    "noisy": "Top talkers",
    "bill": "Totals per tenant and day",
    "invoices": "Invoice lines",
    "recommendations": "Limits compared with their demand",
    "gaps": "Lives that ended without a goodbye",
    "losses": "Messages deleted before they were read",
    "dead_letters": "Messages that could not be used",
}
"""Lists in the order of the page."""

_WHO = ("group", "dimension")

COLUMNS: dict[str, tuple[str, ...]] = {
    "violations": ("window_start", *_WHO, "admitted", "allowed", "excess", "takers"),
    "unfairness": (
        "window_start", *_WHO, "agents", "attempted", "admitted", "jain", "distance",
    ),
    "starved": ("window_start", *_WHO, "agent", "attempted", "admitted", "fair"),
    "noisy": ("window_start", *_WHO, "agent", "attempted", "part", "change"),
    "recommendations": (
        *_WHO, "rate_per_s", "peak_per_s", "refusing_1", "refused_part", "verdict",
    ),
    "bill": ("day", "tenant", "dimension", "admitted", "refused", "gap_bound"),
    "invoices": ("month", "tenant", "item", "units", "amount", "currency", "status"),
    "gaps": ("heard", *_WHO, "agent", "bound", "healed"),
    "losses": ("noticed", "topic", "partition", "expected_offset", "messages"),
    "dead_letters": ("received", "topic", "partition", "offset", "reason"),
}  # fmt: skip
"""Columns that fit a terminal; the page shows these and then `FURTHER`."""

FURTHER: dict[str, tuple[str, ...]] = {
    "violations": ("agents", "rate_per_s", "burst", "tenant"),
    "unfairness": ("level", "tenant"),
    "starved": ("weight", "lacking", "tenant"),
    "noisy": ("weight", "admitted", "usual", "tenant"),
    "bill": ("groups", "attempted"),
    "invoices": ("plan", "from_units", "price", "per", "time_zone"),
    "recommendations": (
        "refusing_0_1", "refusing_5", "mean_per_s", "near_part", "peak_hour",
        "seasonality", "tenant",
    ),
    "gaps": ("until", "held", "incarnation", "tenant"),
}  # fmt: skip
"""For the page, which can be scrolled."""

_HEADINGS = {
    "window_start": "window (UTC)",
    "rate_per_s": "limit/s",
    "peak_per_s": "peak/s",
    "mean_per_s": "mean/s",
    "refusing_0_1": "limit for 0.1 %",
    "refusing_1": "limit for 1 %",
    "refusing_5": "limit for 5 %",
    "refused_part": "refused",
    "near_part": "at its limit",
    "part": "of all",
    "distance": "misplaced",
    "change": "× usual",
    "bound": "at most",
    "held": "tokens held",
    "peak_hour": "busiest hour",
    "seasonality": "by hour of week",
}

_PARTS = {"refused_part", "near_part", "part", "distance", "seasonality"}
"""Columns between 0 and 1, shown as percentages."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def heading(column: str) -> str:
    """Return the heading of a column.

    >>> heading("refusing_0_1"), heading("expected_offset")
    ('limit for 0.1 %', 'expected offset')
    """
    return _HEADINGS.get(column, column.replace("_", " "))


def written(column: str, value: object) -> str:
    """Return a value as a person reads it.

    >>> written("part", 0.1234), written("peak_hour", 33), written("admitted", 12345.0)
    ('12.3 %', 'Tue 09:00', '12,345')
    >>> written("amount", Decimal("1500.50"))
    '1,500.50'
    """
    if value is None:
        return "–"
    if column == "peak_hour" and isinstance(value, int):
        return f"{_DAYS[value // 24 % 7]} {value % 24:02}:00"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if column in _PARTS:
            return f"{100 * value:.3g} %"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, Decimal):
        return f"{value:,f}"
    if isinstance(value, list):
        return ", ".join(map(_taker, cast("list[Row]", value)))
    return str(value)


def is_text(value: object) -> bool:
    """Whether a value is read from the left: words and lists of names."""
    return isinstance(value, (str, list))


def _taker(row: Row) -> str:
    return f"{row['agent']} {row['admitted']:,.0f}"
