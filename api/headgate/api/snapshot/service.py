"""The configuration as agents fetch it: loaded once per revision, kept as bytes."""

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from headgate.api.attachments.subjects import subject_of_key
from headgate.api.overrides.service import Overridden, overridden_groups
from headgate.api.policies.broker import with_reporting
from headgate.api.policies.service import (
    changed_policies,
    get_settings,
    policies_document,
)
from headgate.api.snapshot.past import past_document
from headgate.api.store import Store
from headgate.api.store.tables import (
    AttachmentRow,
    ChangedRow,
    GroupRow,
    LimitRow,
    StateRow,
)
from headgate.api.values.quantities import restored, shown

MAX_CHANGES_KEPT = 64
"""Starting points whose changes up to now are kept: agents that were away for a while
each begin at their own."""

MAX_CHANGED = 5_000
"""Most things that changed since; beyond that the whole snapshot is sent, because each
is a row of two queries and may be named in both."""


@dataclass(frozen=True, slots=True)
class SnapshotText:
    """One revision of everything, as JSON.

    Attributes:
        revision: Its number.
        body: JSON text, UTF-8.
        groups: Ids of the groups that it has.
    """

    revision: int
    body: bytes
    groups: frozenset[int]


class Snapshots:
    """The newest snapshot, loaded when somebody first asks for it."""

    def __init__(self, store: Store, fixed: Mapping[str, object]) -> None:
        """Serve `store`; `fixed` members (bus, report) are part of each snapshot."""
        self.fixed = dict(fixed)
        self._store = store
        self._newest: SnapshotText | None = None
        self._loading = asyncio.Lock()
        self._changes: dict[int, SnapshotText | None] = {}
        self._changes_of = -1
        self._changing = asyncio.Lock()

    async def changes(self, since: int, revision: int) -> SnapshotText | None:
        """Return what changed from `since` to `revision` or later.

        None when that is too much, or when `since` is not a revision of this store:
        then the whole snapshot must be sent.
        """
        async with self._changing:  # once for a thousand woken watchers
            if self._changes_of < revision:
                self._changes.clear()
                self._changes_of = revision
            if since not in self._changes:
                if len(self._changes) >= MAX_CHANGES_KEPT:
                    self._changes.clear()
                found = await run_in_threadpool(self._load_changes, since)
                self._changes[since] = found
            return self._changes[since]

    async def at_least(self, revision: int) -> SnapshotText:
        """Return a snapshot that is not older than `revision`, which must exist."""
        newest = self._newest
        if newest is not None and newest.revision >= revision:
            return newest
        async with self._loading:  # once for a thousand woken watchers
            newest = self._newest
            if newest is None or newest.revision < revision:
                newest = await run_in_threadpool(self._load)
                self._newest = newest
            return newest

    def past(self, revision: int, *, after: str, limit: int) -> bytes:
        """Return a page of what `revision` left, as JSON text.

        Raises:
            NotFound: There is no such revision yet.
            Invalid: `after` is not the ``next`` of a page.
        """
        with self._store.reading() as session:
            content = past_document(session, revision, after=after, limit=limit)
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()

    def _load(self) -> SnapshotText:
        with self._store.reading() as session:
            return self._written(session, configuration_document(session))

    def _load_changes(self, since: int) -> SnapshotText | None:
        with self._store.reading() as session:
            content = changes_document(session, since)
            return None if content is None else self._written(session, content)

    def _written(self, session: Session, content: dict[str, object]) -> SnapshotText:
        fixed = with_reporting(self.fixed, get_settings(session))
        text = json.dumps(
            {**content, **fixed}, ensure_ascii=False, separators=(",", ":")
        )
        revision = cast("int", content["revision"])
        groups = cast("list[dict[str, int]]", content["groups"])
        ids = frozenset(group["id"] for group in groups)
        return SnapshotText(revision, text.encode(), ids)


def configuration_document(session: Session) -> dict[str, object]:
    """Return revision, cluster, groups, attachments, policies as a snapshot does."""
    state = session.scalars(select(StateRow)).one()
    attachments = session.execute(
        select(AttachmentRow.subject, AttachmentRow.group_id).order_by(AttachmentRow.id)
    )
    return {
        "revision": state.revision,
        "cluster": state.cluster,
        "groups": group_documents(session),
        "attachments": [
            {"subject": subject_of_key(key), "group": group}
            for key, group in attachments
        ],
        "policies": policies_document(session),
    }


def changes_document(session: Session, since: int) -> dict[str, object] | None:
    """Return the parts of a snapshot that changed after the revision `since`.

    Members: `since`; `groups`, the changed groups that still exist, and
    `groups_gone`, the names of those that don't; likewise `attachments` and, as
    subjects, `detached`; `policies` as in a whole snapshot, but null for a name that
    no longer has any.  A group with the name of an earlier one replaces it, even if
    its id is different.

    Returns:
        None when more than `MAX_CHANGED` changed, or there is no revision `since`.
    """
    state = session.scalars(select(StateRow)).one()
    if since > state.revision:
        return None
    query = select(ChangedRow.kind, ChangedRow.key).where(ChangedRow.revision > since)
    changed: dict[str, list[str]] = {}
    for kind, key in session.execute(query.distinct().limit(MAX_CHANGED + 1)):
        changed.setdefault(kind, []).append(key)
    if sum(map(len, changed.values())) > MAX_CHANGED:
        return None
    names = {*changed.get("group", ()), *overridden_groups(changed.get("override", ()))}
    groups = group_documents(session, names)
    keys = changed.get("attachment", [])
    attached = session.execute(
        select(AttachmentRow.subject, AttachmentRow.group_id)
        .where(AttachmentRow.subject.in_(keys))
        .order_by(AttachmentRow.id)
    ).all()
    there = {key for key, _ in attached}
    document: dict[str, object] = {
        "since": since,
        "revision": state.revision,
        "cluster": state.cluster,
        "groups": groups,
        "groups_gone": sorted(names - {group["name"] for group in groups}, key=str),
        "attachments": [
            {"subject": subject_of_key(key), "group": group} for key, group in attached
        ],
        "detached": [subject_of_key(key) for key in keys if key not in there],
    }
    if "policy" in changed or "setting" in changed:
        document["policies"] = changed_policies(session, changed.get("policy", ()))
    return document


def group_documents(
    session: Session, wanted: Collection[str] | None = None
) -> list[dict[str, object]]:
    """Return groups as a snapshot shows them: all, or those of the `wanted` names."""
    query = select(*GroupRow.__table__.c).order_by(GroupRow.id)
    if wanted is not None:
        query = query.where(GroupRow.name.in_(wanted))
    rows = session.execute(query).all()
    names = {row.id: row.name for row in rows}
    limits = _limit_documents(session, names, only_these=wanted is not None)
    return [
        {
            "id": row.id,
            "name": row.name,
            "limits": limits.get(row.id, []),
            "parent": row.parent_id,
            "weight": row.weight,
            "mode": row.mode,
            "may_owe": row.may_owe,
            "isolation": row.isolation,
            "refusal": row.refusal,
            "soft_threshold": row.soft_threshold,
            "per_partition": row.per_partition,
            "split": row.split,
            "slots": row.slots,
            "per": row.per,
        }
        for row in rows
    ]


def _limit_documents(
    session: Session, names: Mapping[int, str], *, only_these: bool
) -> dict[int, list[dict[str, object]]]:
    """Return the limits of groups by the group's id, as overrides make them now."""
    overridden = Overridden.now(session)
    columns = LimitRow.__table__.c
    query = select(*columns).order_by(columns.dimension, columns.scope)
    if only_these:
        query = query.where(columns.group_id.in_(names))
    limits: dict[int, list[dict[str, object]]] = {}
    for row in session.execute(query):
        rate, burst = overridden.rate_and_burst(
            names[row.group_id],
            row.dimension,
            restored(row.rate),
            restored(row.burst),
        )
        limits.setdefault(row.group_id, []).append(
            {
                "dimension": row.dimension,
                "rate": shown(rate),
                "burst": shown(burst),
                "period_s": row.period_s,
                "period": row.period,
                "time_zone": row.time_zone,
                "scope": row.scope,
                "minimum": row.minimum,
                "maximum": shown(restored(row.maximum)),
            }
        )
    return limits
