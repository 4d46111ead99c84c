"""What can be done with groups, inside one transaction."""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.api.errors import AlreadyExists, Conflict, InUse, Invalid, NotFound
from headgate.api.groups.schemas import (
    MAX_LIMITS,
    GroupBody,
    GroupPage,
    GroupPatch,
    GroupShown,
    LimitBody,
    LimitPatch,
    LimitShown,
)
from headgate.api.names import checked_dimension, checked_name
from headgate.api.overrides.service import delete_overrides_of
from headgate.api.preconditions import ANYTHING, Precondition
from headgate.api.quantities import restored, stored
from headgate.api.store import Change
from headgate.api.store.tables import AttachmentRow, GroupRow, LimitRow
from headgate.coordinator.configuration import (
    UNLIMITED,
    InvalidConfiguration,
    Limit,
)

MAX_DEPTH = 16
"""Levels of a tree of groups; each costs an agent a bucket per request."""

_OWN_FIELDS = (
    "weight",
    "mode",
    "may_owe",
    "isolation",
    "refusal",
    "soft_threshold",
)


def list_groups(session: Session, *, after: str, limit: int) -> GroupPage:
    """Return up to `limit` groups whose names follow `after`."""
    query = select(GroupRow).where(GroupRow.name > after).order_by(GroupRow.name)
    rows = session.scalars(query.limit(limit + 1)).all()
    items = shown_groups(session, rows[:limit])
    return GroupPage(items=items, next=items[-1].name if len(rows) > limit else None)


def find_group(session: Session, name: str) -> GroupRow:
    """Return the row of the group called `name`.

    Raises:
        NotFound: There is none.
    """
    row = session.scalars(select(GroupRow).where(GroupRow.name == name)).one_or_none()
    if row is None:
        raise NotFound("group", name)
    return row


def get_group(session: Session, name: str) -> GroupShown:
    """Return the group called `name`."""
    return shown_groups(session, [find_group(session, name)])[0]


def find_or_none(session: Session, name: str) -> GroupShown | None:
    """Return the group called `name`, or None."""
    row = _row_or_none(session, name)
    return None if row is None else shown_groups(session, [row])[0]


def create_group(change: Change, name: str, body: GroupBody) -> GroupShown:
    """Make a group that must not exist yet.

    Raises:
        AlreadyExists: It does.
        Invalid: A field can't be accepted.
    """
    checked_name(name, "name")
    if _row_or_none(change.session, name) is not None:
        raise AlreadyExists("group", name)
    return _write(change, None, name, body)


def put_group(
    change: Change,
    name: str,
    body: GroupBody,
    precondition: Precondition = ANYTHING,
) -> tuple[GroupShown, bool]:
    """Make a group, or replace it whole; return it and whether it is new."""
    checked_name(name, "name")
    row = _row_or_none(change.session, name)
    precondition.check(None if row is None else row.revision)
    return _write(change, row, name, body), row is None


def patch_group(
    change: Change,
    name: str,
    patch: GroupPatch,
    precondition: Precondition = ANYTHING,
) -> GroupShown:
    """Change what `patch` names of a group, and leave the rest."""
    row = find_group(change.session, name)
    precondition.check(row.revision)
    present = body_of(get_group(change.session, name))
    given = patch.model_dump(exclude_unset=True, exclude={"limits"})
    for field, value in given.items():
        if value is None and field not in {"parent", "soft_threshold"}:
            raise Invalid(field, "expected a value; leave it out to keep the present")
    limits = _merged_limits(present.limits, patch.limits or [])
    return _write(
        change, row, name, present.model_copy(update={**given, "limits": limits})
    )


def delete_group(
    change: Change, name: str, precondition: Precondition = ANYTHING
) -> None:
    """Delete a group that nothing is attached to and nothing is part of.

    Raises:
        NotFound: There is none.
        InUse: An attachment or a child depends on it.
    """
    row = find_group(change.session, name)
    precondition.check(row.revision)
    for model, column, word in (
        (AttachmentRow, AttachmentRow.group_id, "attachment"),
        (GroupRow, GroupRow.parent_id, "child group"),
    ):
        query = select(func.count()).select_from(model).where(column == row.id)
        count = change.session.scalars(query).one()
        if count:
            raise InUse("group", f"{count} {word}{'s' if count > 1 else ''}")
    delete_overrides_of(change, name)
    before = document(shown_groups(change.session, [row])[0])
    change.session.delete(row)
    change.session.flush()
    change.record("group", name, before=before, after=None, number=row.id)


def shown_groups(session: Session, rows: Sequence[GroupRow]) -> list[GroupShown]:
    """Return `rows` as responses say them, parents by name."""
    parents = {row.parent_id for row in rows if row.parent_id is not None}
    names = _names(session, parents)
    return [_shown(row, names.get) for row in rows]


def body_of(group: GroupShown) -> GroupBody:
    """Return the body that would make `group`."""
    return GroupBody.model_validate(document(group))


def document(group: GroupShown) -> dict[str, object]:
    """Return `group` as the audit keeps it: what an operator decided of it."""
    return group.model_dump(mode="json", exclude={"id", "name", "revision"})


def _row_or_none(session: Session, name: str) -> GroupRow | None:
    return session.scalars(select(GroupRow).where(GroupRow.name == name)).one_or_none()


def _names(session: Session, ids: set[int]) -> dict[int, str]:
    if not ids:
        return {}
    query = select(GroupRow.id, GroupRow.name).where(GroupRow.id.in_(ids))
    return {row.id: row.name for row in session.execute(query)}


def _shown(row: GroupRow, name_of: Callable[[int], str | None]) -> GroupShown:
    parent = None if row.parent_id is None else name_of(row.parent_id)
    limits = [
        LimitShown(
            dimension=limit.dimension,
            rate=restored(limit.rate),
            burst=restored(limit.burst),
            period_s=limit.period_s,
            scope="node" if limit.scope == "node" else "cluster",
            minimum=limit.minimum,
            maximum=restored(limit.maximum),
        )
        for limit in sorted(row.limits, key=lambda item: (item.dimension, item.scope))
    ]
    own: Mapping[str, object] = {name: getattr(row, name) for name in _OWN_FIELDS}
    return GroupShown.model_validate(
        {
            "id": row.id,
            "name": row.name,
            "limits": limits,
            "parent": parent,
            "revision": row.revision,
            **own,
        }
    )


def _write(
    change: Change, row: GroupRow | None, name: str, body: GroupBody
) -> GroupShown:
    """Store `body` as the group `name`, in `row` when it is there already."""
    session = change.session
    limits = _checked_limits(body.limits)
    parent = _checked_parent(session, row, name, body.parent)
    before = None if row is None else shown_groups(session, [row])[0]
    if row is None:
        row = GroupRow(name=name, revision=change.revision)
        session.add(row)
    row.parent_id = None if parent is None else parent.id
    for field in _OWN_FIELDS:
        setattr(row, field, getattr(body, field))
    _write_limits(row, limits)
    session.flush()
    after = shown_groups(session, [row])[0]
    if change.record(
        "group",
        name,
        before=None if before is None else document(before),
        after=document(after),
        number=row.id,
    ):
        row.revision = change.revision
        after.revision = change.revision
    return after


def _write_limits(row: GroupRow, limits: Sequence[Limit]) -> None:
    present = {(limit.dimension, limit.scope): limit for limit in row.limits}
    wanted: list[LimitRow] = []
    for limit in limits:
        kept = present.get((limit.dimension, limit.scope))
        kept = kept or LimitRow(dimension=limit.dimension, scope=limit.scope)
        kept.rate, kept.burst = stored(limit.rate), stored(limit.burst)
        kept.period_s = limit.period_s
        kept.minimum, kept.maximum = limit.minimum, stored(limit.maximum)
        wanted.append(kept)
    row.limits = wanted


def _checked_limits(bodies: Sequence[LimitBody]) -> list[Limit]:
    if len(bodies) > MAX_LIMITS:
        raise Invalid("limits", f"expected at most {MAX_LIMITS}")
    limits: list[Limit] = []
    seen: set[tuple[str, str]] = set()
    for index, body in enumerate(bodies):
        at = f"limits[{index}]"
        checked_dimension(body.dimension, f"{at}.dimension")
        if (body.dimension, body.scope) in seen:
            raise Invalid(at, "expected at most one per dimension and scope")
        seen.add((body.dimension, body.scope))
        if body.minimum == UNLIMITED:
            raise Invalid(f"{at}.minimum", "expected a finite number")
        values = body.model_dump(mode="python")
        values["burst"] = body.rate if body.burst is None else body.burst
        try:
            limits.append(Limit(**values))
        except InvalidConfiguration as error:
            raise Invalid(f"{at}.{error.field}", error.reason) from error
    return limits


def _checked_parent(
    session: Session, row: GroupRow | None, name: str, parent: str | None
) -> GroupRow | None:
    """Return the parent's row; refuse an unknown one, a circle, a tree too deep."""
    if parent is None:
        return None
    if parent == name:
        raise Invalid("parent", "expected another group than itself")
    found = _row_or_none(session, parent)
    if found is None:
        raise NotFound("group", parent)
    levels = _height(session, row) if row is not None else 1
    ancestor: GroupRow | None = found
    while ancestor is not None:
        if row is not None and ancestor.id == row.id:
            raise Conflict(f"parent: group {parent!r} is itself part of {name!r}")
        levels += 1
        if levels > MAX_DEPTH:
            raise Invalid("parent", f"expected a tree of at most {MAX_DEPTH} levels")
        above = ancestor.parent_id
        ancestor = None if above is None else session.get(GroupRow, above)
    return found


def _height(session: Session, row: GroupRow) -> int:
    """Return the levels of the tree under and with `row`; no tree exceeds the bound."""
    levels, parents = 0, [row.id]
    while parents and levels < MAX_DEPTH:
        levels += 1
        query = select(GroupRow.id).where(GroupRow.parent_id.in_(parents))
        parents = list(session.scalars(query))
    return levels


def _merged_limits(
    present: Sequence[LimitBody], patches: Sequence[LimitPatch]
) -> list[LimitBody]:
    limits = {(limit.dimension, limit.scope): limit for limit in present}
    for index, patch in enumerate(patches):
        key = (patch.dimension, patch.scope)
        if "rate" in patch.model_fields_set and patch.rate is None:
            limits.pop(key, None)
            continue
        given = patch.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        old = limits.get(key)
        if old is None and patch.rate is None:
            raise Invalid(f"limits[{index}].rate", "expected a rate for a new limit")
        if old is not None:
            kept = old.model_dump(mode="json")
            if old.burst == old.rate or patch.rate == 0:
                kept["burst"] = None  # the default follows the rate; 0 means nothing
            given = {**kept, **given}
        limits[key] = LimitBody.model_validate(given)
    return list(limits.values())
