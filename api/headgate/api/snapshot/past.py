"""The configuration as it was at an earlier revision, read page by page.

For readers of what agents reported long ago (the pipeline), who must judge it by the
limits of that time.  It holds no buses, policies or intervals of that time.

Each row of `changed` says between which revisions a thing was in one state; a page
follows the index by key, so its cost depends on neither the length of the history nor
the size of the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.attachments.subjects import subject_of_key
from headgate.api.overrides.service import Overridden
from headgate.api.store.tables import ChangedRow, StateRow
from headgate.api.values.body_paths import place_of, place_text
from headgate.api.values.errors import NotFound
from headgate.api.values.quantities import restored, shown

TOLD = ("group", "attachment", "override")
"""Kinds of things that groups and attachments of a snapshot come from."""

_PAGED = ("group", "attachment")
"""Kinds in the order in which pages list them."""

_NOT_TOLD = ("owner", "offered_to")
"""Members of a group that agents and analysts need not know."""


def past_document(
    session: Session, revision: int, *, after: str, limit: int
) -> dict[str, object]:
    """Return up to `limit` groups and attachments as `revision` left them.

    Its ``revision`` is the first that left them so: revisions that changed none of
    them are skipped, so that a reader goes back through all states in few steps.
    ``next`` is the `after` of the next page, null on the last one.

    Raises:
        NotFound: There is no such revision yet.
        Invalid: `after` is not the ``next`` of a page.
    """
    state = session.scalars(select(StateRow)).one()
    if revision > state.revision:
        raise NotFound("revision", str(revision))
    since = session.scalars(
        select(ChangedRow.revision)
        .where(ChangedRow.revision <= revision, ChangedRow.kind.in_(TOLD))
        .order_by(ChangedRow.revision.desc())
        .limit(1)
    ).one_or_none()
    found: dict[str, list[_Past]] = {kind: [] for kind in _PAGED}
    kind, key = place_of(after, parts=2) if after else (_PAGED[0], "")
    following: str | None = None
    # Before the very first change there is nothing to list, however much came later.
    kinds = () if since is None else _PAGED
    for paged in kinds[_PAGED.index(kind) if kind in _PAGED else len(_PAGED) :]:
        room = limit - sum(map(len, found.values()))
        rows = _things(session, paged, revision, key if paged == kind else "", room + 1)
        found[paged] = rows[:room]
        if len(rows) > room:
            last = rows[room - 1].key if room else ""
            following = place_text(paged, last)
            break
    groups, attachments = found["group"], found["attachment"]
    ids = _ids(session, revision, groups, attachments)
    overridden = Overridden(_overrides(session, revision, groups))
    return {
        "revision": since or 0,
        "cluster": state.cluster,
        "groups": [
            _group(group, ids, overridden) for group in groups if group.key in ids
        ],
        "attachments": [
            {"subject": subject_of_key(each.key), "group": ids[each.group]}
            for each in attachments
            if each.group in ids
        ],
        "next": following,
    }


class _Past:
    """One thing as it was: key, document, id of a group."""

    def __init__(
        self, key: str, document: Mapping[str, object], number: int | None
    ) -> None:
        self.key = key
        self.document = document
        self.number = number

    @property
    def group(self) -> str:
        """The group's name, of an attachment."""
        return str(self.document["group"])

    @property
    def parent(self) -> str | None:
        """The parent's name, of a group."""
        parent = self.document["parent"]
        return None if parent is None else str(parent)


def _things(
    session: Session,
    kind: str,
    revision: int,
    after: str,
    limit: int | None = None,
    keys: Iterable[str] | None = None,
) -> list[_Past]:
    """Return things of a kind as `revision` left them, by key."""
    row = ChangedRow
    query = select(row.key, row.after, row.number).where(
        row.kind == kind,
        row.key > after,
        row.revision <= revision,
        row.until.is_(None) | (row.until > revision),
        row.after.is_not(None),
    )
    if keys is not None:
        query = query.where(row.key.in_(keys))
    found = session.execute(query.order_by(row.key).limit(limit))
    return [
        _Past(key, cast("Mapping[str, object]", document), number)
        for key, document, number in found
    ]


def _ids(
    session: Session,
    revision: int,
    groups: Sequence[_Past],
    attachments: Sequence[_Past],
) -> dict[str, int]:
    """Return the ids of the groups that a page names.

    One that was deleted before the audit kept ids is left out.
    """
    named = {each.group for each in attachments}
    named.update(group.parent for group in groups if group.parent is not None)
    named.difference_update(group.key for group in groups)
    others = _things(session, "group", revision, "", keys=named) if named else []
    return {
        group.key: group.number
        for group in (*groups, *others)
        if group.number is not None
    }


def _overrides(
    session: Session, revision: int, groups: Sequence[_Past]
) -> dict[str, Mapping[str, object]]:
    """Return the overrides that were in force; nothing without a group."""
    if not groups:
        return {}
    found = _things(session, "override", revision, "")
    return {override.key: override.document for override in found}


def _group(
    group: _Past, ids: Mapping[str, int], overridden: Overridden
) -> dict[str, object]:
    limits = cast("Sequence[Mapping[str, object]]", group.document["limits"])
    told = {
        name: value for name, value in group.document.items() if name not in _NOT_TOLD
    }
    return {
        **told,
        "id": ids[group.key],
        "name": group.key,
        "parent": None if group.parent is None else ids.get(group.parent),
        "limits": [_limit(group.key, limit, overridden) for limit in limits],
    }


def _limit(
    group: str, limit: Mapping[str, object], overridden: Overridden
) -> dict[str, object]:
    """Return a limit as the overrides of the time make it."""
    rate, burst = overridden.rate_and_burst(
        group,
        str(limit["dimension"]),
        _number(limit["rate"]),
        _number(limit["burst"]),
    )
    return {**limit, "rate": shown(rate), "burst": shown(burst)}


def _number(value: object) -> float:
    return restored(None if value == "unlimited" else float(str(value)))
