"""The configuration as a file of quotas: the inverse of an apply."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.attachments.subjects import subject_of_key
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides.service import override_parts
from headgate.api.policies.schemas import Policy
from headgate.api.store.tables import ChangedRow
from headgate.api.tenants.schemas import TenantPut

Found = Mapping[str, Mapping[str, object]]
"""Key → document, of things of one kind."""


def exported(session: Session) -> dict[str, object]:
    """Return all of the configuration in force that a file of quotas can express.

    Defaults and empty members are left out.  Tokens are not part of it: their secrets
    are not stored.
    """
    by_kind = _documents(session)
    whole: dict[str, object] = {
        "tenants": {
            name: TenantPut.model_validate(document).model_dump(
                mode="json", exclude_defaults=True
            )
            for name, document in by_kind.get("tenant", {}).items()
        },
        "namespaces": list(by_kind.get("namespace", {})),
        "namespace_policies": {
            name: document["policies"]
            for name, document in by_kind.get("namespace", {}).items()
            if document.get("policies")
        },
        "groups": {
            name: GroupBody.stored(document).model_dump(
                mode="json", exclude_defaults=True
            )
            for name, document in by_kind.get("group", {}).items()
        },
        "attachments": [
            {"subject": subject_of_key(key), **document}
            for key, document in by_kind.get("attachment", {}).items()
        ],
        "policies": [
            _policy(key, document)
            for key, document in by_kind.get("policy", {}).items()
        ],
        "settings": {
            key: document["text"]
            for key, document in by_kind.get("setting", {}).items()
        },
        "overrides": [
            _override(key, document)
            for key, document in by_kind.get("override", {}).items()
            if _has_limit(key, by_kind.get("group", {}))
        ],
    }
    return {name: found for name, found in whole.items() if found}


def _documents(session: Session) -> dict[str, dict[str, Mapping[str, object]]]:
    """Return what exists now: kind → key → document, by kind and key."""
    row = ChangedRow
    query = (
        select(row.kind, row.key, row.after)
        .where(row.until.is_(None), row.after.is_not(None))
        .order_by(row.kind, row.key)
    )
    found: dict[str, dict[str, Mapping[str, object]]] = {}
    for kind, key, document in session.execute(query):
        found.setdefault(kind, {})[key] = cast("Mapping[str, object]", document)
    return found


def _policy(key: str, document: Mapping[str, object]) -> dict[str, object]:
    level, target, kind = json.loads(key)
    policy = Policy.stored(document)
    return {
        "level": level,
        "target": target,
        "kind": kind,
        "policy": policy.model_dump(mode="json", exclude_defaults=True),
    }


def _override(key: str, document: Mapping[str, object]) -> dict[str, object]:
    group, dimension = override_parts(key)
    ends_at_s = float(str(document["ends_at_s"]))
    told: dict[str, object] = {
        "group": group,
        "dimension": dimension,
        "factor": document["factor"],
        "rate": document["rate"],
        "until": datetime.fromtimestamp(ends_at_s, UTC).isoformat(),
        "reason": document["reason"],
    }
    return {name: value for name, value in told.items() if value not in (None, "")}


def _has_limit(key: str, groups: Mapping[str, Mapping[str, object]]) -> bool:
    """Tell whether an override has a limit to change; it may have been removed."""
    group, dimension = override_parts(key)
    limits = cast("list[Mapping[str, object]]", groups[group]["limits"])
    return not dimension or any(each["dimension"] == dimension for each in limits)
