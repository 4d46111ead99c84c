"""The table of demand, share and usage per agent that `status` and `demo` show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

SMALL = 0.005
"""From here on figures below 1 are shown: a limit of 60/h is 0.017/s."""

UNKNOWN = "-"
"""Shown while a figure is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """One agent; None for a figure that is not known.

    Attributes:
        agent: Its id.
        demand_per_s: What its callers attempt, units/s.
        share_per_s: Its share of the quota, units/s.
        admitted_per_s: What is admitted, units/s.
        refused_per_s: What is refused, units/s.
        held_units: Level of its local bucket, units; negative if in debt.
        note: Such as ``killed``.
    """

    agent: str
    demand_per_s: float | None = None
    share_per_s: float | None = None
    admitted_per_s: float | None = None
    refused_per_s: float | None = None
    held_units: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTable:
    """The table of one group and dimension.

    Attributes:
        title: Shown above it.
        quota: The limit in the unit in which it was set, such as 60/h.
        rows: One per agent.
        level_units: Level of the group's bucket, units.
        footer: Shown below it.
    """

    title: str
    quota: str
    rows: tuple[ShareRow, ...]
    level_units: float | None = None
    footer: str = ""


_COLUMNS = ("agent", "demand/s", "share/s", "admitted/s", "refused/s", "level", "")


def as_table(sheet: ShareTable) -> Table:
    """Return the table for a terminal, with the sum and the quota below."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=sheet.title,
        caption=sheet.footer,
        box=box.ROUNDED,
        title_justify="left",
        caption_justify="left",
        show_footer=True,
        min_width=74,
    )
    level = _figure(sheet.level_units)
    footers = (
        "sum",
        *_sums(sheet.rows),
        level,
        f"quota {sheet.quota}",
    )
    for heading, footer in zip(_COLUMNS, footers, strict=True):
        left = heading in {"agent", ""}
        table.add_column(
            heading, footer=footer, justify="left" if left else "right", no_wrap=True
        )
    for row in sheet.rows:
        style = "dim" if row.note else None
        table.add_row(row.agent, *_figures(row), row.note, style=style)
    return table


def as_line(sheet: ShareTable) -> str:
    """Return the table as one line, for output without a terminal.

    >>> row = ShareRow(agent="a", demand_per_s=12.0, admitted_per_s=9.0)
    >>> as_line(ShareTable(title="t", quota="10/s", rows=(row,)))
    't  demand 12 admitted 9 of 10/s  a 9/12'
    >>> as_line(ShareTable(title="t", quota="50/month", rows=(row,), footer="34 left"))
    't  demand 12/s admitted 9/s, quota 50/month: 34 left  a 9/12'
    """
    demand, _, admitted, _ = _sums(sheet.rows)
    parts = " ".join(
        f"{row.agent} {_figure(row.admitted_per_s)}/{_figure(row.demand_per_s)}"
        + (f" ({row.note})" if row.note else "")
        for row in sheet.rows
    )
    if sheet.quota.endswith("/s"):
        figures = f"demand {demand} admitted {admitted} of {sheet.quota}"
    else:  # the figures are per second, but the quota is not
        figures = f"demand {demand}/s admitted {admitted}/s, quota {sheet.quota}"
        figures += f": {sheet.footer}" if sheet.footer else ""
    return f"{sheet.title}  {figures}  {parts}"


def _figures(row: ShareRow) -> tuple[str, ...]:
    return (
        _figure(row.demand_per_s),
        _figure(row.share_per_s),
        _figure(row.admitted_per_s),
        _figure(row.refused_per_s),
        _figure(row.held_units),
    )


def _sums(rows: Sequence[ShareRow]) -> tuple[str, str, str, str]:
    return (
        _sum([row.demand_per_s for row in rows]),
        _sum([row.share_per_s for row in rows]),
        _sum([row.admitted_per_s for row in rows]),
        _sum([row.refused_per_s for row in rows]),
    )


def _sum(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _figure(sum(known) if known else None)


def _figure(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if SMALL <= abs(value) < 1.0:
        return f"{value:.2g}"
    return "unlimited" if value == float("inf") else f"{round(value):,}"  # never -0
