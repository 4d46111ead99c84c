"""Compute a preview: make the change, roll it back, and compare with current use."""

from math import inf

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.api.groups import service as groups
from headgate.api.groups.schemas import GroupShown, LimitShown
from headgate.api.live.snapshot import ClusterSnapshot, Use
from headgate.api.preview.schemas import (
    AgentPreview,
    LimitPreview,
    Preview,
    PreviewPost,
)
from headgate.api.store import Change
from headgate.api.store.tables import AttachmentRow
from headgate.api.values.schemas import ChangeShown
from headgate.coordinator.allocation.max_min import shares_at, water_level

MAX_AGENTS = 1000
"""Most agents listed per limit, those that attempt most first."""


def preview(
    change: Change, wanted: PreviewPost, picture: ClusterSnapshot | None
) -> Preview:
    """Return what `wanted` would do; the caller must roll the transaction back.

    Raises:
        Refused: It can't be done.
    """
    before = groups.find_or_none(change.session, wanted.group)
    after, _ = groups.put_group(change, wanted.group, wanted.body)
    uses = {} if picture is None else _uses(picture, after.id)
    old = {} if before is None else _rates(before)
    new = _rates(after)
    return Preview(
        revision=change.revision - 1,
        seen_at_s=None if picture is None else picture.at_s,
        attachments=_attachments(change.session, after.id),
        changes=[ChangeShown.model_validate(item) for item in change.recorded],
        limits=[
            _compared(dimension, old.get(dimension), new.get(dimension), uses)
            for dimension in sorted({*old, *new})
        ],
    )


def _rates(group: GroupShown) -> dict[str, float]:
    """Return the rates in units/s of all cluster-wide limits."""
    return {
        limit.dimension: _per_s(limit)
        for limit in group.limits
        if limit.scope == "cluster"
    }


def _per_s(limit: LimitShown) -> float:
    return limit.rate / limit.period_s


def _uses(picture: ClusterSnapshot, group_id: int) -> dict[str, Use]:
    return {use.dimension: use for use in picture.uses if use.group_id == group_id}


def _compared(
    dimension: str, old: float | None, new: float | None, uses: dict[str, Use]
) -> LimitPreview:
    use = uses.get(dimension)
    demand = 0.0 if use is None else use.demand_per_s
    refused = 0.0 if use is None else use.refused_per_s
    rate = inf if new is None else new
    after = max(0.0, demand - rate)
    return LimitPreview(
        dimension=dimension,
        rate_before_per_s=old,
        rate_after_per_s=new,
        demand_per_s=demand,
        refused_before_per_s=refused,
        refused_after_per_s=after,
        agents=[] if use is None else _agents(use, rate),
        sentence=_sentence(use, after),
    )


def _agents(use: Use, rate: float) -> list[AgentPreview]:
    """Return shares by exact max-min, as agents would have them."""
    demand = np.array([[row.demand_per_s] for row in use.agents], dtype=np.float64)
    if not len(demand):
        return []
    weight = np.ones_like(demand)
    theta = water_level(demand, weight, np.array([rate]))
    shares = shares_at(theta, demand, weight)[:, 0]
    rows = [
        AgentPreview(
            agent=row.agent,
            demand_per_s=row.demand_per_s,
            share_before_per_s=row.share_per_s,
            share_after_per_s=float(share),
        )
        for row, share in zip(use.agents, shares, strict=True)
    ]
    rows.sort(key=lambda row: -row.demand_per_s)
    return rows[:MAX_AGENTS]


def _sentence(use: Use | None, after: float) -> str:
    if use is None or not use.agents:
        return "No agent uses it now."
    if use.demand_per_s == 0:
        return "Its callers ask for nothing at present."
    return (
        f"{_told(after)} of the {_told(use.demand_per_s)} units/s attempted now would "
        f"be refused; {_told(use.refused_per_s)} are refused now."
    )


def _told(units: float) -> str:
    """Return a number as people read it.

    >>> _told(2_524.4), _told(0.1234), _told(3e9)
    ('2,520', '0.123', '3,000,000,000')
    """
    return f"{float(f'{units:.3g}'):,.15g}"


def _attachments(session: Session, group_id: int) -> int:
    query = select(func.count()).where(AttachmentRow.group_id == group_id)
    return session.scalars(query.select_from(AttachmentRow)).one()
