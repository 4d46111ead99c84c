"""The configuration as it was at an earlier revision: the audit, undone from now on.

For those who read what agents reported long ago (the pipeline) and must judge it by
the limits of that time.  Buses, policies and intervals of then are not told.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.api.attachments.subjects import subject_of_key
from headgate.api.groups.service import document, shown_groups
from headgate.api.overrides.service import Overridden, override_key
from headgate.api.store.tables import (
    AttachmentRow,
    AuditRow,
    ChangedRow,
    GroupRow,
    OverrideRow,
    StateRow,
)
from headgate.api.values.errors import NotFound
from headgate.api.values.quantities import restored, shown

if TYPE_CHECKING:
    from headgate.api.store import Document

TOLD = ("group", "attachment", "override")
"""Kinds of things that groups and attachments of a snapshot come from."""

BATCH = 200
"""Audit rows held at once."""


def past_document(session: Session, revision: int) -> dict[str, object]:
    """Return groups and attachments as `revision` left them.

    Its ``revision`` is the first from which on they were so: what changed nothing of
    them is skipped, so that a reader goes back through all states in few steps.

    Raises:
        NotFound: There is no such revision yet.
    """
    state = session.scalars(select(StateRow)).one()
    if revision > state.revision:
        raise NotFound("revision", str(revision))
    things = _Things(session)
    query = (
        select(AuditRow)
        .where(AuditRow.revision > revision)
        .order_by(AuditRow.revision.desc())
    )
    for row in session.scalars(query.execution_options(yield_per=BATCH)):
        for change in row.changes:
            things.undo(change)
    since = select(func.max(ChangedRow.revision)).where(
        ChangedRow.revision <= revision, ChangedRow.kind.in_(TOLD)
    )
    return {
        "revision": session.scalars(since).one() or 0,
        "cluster": state.cluster,
        "groups": things.group_documents(),
        "attachments": things.attachment_documents(),
    }


class _Things:
    """Groups, attachments and overrides by key, each as the audit keeps it."""

    def __init__(self, session: Session) -> None:
        """Begin with what is there now."""
        rows = session.scalars(select(GroupRow)).all()
        found = shown_groups(session, rows)
        attached = session.execute(
            select(AttachmentRow.subject, GroupRow.name)
            .join(GroupRow, GroupRow.id == AttachmentRow.group_id)
            .order_by(AttachmentRow.id)
        )
        self._ids = {group.name: group.id for group in found}
        self._of: dict[object, dict[str, Document]] = {
            "group": {group.name: document(group) for group in found},
            "attachment": {key: {"group": group} for key, group in attached},
            "override": {
                override_key(row.group, row.dimension): row.document
                for row in session.scalars(select(OverrideRow))
            },
        }

    def undo(self, change: Mapping[str, object]) -> None:
        """Bring the thing that `change` names into its state before."""
        things, key = self._of.get(change["kind"]), str(change["key"])
        if things is None:
            return
        before, number = change["before"], change.get("id")
        if change["kind"] == "group" and (before is None or key not in things):
            self._ids.pop(key, None)  # of a later group of that name
        if isinstance(before, dict):
            things[key] = before
            if change["kind"] == "group" and isinstance(number, int):
                self._ids[key] = number
        else:
            things.pop(key, None)

    def group_documents(self) -> list[dict[str, object]]:
        """Return all groups as a snapshot says them.

        One that was deleted before the audit kept ids is left out.
        """
        overridden = Overridden(
            {key: value for key, value in self._of["override"].items() if value}
        )
        return [
            self._group(name, found, overridden)
            for name, found in self._of["group"].items()
            if found and name in self._ids
        ]

    def attachment_documents(self) -> list[dict[str, object]]:
        """Return all attachments to those groups."""
        return [
            {"subject": subject_of_key(key), "group": self._ids[group]}
            for key, found in self._of["attachment"].items()
            if found and (group := str(found["group"])) in self._ids
        ]

    def _group(
        self, name: str, found: Mapping[str, object], overridden: Overridden
    ) -> dict[str, object]:
        parent = found["parent"]
        limits = cast("Sequence[Mapping[str, object]]", found["limits"])
        return {
            **found,
            "id": self._ids[name],
            "name": name,
            "parent": None if parent is None else self._ids.get(str(parent)),
            "limits": [_limit(name, limit, overridden) for limit in limits],
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
