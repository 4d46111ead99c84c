"""What a tenants' operator may read: what they own and what limits them."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, false, or_, select
from sqlalchemy.orm import Session

from headgate.api.store.tables import AttachmentRow, GroupRow, StateRow, is_below
from headgate.api.values.errors import NotFound
from headgate.api.values.ownership import OF_TENANTS

Tenants = frozenset[str] | None
"""Whose things a caller may see; None for everybody's."""


def of_tenants(tenants: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that an attachment's subject belongs to one of `tenants`."""
    named = [
        (AttachmentRow.name == tenant) | is_below(AttachmentRow.name, tenant)
        for tenant in tenants
    ]
    kinds = [AttachmentRow.kind.startswith(kind) for kind in sorted(OF_TENANTS)]
    return or_(false(), *kinds) & or_(false(), *named)


def visible_groups(session: Session, tenants: Collection[str]) -> frozenset[str]:
    """Return the names of the groups that operators of `tenants` may see.

    They belong to one of the tenants, are offered to it, have a subject of it
    attached, limit every tenant (the cluster's group and defaults), or are above such
    a group.
    """
    row = GroupRow
    limiting = of_tenants(tenants) | _of_everybody()
    used = select(AttachmentRow.group_id).where(limiting).distinct()
    concerned = select(row.id, row.owner, row.offered_to).where(
        row.owner.in_(tenants) | row.offered_to.is_not(None) | row.id.in_(used)
    )
    attached = frozenset(session.scalars(used))
    found = {
        number
        for number, owner, offered_to in session.execute(concerned)
        if number in attached
        or owner in tenants
        or not set(tenants).isdisjoint(offered_to or ())
    }
    names: set[str] = set()
    seen: set[int] = set()
    while found:
        seen |= found
        query = select(row.name, row.parent_id).where(row.id.in_(found))
        rows = session.execute(query).all()
        names.update(name for name, _ in rows)
        found = {parent for _, parent in rows if parent is not None} - seen
    return frozenset(names)


def _of_everybody() -> ColumnElement[bool]:
    """Return the condition that an attachment limits tenants without naming one."""
    kind, name = AttachmentRow.kind, AttachmentRow.name
    own = select(StateRow.cluster).scalar_subquery()
    return (kind.in_(OF_TENANTS) & name.is_(None)) | (
        (kind == "cluster") & (name.is_(None) | (name == own))
    )


def require_visible(session: Session, tenants: Tenants, group: str) -> None:
    """Raise NotFound for a group that the caller may not see.

    Raises:
        NotFound: As if there were none of that name.
    """
    if tenants is not None and group not in visible_groups(session, tenants):
        raise NotFound("group", group)
