"""Explanations of a limit, as an allocating server is given them."""

from __future__ import annotations

from headgate.coordinator import Explanation
from headgate.coordinator.explain.views import AgentRow

UNUSED = (
    *("now_s", "level_reported", "predicted", "unseen", "unheeded", "window", "margin"),
    *("horizon_s", "lag_s", "loss", "lease_s", "available", "reserved", "theta"),
    *("slack", "demand", "share", "ceiling", "reserve", "error", "bound"),
)
"""Numbers of an explanation that the server does not go by, or that are 0 here."""


def row(agent: str, demand: float) -> AgentRow:
    return AgentRow(
        agent=agent,
        incarnation=1,
        demand=demand,
        attempted=demand,
        share=0.0,
        ceiling=0.0,
        refused=0.0,
        admitted=0.0,
        predicted=0.0,
        held=0.0,
        subjects=1,
        age_s=0.0,
        state="present",
    )


def seen(level: float = 0.0, unseen: float = 0.0, **others: float) -> Explanation:
    """A limit of 100/s with a burst of 100, as agent `me` sees it."""
    rows = (row("me", 0.0), *(row(name, demand) for name, demand in others.items()))
    numbers = dict.fromkeys(UNUSED, 0.0) | {"unseen": unseen}
    return Explanation(
        group_id=1,
        dimension="requests",
        agent="me",
        revision=1,
        rate=100.0,
        burst=100.0,
        mode="balanced",
        isolation="fair",
        level=level,
        cut_off=False,
        agents=rows,
        members=len(rows),
        formula="",
        **numbers,
    )
