"""Read the audit, and go back to a revision, inside one transaction."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.apply.documents import put_in_place
from headgate.api.audit.schemas import Changed, Entry, EntryPage
from headgate.api.store import Change, Document
from headgate.api.store.tables import AuditRow, ChangedRow
from headgate.api.values.errors import Invalid, NotFound

BATCH = 200
"""Audit rows held at once while going back."""

MAX_CHANGES = 100
"""Changes of one revision that a list tells."""

OUTSIDE = frozenset({"token"})
"""Kinds that stay as they are: going back makes no deleted token good again."""


def list_entries(
    session: Session,
    *,
    before: int,
    limit: int,
    kind: str | None = None,
    key: str | None = None,
    author: str | None = None,
) -> EntryPage:
    """Return up to `limit` revisions before the revision `before`, newest first."""
    query = select(AuditRow).where(AuditRow.revision < before)
    if author is not None:
        query = query.where(AuditRow.author == author)
    if kind is not None or key is not None:
        touched = select(ChangedRow.revision).where(ChangedRow.revision < before)
        if kind is not None:
            touched = touched.where(ChangedRow.kind == kind)
        if key is not None:
            touched = touched.where(ChangedRow.key == key)
        query = query.where(AuditRow.revision.in_(touched))
    ordered = query.order_by(AuditRow.revision.desc()).limit(limit + 1)
    rows = session.scalars(ordered).all()
    items = [_shortened(_shown(row), kind, key) for row in rows[:limit]]
    return EntryPage(
        items=items, next=items[-1].revision if len(rows) > limit else None
    )


def get_entry(session: Session, revision: int) -> Entry:
    """Return one revision.

    Raises:
        NotFound: There is none of that number.
    """
    row = session.get(AuditRow, revision)
    if row is None:
        raise NotFound("revision", str(revision))
    return _shown(row)


def roll_back(change: Change, revision: int) -> list[Changed]:
    """Bring everything into the state that `revision` left; return what changed.

    Groups that were deleted since come back with new ids: an id is never used
    again, and agents' old counters mean nothing to the group.

    Raises:
        Invalid: The revision is not in the past.
        Refused: The state can't be reached.
    """
    if revision >= change.revision:
        raise Invalid("revision", f"expected one before {change.revision}")
    target: dict[tuple[str, str], Document] = {}
    query = (
        select(AuditRow)
        .where(AuditRow.revision > revision)
        .order_by(AuditRow.revision.desc())
    )
    for row in change.session.scalars(query.execution_options(yield_per=BATCH)):
        for item in row.changes:
            changed = Changed.model_validate(item)
            if changed.kind not in OUTSIDE:
                target[changed.kind, changed.key] = changed.before
    put_in_place(change, target)
    return [Changed.model_validate(item) for item in change.recorded]


def _shortened(entry: Entry, kind: str | None, key: str | None) -> Entry:
    """Return `entry` with at most `MAX_CHANGES`, those that were asked for first."""
    if len(entry.changes) <= MAX_CHANGES:
        return entry

    def is_other(change: Changed) -> bool:
        return kind not in (None, change.kind) or key not in (None, change.key)

    changes = sorted(entry.changes, key=is_other)[:MAX_CHANGES]
    omitted = len(entry.changes) - MAX_CHANGES
    return entry.model_copy(update={"changes": changes, "omitted": omitted})


def _shown(row: AuditRow) -> Entry:
    return Entry(
        revision=row.revision,
        at_s=row.at_s,
        author=row.author,
        address=row.address,
        action=row.action,
        changes=[Changed.model_validate(item) for item in row.changes],
    )
