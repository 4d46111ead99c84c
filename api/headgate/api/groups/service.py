"""Operations on groups, inside one transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from headgate.api.groups.limits import KEEP, limits_of, merged_limits
from headgate.api.groups.schemas import (
    GroupBody,
    GroupPage,
    GroupPatch,
    GroupShown,
    LimitShown,
)
from headgate.api.overrides.service import delete_overrides_of
from headgate.api.store import Change
from headgate.api.store.tables import (
    AttachmentRow,
    GroupRow,
    LevelRow,
    LimitRow,
    OverrideRow,
)
from headgate.api.values.errors import AlreadyExists, Conflict, InUse, Invalid, NotFound
from headgate.api.values.names import checked_name
from headgate.api.values.preconditions import ANYTHING, Precondition
from headgate.api.values.quantities import restored, stored
from headgate.coordinator.config.configuration import Limit, Period

MAX_DEPTH = 16
"""Levels of a tree of groups; each costs an agent a bucket per request."""

MAX_NAMED = 500
"""Most groups that one query names; beyond that, all groups are read."""

_OWN_FIELDS = (
    "weight",
    "mode",
    "may_owe",
    "isolation",
    "refusal",
    "soft_threshold",
    "per_partition",
    "split",
    "slots",
    "per",
    "owner",
    "offered_to",
)


_MAY_BE_NULL = frozenset({"parent", "soft_threshold", "split", "slots", "per", "owner"})


def list_groups(
    session: Session,
    *,
    after: str,
    limit: int,
    among: Collection[str] | None = None,
) -> GroupPage:
    """Return up to `limit` groups whose names follow `after`, of all or `among`."""
    query = select(GroupRow).where(GroupRow.name > after).order_by(GroupRow.name)
    if among is not None:
        query = query.where(GroupRow.name.in_(among))
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
    """Create a group that must not exist yet.

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
    """Create a group or replace it as a whole; return it and whether it is new."""
    checked_name(name, "name")
    row = _row_or_none(change.session, name)
    precondition.check(None if row is None else row.revision)
    return _write(change, row, name, body), row is None


def put_groups(change: Change, bodies: Mapping[str, GroupBody]) -> None:
    """Create or replace many groups, parents possibly among them, in few queries.

    Whether all groups fit together is left to `check_groups`, because some may yet be
    deleted.

    Raises:
        NotFound: A parent neither exists nor is among them.
        Invalid: A field can't be accepted.
    """
    session = change.session
    parents = {body.parent for body in bodies.values() if body.parent is not None}
    rows = _rows(session, {*bodies, *parents})
    present = shown_groups(session, [rows[name] for name in bodies if name in rows])
    before = {group.name: document(group) for group in present}
    wanted = {
        name: body
        for name, body in bodies.items()
        if name not in before or before[name] != _document_of(body)
    }
    for name, body in wanted.items():
        checked_name(name, "name")
        row = rows.get(name)
        if row is None:
            row = rows[name] = GroupRow(name=name, revision=change.revision)
            session.add(row)
        row.parent_id = None
        _write_own_fields(row, body)
        try:
            _write_limits(row, limits_of(body))
        except Invalid as error:
            raise error.inside(f"groups.{name}") from None
    session.flush()
    _forget_levels(session)
    for name, body in wanted.items():
        if body.parent is not None:
            if body.parent not in rows:
                raise NotFound("group", body.parent)
            rows[name].parent_id = rows[body.parent].id
    session.flush()
    for group in shown_groups(session, [rows[name] for name in wanted]):
        name = group.name
        if change.record("group", name, before=before.get(name), after=document(group)):
            rows[name].revision = change.revision
    session.flush()


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
    given = {name: getattr(patch, name) for name in patch.model_fields_set}
    for field, value in sorted(given.items()):
        if value is None and field not in _MAY_BE_NULL:
            raise Invalid(field, KEEP)
    limits = merged_limits(present.limits, patch.limits or [])
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


def delete_groups(change: Change, names: Collection[str]) -> None:
    """Delete the groups of `names` that exist, children and parents together.

    Raises:
        InUse: An attachment or another child depends on one of them.
    """
    session = change.session
    rows = _rows(session, set(names))
    ids = {row.id: name for name, row in rows.items()}
    before = shown_groups(session, list(rows.values()))
    attached = session.scalars(select(AttachmentRow.group_id).distinct())
    children = session.execute(
        select(GroupRow.id, GroupRow.parent_id).where(GroupRow.parent_id.is_not(None))
    )
    for word, used in (
        ("an attachment", set(attached)),
        ("a child group", {row.parent_id for row in children if row.id not in ids}),
    ):
        if found := sorted(name for number, name in ids.items() if number in used):
            raise InUse(f"group {found[0]!r}", word)
    overridden = set(session.scalars(select(OverrideRow.group).distinct()))
    for name in overridden & rows.keys():
        delete_overrides_of(change, name)
    for row in rows.values():
        row.parent_id = None  # so that they can be deleted in any order
    session.flush()
    for row in rows.values():
        session.delete(row)
    session.flush()
    for group in before:
        change.record("group", group.name, before=document(group), after=None)


def check_groups(session: Session) -> None:
    """Check that all groups fit together.

    Raises:
        Conflict: Parents form a circle.
        Invalid: A tree is too deep, or a template has children.
    """
    _check_tree(session)
    _check_templates(session)


def shown_groups(session: Session, rows: Sequence[GroupRow]) -> list[GroupShown]:
    """Return `rows` as responses show them, parents by name."""
    parents = {row.parent_id for row in rows if row.parent_id is not None}
    names = _names(session, parents)
    return [_shown(row, names.get) for row in rows]


def body_of(group: GroupShown) -> GroupBody:
    """Return the body that would make `group`."""
    return GroupBody.stored(document(group))


def document(group: GroupShown) -> dict[str, object]:
    """Return `group` as the audit keeps it: what an operator decided about it."""
    return group.model_dump(mode="json", exclude={"id", "name", "revision"})


def _row_or_none(session: Session, name: str) -> GroupRow | None:
    return session.scalars(select(GroupRow).where(GroupRow.name == name)).one_or_none()


def _rows(session: Session, names: Collection[str]) -> dict[str, GroupRow]:
    query = select(GroupRow)
    if len(names) <= MAX_NAMED:
        query = query.where(GroupRow.name.in_(names))
    return {row.name: row for row in session.scalars(query) if row.name in names}


def _document_of(body: GroupBody) -> dict[str, object]:
    """Return the document of the group that `body` would make."""
    found: dict[str, object] = body.model_dump(mode="json")
    limits = [
        {**limit, "burst": limit["rate"] if limit["burst"] is None else limit["burst"]}
        for limit in cast("list[dict[str, object]]", found["limits"])
    ]
    limits.sort(key=lambda limit: (limit["dimension"], limit["scope"]))
    return {**found, "limits": limits, "offered_to": sorted(set(body.offered_to))}


def _check_tree(session: Session) -> None:
    """Refuse circles and overly deep trees."""
    query = select(GroupRow.id, GroupRow.name, GroupRow.parent_id)
    found = {row.id: row for row in session.execute(query)}
    for row in found.values():
        above, path = row.parent_id, [row.id]
        while above is not None:
            if above in path:
                name = found[above].name
                raise Conflict(f"group {name!r} would be part of itself")
            path.append(above)
            if len(path) > MAX_DEPTH:
                raise Invalid(
                    "parent", f"expected a tree of at most {MAX_DEPTH} levels"
                )
            above = found[above].parent_id


def _check_templates(session: Session) -> None:
    """Refuse groups that are part of a template: a value's group has no children."""
    templates = select(GroupRow.id).where(GroupRow.per.is_not(None))
    query = select(GroupRow.name).where(GroupRow.parent_id.in_(templates)).limit(1)
    child = session.scalars(query).first()
    if child is not None:
        raise Invalid(
            "per", f"expected null for a group that has children, such as {child!r}"
        )


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
            period=cast("Period | None", limit.period),
            time_zone=limit.time_zone,
            scope="node" if limit.scope == "node" else "cluster",
            minimum=limit.minimum,
            maximum=restored(limit.maximum),
        )
        for limit in sorted(row.limits, key=lambda item: (item.dimension, item.scope))
    ]
    own = {name: getattr(row, name) for name in _OWN_FIELDS}
    own["offered_to"] = row.offered_to or []  # stored as NULL where there are none
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
    """Store `body` as the group `name`, in `row` if it exists already."""
    session = change.session
    limits = limits_of(body)
    parent = _checked_parent(session, row, name, body.parent)
    before = None if row is None else shown_groups(session, [row])[0]
    if row is None:
        row = GroupRow(name=name, revision=change.revision)
        session.add(row)
    row.parent_id = None if parent is None else parent.id
    _write_own_fields(row, body)
    _write_limits(row, limits)
    session.flush()
    _forget_levels(session, row.id)
    _check_templates(session)
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


def _write_own_fields(row: GroupRow, body: GroupBody) -> None:
    """Store what `body` says besides limits and parent.

    Raises:
        Invalid: The owner, or a tenant that it is offered to, is not a valid name.
    """
    if body.owner is not None:
        checked_name(body.owner, "owner")
    for index, tenant in enumerate(body.offered_to):
        checked_name(tenant, f"offered_to[{index}]")
    for field in _OWN_FIELDS:
        setattr(row, field, getattr(body, field))
    row.offered_to = sorted(set(body.offered_to)) or None


def _write_limits(row: GroupRow, limits: Sequence[Limit]) -> None:
    present = {(limit.dimension, limit.scope): limit for limit in row.limits}
    wanted: list[LimitRow] = []
    for limit in limits:
        kept = present.get((limit.dimension, limit.scope))
        kept = kept or LimitRow(dimension=limit.dimension, scope=limit.scope)
        kept.rate, kept.burst = stored(limit.rate), stored(limit.burst)
        kept.period_s = limit.period_s
        kept.period, kept.time_zone = limit.period, limit.time_zone
        kept.minimum, kept.maximum = limit.minimum, stored(limit.maximum)
        wanted.append(kept)
    row.limits = wanted


def _forget_levels(session: Session, group_id: int | None = None) -> None:
    """Forget the levels of limits that were removed, of one group or of all.

    A limit that is set again is new, and full, even if that is soon.
    """
    gone = delete(LevelRow).where(LevelRow.outlives_its_limit())
    if group_id is not None:
        gone = gone.where(LevelRow.group_id == group_id)
    session.execute(gone, execution_options={"synchronize_session": False})


def _checked_parent(
    session: Session, row: GroupRow | None, name: str, parent: str | None
) -> GroupRow | None:
    """Return the parent's row; refuse an unknown one, a circle or too deep a tree."""
    if parent is None:
        return None
    if parent == name:
        raise Invalid("parent", "expected another group")
    found = _row_or_none(session, parent)
    if found is None:
        raise NotFound("group", parent)
    levels = _height(session, row) if row is not None else 1
    ancestor: GroupRow | None = found
    while ancestor is not None:
        if row is not None and ancestor.id == row.id:
            raise Conflict(f"parent: group {parent!r} is already part of {name!r}")
        levels += 1
        if levels > MAX_DEPTH:
            raise Invalid("parent", f"expected a tree of at most {MAX_DEPTH} levels")
        above = ancestor.parent_id
        ancestor = None if above is None else session.get(GroupRow, above)
    return found


def _height(session: Session, row: GroupRow) -> int:
    """Return the height of the tree below and with `row`; none exceeds the bound."""
    levels, parents = 0, [row.id]
    while parents and levels < MAX_DEPTH:
        levels += 1
        query = select(GroupRow.id).where(GroupRow.parent_id.in_(parents))
        parents = list(session.scalars(query))
    return levels
