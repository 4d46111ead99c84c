"""Entries of the overview: one per limit, from the store, joined with its use."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.api.live.snapshot import ClusterSnapshot, Pressure, Use
from headgate.api.store.tables import AttachmentRow, GroupRow, LimitRow
from headgate.api.values.quantities import restored
from headgate.coordinator.config.configuration import Period

Standing = Literal[Pressure, "idle"]
"""``idle``: no agent uses the limit at the moment."""

_LimitColumns: TypeAlias = tuple[
    str, str, float | None, float, Period | None, float | None
]
"""Dimension, scope, rate, length of the period, calendar period and burst."""

_NO_LIMIT: _LimitColumns = ("", "cluster", None, 1.0, None, None)
"""Stands for the limits of a group that has none."""

RANK: dict[Standing, int] = {"over": 0, "near": 1, "calm": 2, "idle": 3}
"""Sort order: limits that need an operator's attention come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry:
    """One limit as configured; a group without limits has one without a dimension.

    Attributes:
        group_id: Id of the group.
        group: Its name.
        parent: Name of the group that it is part of, or None.
        attachments: How many subjects are attached to the group.
        dimension: What is counted; empty where the group has no limit.
        scope: ``cluster`` or ``node``; there is no live view of the latter.
        rate: Units per period.
        period_s: Seconds; of a calendar period, its mean length.
        period: Its calendar period, if it has one; else None.
        burst: Units.
        slots: Most requests of the group in flight at once; None for any number.
        folded: The text that a filter searches: both names, case folded.
    """

    group_id: int
    group: str
    parent: str | None
    attachments: int
    dimension: str
    scope: str
    rate: float
    period_s: float
    period: Period | None
    burst: float
    slots: int | None
    folded: str


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A limit and its present use.

    Attributes:
        entry: As configured.
        use: None if no agent uses it.
        in_flight: Slots of the group that are held; None if it limits none.
    """

    entry: LimitEntry
    use: Use | None
    in_flight: int | None = None

    @property
    def standing(self) -> Standing:
        """Return how close demand is to the limit, as a state."""
        return "idle" if self.use is None else self.use.pressure


def load_entries(session: Session) -> list[LimitEntry]:
    """Return all limits by name of their group, dimension and scope.

    Reads columns, not objects: 5,000 groups take some 50 ms.
    """
    counted = select(AttachmentRow.group_id, func.count()).group_by(
        AttachmentRow.group_id
    )
    attachments = {group: count for group, count in session.execute(counted)}
    columns = select(GroupRow.id, GroupRow.name, GroupRow.parent_id, GroupRow.slots)
    groups = session.execute(columns.order_by(GroupRow.name)).all()
    names = {row.id: row.name for row in groups}
    limits: dict[int, list[_LimitColumns]] = {}
    table = LimitRow.__table__.c
    for row in session.execute(select(*table).order_by(table.dimension, table.scope)):
        term = row.period_s, cast("Period | None", row.period)
        limit = (row.dimension, row.scope, row.rate, *term, row.burst)
        limits.setdefault(row.group_id, []).append(limit)
    return [
        LimitEntry(
            group_id=row.id,
            group=row.name,
            parent=None if row.parent_id is None else names.get(row.parent_id),
            attachments=attachments.get(row.id, 0),
            dimension=dimension,
            scope=scope,
            rate=restored(rate),
            period_s=period_s,
            period=period,
            burst=restored(burst),
            slots=row.slots,
            folded=f"{row.name} {dimension}".casefold(),
        )
        for row in groups
        for dimension, scope, rate, period_s, period, burst in limits.get(
            row.id, [_NO_LIMIT]
        )
    ]


def joined(
    entries: list[LimitEntry], picture: ClusterSnapshot | None
) -> list[OverviewRow]:
    """Return each entry with its use in `picture`."""
    uses = () if picture is None else picture.uses
    by_key = {(use.group_id, use.dimension): use for use in uses}
    seen = () if picture is None else picture.in_flight
    in_use = {one.group_id: one.in_use for one in seen}
    return [
        OverviewRow(
            entry,
            by_key.get((entry.group_id, entry.dimension))
            if entry.scope == "cluster"
            else None,
            None if entry.slots is None else in_use.get(entry.group_id, 0),
        )
        for entry in entries
    ]
