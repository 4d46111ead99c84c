"""The configuration as agents fetch it: loaded once per revision, kept as bytes."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from headgate.api.attachments.subjects import subject_of_key
from headgate.api.overrides.service import Overridden
from headgate.api.policies.broker import with_reporting
from headgate.api.policies.service import get_settings, policies_document
from headgate.api.quantities import restored, shown
from headgate.api.store import Store
from headgate.api.store.tables import AttachmentRow, GroupRow, LimitRow, StateRow


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One revision of everything, as JSON.

    Attributes:
        revision: Its number.
        body: JSON text, UTF-8.
    """

    revision: int
    body: bytes


class Snapshots:
    """The newest snapshot, loaded when somebody first asks for it."""

    def __init__(self, store: Store, fixed: Mapping[str, object]) -> None:
        """Serve `store`; `fixed` members (bus, report) stand in each snapshot."""
        self.fixed = dict(fixed)
        self._store = store
        self._newest: Snapshot | None = None
        self._loading = asyncio.Lock()

    async def at_least(self, revision: int) -> Snapshot:
        """Return a snapshot that is not older than `revision`, which must exist."""
        newest = self._newest
        if newest is not None and newest.revision >= revision:
            return newest
        async with self._loading:  # a thousand woken watchers load it once
            newest = self._newest
            if newest is None or newest.revision < revision:
                newest = await run_in_threadpool(self._load)
                self._newest = newest
            return newest

    def _load(self) -> Snapshot:
        with self._store.reading() as session:
            content = configuration_document(session)
            fixed = with_reporting(self.fixed, get_settings(session))
        text = json.dumps(
            {**content, **fixed}, ensure_ascii=False, separators=(",", ":")
        )
        revision = content["revision"]
        assert isinstance(revision, int)
        return Snapshot(revision, text.encode())


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


def group_documents(session: Session) -> list[dict[str, object]]:
    """Return all groups as a snapshot says them."""
    overridden = Overridden(session)
    named = session.execute(select(GroupRow.id, GroupRow.name))
    names = {row.id: row.name for row in named}
    limits: dict[int, list[dict[str, object]]] = {}
    columns = LimitRow.__table__.c
    ordered = select(*columns).order_by(columns.dimension, columns.scope)
    for row in session.execute(ordered):
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
                "scope": row.scope,
                "minimum": row.minimum,
                "maximum": shown(restored(row.maximum)),
            }
        )
    rows = session.execute(select(*GroupRow.__table__.c).order_by(GroupRow.id))
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
        }
        for row in rows
    ]
