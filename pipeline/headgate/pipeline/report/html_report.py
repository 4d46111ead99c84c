"""The summary as a page of HTML, as pictures, and as text for a terminal."""
# pyright: reportUnknownMemberType=false
# matplotlib's own hints leave the type of keywords open.

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from headgate.pipeline.report.labels import (
    COLUMNS,
    FURTHER,
    TITLES,
    heading,
    is_text,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Row
    from rich.console import Console

    from headgate.pipeline.report.summary import Curve, UsageSummary

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
       padding: 0 1rem; color: #1c2330; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.figures { display: grid; gap: 1rem;
           grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); }
img { width: 100%; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #dde2ea; }
th, td { white-space: nowrap; } td.text, th.text { text-align: left; }
th { color: #55607a; font-weight: 600; }
.none { color: #55607a; }
"""


def write_page(summary: UsageSummary, folder: Path) -> Path:
    """Write ``index.html`` and a PNG for each curve; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    figures: list[str] = []
    for number, curve in enumerate(summary.curves, start=1):
        image = drawn(curve)
        (folder / f"group-{number:02d}.png").write_bytes(image)
        code = base64.b64encode(image).decode()
        name = escape(f"{curve.group}, {curve.dimension}")
        figures.append(f'<img alt="{name}" src="data:image/png;base64,{code}">')
    lists = [
        f"<h2>{escape(title)} ({summary.counts.get(name, 0):,})</h2>"
        + _html_table(
            summary.lists.get(name, []), (*COLUMNS[name], *FURTHER.get(name, ()))
        )
        for name, title in TITLES.items()
    ]
    page = folder / "index.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Headgate usage</title><style>{_STYLE}</style>"
        f"<h1>Headgate usage</h1><p>{escape(headline(summary))}</p>"
        f'<div class="figures">{"".join(figures)}</div>{"".join(lists)}</html>',
        encoding="utf-8",
    )
    return page


def headline(summary: UsageSummary) -> str:
    """Return the summary in a few sentences, with separate units per dimension."""
    if not summary.end_s:
        return "No closed window yet: is anything being written to the topic?"
    units = "; ".join(
        f"{dimension}: {attempted:,.10g} units attempted, "
        f"{admitted / attempted if attempted else 1.0:.1%} admitted"
        for dimension, (attempted, admitted) in summary.units.items()
    )
    signed = (
        "All reports were signed with a known key."
        if summary.verified
        else "Signatures of reports were not verified."
    )
    return (
        f"{_moment(summary.begin_s)} to {_moment(summary.end_s)} UTC: "
        f"{summary.groups:,} groups used by {summary.agents:,} agents; {units}; "
        f"{summary.counts.get('violations', 0):,} violations, "
        f"{summary.counts.get('starved', 0):,} starved agent windows. {signed}"
    )


def print_summary(summary: UsageSummary, console: Console) -> None:
    """Print the headline and the lists that are not empty."""
    from rich.markup import escape as escaped
    from rich.table import Table

    console.print(headline(summary))
    for name, title in TITLES.items():
        rows = summary.lists.get(name, [])[:_PRINTED]
        if not rows:
            continue
        table = Table(title=f"{title} ({summary.counts[name]:,})", title_justify="left")
        for column in COLUMNS[name]:
            left = is_text(rows[0][column])
            table.add_column(heading(column), justify="left" if left else "right")
        for row in rows:
            table.add_row(*(escaped(written(c, row[c])) for c in COLUMNS[name]))
        console.print(table)


def print_effect(title: str, rows: list[dict[str, object]], console: Console) -> None:
    """Print what another limit would have meant for each agent."""
    from rich.markup import escape as escaped
    from rich.table import Table

    table = Table(title=escaped(title), title_justify="left")
    table.add_column("agent")
    columns = ("attempted", "admitted", "admitted_then", "refused_then")
    for column in columns:
        table.add_column(heading(column), justify="right")
    for row in rows:
        agent = escaped(str(row["agent"]))
        table.add_row(agent, *(written(c, row[c]) for c in columns))
    console.print(table)


_PRINTED = 8
"""Rows of a list in a terminal; the page has more."""


def drawn(curve: Curve) -> bytes:
    """Return a PNG of what was attempted and admitted against the limit."""
    # A name with two dollar signs is no formula.
    with mpl.rc_context({"date.converter": "concise", "text.parse_math": False}):
        return _drawn(curve)


def _drawn(curve: Curve) -> bytes:
    figure = Figure(figsize=(6.4, 2.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    at = np.array(curve.at_s).astype("datetime64[s]")
    axes.fill_between(
        at, curve.attempted, step="post", color="#f2b8a0", label="attempted"
    )
    axes.fill_between(
        at, curve.admitted, step="post", color="#4a7fb5", label="admitted"
    )
    if any(limit is not None and limit < float("inf") for limit in curve.limit):
        limit = [float("nan") if value is None else value for value in curve.limit]
        axes.step(at, limit, where="post", color="#1c2330", lw=1.2, label="limit")
    axes.set_title(f"{curve.group}: {curve.dimension}/s", loc="left", fontsize=10)
    highest = max(*curve.attempted, *(v for v in curve.limit if v and isfinite(v)), 0)
    axes.set_ylim(0, 1.2 * highest or 1)  # the legend stands above the curve
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper right")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _html_table(rows: list[Row], columns: Sequence[str]) -> str:
    """Return rows as a table, or a short note if there are none."""
    if not rows:
        return '<p class="none">None.</p>'
    text = {c: ' class="text"' if is_text(rows[0][c]) else "" for c in columns}
    head = "".join(f"<th{text[c]}>{escape(heading(c))}</th>" for c in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{text[c]}>{escape(written(c, row[c]))}</td>" for c in columns)
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _moment(second: float) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M:%S}"
