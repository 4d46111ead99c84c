"""A limit's shares in plain sentences: who gets how much, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headgate.cli.output.use_json import AgentJson, UseJson

MOST_SENTENCES = 10
"""Agents that get a sentence of their own, those that miss most first."""

_MISSING = 0.01
"""Part of a demand that may be missing before it counts as not met."""

_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def sentences(use: UseJson) -> Iterator[str]:
    """Yield what the shares of one limit come to.

    >>> agents = ((1, 600.0, 344.0), (2, 312.0, 312.0), (3, 1406.0, 344.0))
    >>> rows = [{"agent": f"agent-{n}", "demand": d, "share": s, "refused": d - s}
    ...         for n, d, s in agents]
    >>> for line in sentences({"dimension": "requests", "rate": 1000.0,
    ...                        "period_s": 1.0, "agents": rows}):
    ...     print(line)
    The three agents want 2,318 requests/s, more than the 1,000/s that the limit allows.
    agent-3 wants 1,406/s and gets 344/s; 1,062/s were refused.
    agent-1 wants 600/s and gets 344/s; 256/s were refused.
    agent-2 gets all of the 312/s that it wants.
    >>> for line in sentences({"dimension": "requests", "rate": 50.0, "level": -1.0,
    ...                        "period": "month", "agents": rows}):
    ...     print(line)
    All 50 requests of this month are used, and 1 more; the next month begins anew.
    The three agents want 2,318 requests/s just now.
    """
    rows = use.get("agents", [])
    dimension, rate = use.get("dimension", "units"), use.get("rate", 0.0)
    if not rows:
        yield f"No agent uses {dimension} at present, so nothing is shared out."
        return
    wanted = sum(_demand(row) for row in rows)
    who = _who(rows)
    if isinstance(rate, str):
        yield f"{who} {_figure(wanted)} {dimension}/s; no limit applies."
        return
    if told := of_period(use):
        yield told
        yield f"{who} {_figure(wanted)} {dimension}/s just now."
        return
    per_s = rate / use.get("period_s", 1.0)
    missing = [row for row in rows if _misses(row)]
    if not missing:
        fits = (
            "which fits into" if wanted <= per_s else "and the burst still covers it:"
        )
        yield (
            f"{who} {_figure(wanted)} {dimension}/s, {fits} "
            f"the limit of {_figure(per_s)}/s, so each gets what it wants."
        )
        return
    if wanted > per_s:
        yield (
            f"{who} {_figure(wanted)} {dimension}/s, "
            f"more than the {_figure(per_s)}/s that the limit allows."
        )
    else:
        yield (
            f"{who} {_figure(wanted)} {dimension}/s; the limit allows "
            f"{_figure(per_s)}/s, but less can be shared out just now (see Q' below)."
        )
    ordered = sorted(rows, key=lambda row: (_got(row) - _demand(row), row.get("agent")))
    for row in ordered[:MOST_SENTENCES]:
        yield _sentence(row)
    if len(rows) > MOST_SENTENCES:
        yield f"The table below shows the other {len(rows) - MOST_SENTENCES} agents."


def of_period(use: UseJson) -> str:
    """Return how much of its calendar period a limit has used; empty without one."""
    dimension, rate = use.get("dimension", "units"), use.get("rate", 0.0)
    period = use.get("period")
    if period is None or isinstance(rate, str):
        return ""
    all_of_it = f"{_figure(float(rate))} {dimension} of this {period}"
    level = use.get("level") or 0.0
    if level >= 1.0:
        return f"Of the {all_of_it}, {_figure(level)} are left."
    more = f", and {_figure(-level)} more" if level <= -1.0 else ""
    return f"All {all_of_it} are used{more}; the next {period} begins anew."


def _sentence(row: AgentJson) -> str:
    name, wanted, got = row.get("agent", ""), _demand(row), _got(row)
    state = row.get("state", "present")
    note = "" if state == "present" else f" ({state})"
    if not _misses(row):
        return f"{name}{note} gets all of the {_figure(wanted)}/s that it wants."
    return (
        f"{name}{note} wants {_figure(wanted)}/s and gets {_figure(got)}/s; "
        f"{_figure(row.get('refused', 0.0))}/s were refused."
    )


def _who(rows: Sequence[AgentJson]) -> str:
    if len(rows) == 1:
        return f"{rows[0].get('agent', '')} wants"
    count = _SMALL[len(rows)] if len(rows) < len(_SMALL) else f"{len(rows):,}"
    return f"The {count} agents want"


def _misses(row: AgentJson) -> bool:
    return _got(row) < (1 - _MISSING) * _demand(row)


def _demand(row: AgentJson) -> float:
    return row.get("demand", 0.0)


def _got(row: AgentJson) -> float:
    share = row.get("share")
    return _demand(row) if share is None else share


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:,.2g}"
