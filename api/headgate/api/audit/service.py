"""Read the audit, and go back to a revision, inside one transaction."""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from headgate.api.apply.documents import put_in_place
from headgate.api.audit.schemas import AuditEntry, AuditPage
from headgate.api.store import Change, Document
from headgate.api.store.tables import AuditRow, ChangedRow
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.schemas import ChangeShown

MAX_CHANGES = 100
"""Most changes of one revision in a list."""

MAX_CHANGES_TOLD = 1000
"""Most changes of one revision in a response."""

OUTSIDE = frozenset({"token"})
"""Kinds that a rollback leaves alone: it never makes a deleted token valid again."""


def list_entries(
    session: Session,
    *,
    before: int,
    limit: int,
    kind: str | None = None,
    key: str | None = None,
    author: str | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    tenants: Collection[str] | None = None,
) -> AuditPage:
    """Return up to `limit` revisions before the revision `before`, newest first.

    `since_s` and `until_s` are seconds since the epoch, both inclusive.

    With `tenants`, only changes of things that belong to them.
    """
    query = select(AuditRow).where(AuditRow.revision < before)
    if author is not None:
        query = query.where(AuditRow.author == author)
    if since_s is not None:
        query = query.where(AuditRow.at_s >= since_s)
    if until_s is not None:
        query = query.where(AuditRow.at_s <= until_s)
    asked = _asked(kind=kind, key=key, tenants=tenants)
    if asked:
        touched = select(ChangedRow.revision).where(ChangedRow.revision < before)
        query = query.where(AuditRow.revision.in_(touched.where(*asked)))
    ordered = query.order_by(AuditRow.revision.desc()).limit(limit + 1)
    rows = session.scalars(ordered).all()
    seen = _asked(tenants=tenants)
    items: list[AuditEntry] = []
    for row in rows[:limit]:
        first = _changes(session, row.revision, asked, most=MAX_CHANGES)
        if row.size > len(first) < MAX_CHANGES:  # those that match come first
            told = {(item.kind, item.key) for item in first}
            more = _changes(session, row.revision, seen, most=MAX_CHANGES)
            first += [item for item in more if (item.kind, item.key) not in told]
        items.append(_entry(session, row, first[:MAX_CHANGES], seen))
    return AuditPage(
        items=items, next=items[-1].revision if len(rows) > limit else None
    )


def get_entry(
    session: Session,
    revision: int,
    *,
    after: int = 0,
    limit: int = MAX_CHANGES_TOLD,
    tenants: Collection[str] | None = None,
) -> AuditEntry:
    """Return one revision with up to `limit` of its changes, after the first `after`.

    Raises:
        NotFound: There is no such revision, or it changed nothing of `tenants`.
    """
    row = session.get(AuditRow, revision)
    seen = _asked(tenants=tenants)
    changes = (
        []
        if row is None
        else _changes(session, revision, seen, most=limit, after=after)
    )
    if row is None or (seen and not changes and not after):
        raise NotFound("revision", str(revision))
    return _entry(session, row, changes, seen, before=after)


def roll_back(change: Change, revision: int) -> list[ChangeShown]:
    """Bring everything into the state that `revision` left; return what changed.

    Groups that were deleted since then come back with new ids: an id is never
    reused, and agents' old counters don't apply to the new group.

    Raises:
        Invalid: The revision is not in the past.
        Refused: The state can't be reached.
    """
    if revision >= change.revision:
        raise Invalid("revision", f"expected a revision before {change.revision}")
    target: dict[tuple[str, str], Document] = {}
    query = (
        select(ChangedRow.kind, ChangedRow.key, ChangedRow.before)
        .where(ChangedRow.revision > revision, ChangedRow.kind.not_in(OUTSIDE))
        .order_by(ChangedRow.revision.desc(), ChangedRow.position.desc())
    )
    for kind, key, before in change.session.execute(query):
        target[kind, key] = before
    put_in_place(change, target)
    return [ChangeShown.model_validate(item) for item in change.recorded]


def _asked(
    *,
    kind: str | None = None,
    key: str | None = None,
    tenants: Collection[str] | None = None,
) -> list[ColumnElement[bool]]:
    """Return a condition on changes for each argument that is not None."""
    found: list[ColumnElement[bool]] = []
    if kind is not None:
        found.append(ChangedRow.kind == kind)
    if key is not None:
        found.append(ChangedRow.key == key)
    if tenants is not None:
        found.append(ChangedRow.tenant.in_(tenants))
    return found


def _changes(
    session: Session,
    revision: int,
    asked: Sequence[ColumnElement[bool]],
    *,
    most: int,
    after: int = 0,
) -> list[ChangeShown]:
    """Return changes of a revision in the order in which they were made."""
    query = (
        select(ChangedRow)
        .where(ChangedRow.revision == revision, *asked)
        .order_by(ChangedRow.position)
        .offset(after)
        .limit(most)
    )
    return [
        ChangeShown(
            kind=row.kind,
            key=row.key,
            before=row.before,
            after=row.after,
            id=row.number,
        )
        for row in session.scalars(query)
    ]


def _entry(
    session: Session,
    row: AuditRow,
    changes: list[ChangeShown],
    seen: Sequence[ColumnElement[bool]],
    *,
    before: int = 0,
) -> AuditEntry:
    """Return a revision as a response shows it; `before` changes are left out."""
    size = row.size
    if seen:
        count = select(func.count()).select_from(ChangedRow)
        size = session.scalars(
            count.where(ChangedRow.revision == row.revision, *seen)
        ).one()
    return AuditEntry(
        revision=row.revision,
        at_s=row.at_s,
        author=row.author,
        address=row.address,
        action=row.action,
        changes=changes,
        omitted=max(0, size - before - len(changes)),
    )
