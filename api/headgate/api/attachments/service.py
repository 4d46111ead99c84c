"""Operations on attachments, inside one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from sqlalchemy import Table, delete, insert, select, update
from sqlalchemy.orm import Session

from headgate.api.attachments.schemas import AttachmentPage, AttachmentShown
from headgate.api.attachments.subjects import (
    Subject,
    checked_subject,
    subject_key,
    subject_kind,
    subject_of_key,
    wider_subjects,
)
from headgate.api.groups.service import find_group
from headgate.api.rights.visibility import of_tenants
from headgate.api.store import Change
from headgate.api.store.tables import (
    AttachmentRow,
    GroupRow,
    NamespaceRow,
    TenantRow,
    is_below,
)
from headgate.api.values.errors import Forbidden, NotFound
from headgate.api.values.ownership import tenant_of_subject
from headgate.api.values.preconditions import ANYTHING, Precondition

Wanted = tuple[str, bool]
"""A group's name, and whether the tenant's own operator attached the subject."""

MAX_NAMED = 500
"""Most subjects that one query names; beyond that, all attachments are read."""

_GROUP_NAMES = select(GroupRow.id, GroupRow.name)


def list_attachments(
    session: Session,
    *,
    after: int,
    limit: int,
    kind: str | None = None,
    name: str | None = None,
    group: str | None = None,
    tenants: Collection[str] | None = None,
) -> AttachmentPage:
    """Return up to `limit` attachments after the place `after`, filtered.

    With `tenants`, only attachments whose subjects belong to one of them.
    """
    query = (
        select(AttachmentRow, GroupRow.name)
        .join(GroupRow, GroupRow.id == AttachmentRow.group_id)
        .where(AttachmentRow.id > after)
        .order_by(AttachmentRow.id)
    )
    if kind is not None:
        query = query.where(AttachmentRow.kind == kind)
    if name is not None:
        query = query.where(AttachmentRow.name == name)
    if group is not None:
        query = query.where(GroupRow.name == group)
    if tenants is not None:
        query = query.where(of_tenants(tenants))
    rows = session.execute(query.limit(limit + 1)).all()
    items = [_shown(row, group_name) for row, group_name in rows[:limit]]
    more = rows[limit - 1][0].id if len(rows) > limit else None
    return AttachmentPage(items=items, next=more)


def attached_group(session: Session, subject: Subject) -> str | None:
    """Return the name of the group that `subject` itself belongs to, or None."""
    query = (
        select(GroupRow.name)
        .join(AttachmentRow, GroupRow.id == AttachmentRow.group_id)
        .where(AttachmentRow.subject == subject_key(subject))
    )
    return session.scalars(query).one_or_none()


def put_attachment(
    change: Change,
    subject: Subject,
    group: str,
    precondition: Precondition = ANYTHING,
) -> tuple[AttachmentShown, bool]:
    """Attach `subject` to `group`; return the attachment and whether it is new.

    Raises:
        NotFound: The group, or the subject's tenant or namespace, does not exist.
    """
    session = change.session
    require_subject(session, subject)
    target = find_group(session, group)
    row = _row_or_none(session, subject)
    precondition.check(None if row is None else row.revision)
    _check_may_attach(change, subject, target, row)
    is_new = row is None
    before = None if row is None else _document(_group_name(session, row), row.own)
    if row is None:
        row = AttachmentRow(
            subject=subject_key(subject),
            kind=subject_kind(subject),
            name=subject[0][1],
            revision=change.revision,
        )
        session.add(row)
    if change.author.tenants is None:
        row.own = False
    elif is_new:
        row.own = True
    row.group_id = target.id
    after = _document(target.name, row.own)
    if change.record("attachment", row.subject, before=before, after=after):
        row.revision = change.revision
    session.flush()
    return _shown(row, target.name), is_new


def put_attachments(change: Change, wanted: Mapping[str, Wanted]) -> None:
    """Attach many subjects at once: the store's key of each → its document.

    Raises:
        NotFound: As for `put_attachment`.
    """
    session = change.session
    if change.author.tenants is not None:  # each has to be checked
        for key, (group, _) in wanted.items():
            put_attachment(change, checked_subject(subject_of_key(key)), group)
        return
    ids = {row.name: row.id for row in session.execute(_GROUP_NAMES)}
    names = {number: name for name, number in ids.items()}
    present = _present(session, wanted)
    new: list[dict[str, object]] = []
    moved: list[dict[str, object]] = []
    for key, (group, own) in wanted.items():
        if group not in ids:
            raise NotFound("group", group)
        number, before, was_own = present.get(key, (0, None, False))
        if (before, was_own) == (ids[group], own):
            continue
        there = None if before is None else _document(names[before], was_own)
        after = _document(group, own)
        change.record("attachment", key, before=there, after=after)
        values = {"group_id": ids[group], "own": own, "revision": change.revision}
        if before is not None:
            moved.append({"id": number, **values})
        else:
            subject = tuple(subject_of_key(key).items())
            kind, name = subject_kind(subject), subject[0][1]
            new.append({"subject": key, "kind": kind, "name": name, **values})
    _require_subjects(session, new)
    session.flush()
    if new:
        session.execute(insert(cast("Table", AttachmentRow.__table__)), new)
    if moved:
        session.execute(update(AttachmentRow), moved)


def delete_attachments(change: Change, keys: Collection[str]) -> None:
    """Detach many at once, by the store's keys of their subjects."""
    names = {row.id: row.name for row in change.session.execute(_GROUP_NAMES)}
    gone: list[int] = []
    for key, (number, group, own) in _present(change.session, set(keys)).items():
        _check_may_leave(change, own)
        before = _document(names[group], own)
        change.record("attachment", key, before=before, after=None)
        gone.append(number)
    change.session.flush()
    for start in range(0, len(gone), MAX_NAMED):
        some = AttachmentRow.id.in_(gone[start : start + MAX_NAMED])
        change.session.execute(delete(AttachmentRow).where(some))


def delete_attachment(
    change: Change, subject: Subject, precondition: Precondition = ANYTHING
) -> bool:
    """Detach `subject` itself; return whether it was attached."""
    row = _row_or_none(change.session, subject)
    precondition.check(None if row is None else row.revision)
    if row is None:
        return False
    _check_may_leave(change, row.own)
    before = _document(_group_name(change.session, row), row.own)
    change.session.delete(row)
    change.session.flush()
    change.record("attachment", row.subject, before=before, after=None)
    return True


def delete_attachments_under(change: Change, namespace: str) -> None:
    """Detach a namespace and all its topics."""
    topics = AttachmentRow.kind.startswith("topic")
    query = select(AttachmentRow.subject).where(
        ((AttachmentRow.kind == "namespace") & (AttachmentRow.name == namespace))
        | (topics & is_below(AttachmentRow.name, namespace))
    )
    for key in change.session.scalars(query).all():
        delete_attachment(change, checked_subject(subject_of_key(key)))


def require_subject(session: Session, subject: Subject) -> None:
    """Check that the tenant or namespace that `subject` names exists.

    Users, clients, topics and subscriptions come and go without being declared.

    Raises:
        NotFound: It does not.
    """
    kind, name = subject[0]
    if name is None:
        return
    if kind == "tenant" and session.get(TenantRow, name) is None:
        raise NotFound("tenant", name)
    if kind == "namespace" and session.get(NamespaceRow, _parts(name)) is None:
        raise NotFound("namespace", name)


def _present(
    session: Session, keys: Collection[str]
) -> dict[str, tuple[int, int, bool]]:
    """Return id, group's id and `own` of those attachments of `keys` that exist."""
    query = select(
        AttachmentRow.subject,
        AttachmentRow.id,
        AttachmentRow.group_id,
        AttachmentRow.own,
    )
    if len(keys) <= MAX_NAMED:
        query = query.where(AttachmentRow.subject.in_(keys))
    found = session.execute(query)
    return {
        key: (number, group, own) for key, number, group, own in found if key in keys
    }


def _require_subjects(session: Session, new: Sequence[Mapping[str, object]]) -> None:
    """Check many subjects, as `require_subject` does."""
    for kind, column in (
        ("tenant", select(TenantRow.name)),
        ("namespace", select(NamespaceRow.tenant + "/" + NamespaceRow.name)),
    ):
        named = {str(row["name"]) for row in new if row["kind"] == kind and row["name"]}
        if named and (missing := named.difference(session.scalars(column))):
            raise NotFound(kind, min(missing))


def _check_may_leave(change: Change, own: bool) -> None:
    """Keep a tenant's operator from detaching what an administrator attached.

    Raises:
        Forbidden: It may not.
    """
    if change.author.tenants is not None and not own:
        raise Forbidden(
            "an administrator attached it, so only an administrator may change it"
        )


def _check_may_attach(
    change: Change, subject: Subject, target: GroupRow, row: AttachmentRow | None
) -> None:
    """Keep a tenant's operator from taking a subject out of its limits.

    The group must belong to the tenant or be offered to it.  A narrower attachment
    wins over a wider one, so it could also take the subject out of the group that an
    administrator attached its namespace or tenant to; it may do so only into a group
    that is part of that one.

    Raises:
        Forbidden: It may not.
    """
    if change.author.tenants is None:
        return
    if row is not None and row.group_id != target.id:
        _check_may_leave(change, row.own)
    tenant = tenant_of_subject(*subject[0])
    if tenant != target.owner and tenant not in (target.offered_to or ()):
        raise Forbidden(
            f"group {target.name!r} neither belongs to tenant {tenant!r} nor is "
            "offered to it"
        )
    parts = {target.id}
    above = target
    while above.parent_id is not None:
        above = change.session.get_one(GroupRow, above.parent_id)
        parts.add(above.id)
    for wider in wider_subjects(subject):
        holding = _row_or_none(change.session, wider)
        if holding is not None and not holding.own and holding.group_id not in parts:
            raise Forbidden(
                f"an administrator attached {wider[0][0]} {wider[0][1]} to group "
                f"{_group_name(change.session, holding)!r}, and {target.name!r} is not "
                "part of that group"
            )


def _document(group: str, own: bool) -> dict[str, object]:
    """Return an attachment as the audit keeps it."""
    return {"group": group, "own": True} if own else {"group": group}


def _parts(namespace: str) -> tuple[str, str]:
    tenant, _, name = namespace.partition("/")
    return tenant, name


def _row_or_none(session: Session, subject: Subject) -> AttachmentRow | None:
    query = select(AttachmentRow).where(AttachmentRow.subject == subject_key(subject))
    return session.scalars(query).one_or_none()


def _group_name(session: Session, row: AttachmentRow) -> str:
    query = select(GroupRow.name).where(GroupRow.id == row.group_id)
    return session.scalars(query).one()


def _shown(row: AttachmentRow, group: str) -> AttachmentShown:
    return AttachmentShown(
        subject=subject_of_key(row.subject),
        group=group,
        own=row.own,
        revision=row.revision,
    )
