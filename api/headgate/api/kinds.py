"""Every kind of thing that a change can touch: read, written, deleted by documents.

A document is what an operator decided about one thing.  Rollback, bulk apply and
override put a number of things into a wanted state; they know things by this table
alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from sqlalchemy.orm import Session

from headgate.api.attachments import service as attachments
from headgate.api.attachments.subjects import checked_subject, subject_of_key
from headgate.api.errors import Invalid, NotFound
from headgate.api.groups import service as groups
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides import service as overrides
from headgate.api.policies import service as policies
from headgate.api.policies.schemas import PolicyPut
from headgate.api.store import Change, Document
from headgate.api.tenants import service as tenants
from headgate.api.tenants.schemas import TenantPut

Target = Mapping[tuple[str, str], Document]
"""(kind, key) → wanted document, None for what shall not be there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of thing is put into a wanted state.

    Attributes:
        write: Make or replace the thing of that key.
        delete: Delete it; nothing happens when it is not there.
    """

    write: Callable[[Change, str, Mapping[str, object]], None]
    delete: Callable[[Change, str], None]


def put_in_place(change: Change, target: Target) -> None:
    """Bring all things of `target` into their wanted states, in an order that works.

    Raises:
        Refused: A document can't be accepted, or something else depends on what
            is to go; the transaction is to be given up then.
    """
    unknown = next((kind for kind, _ in target if kind not in KINDS), None)
    if unknown is not None:
        raise Invalid(unknown, f"expected one of {', '.join(KINDS)}")
    _part_from_parents(change, target)
    for name, kind in KINDS.items():
        wanted = {
            key: found
            for (other, key), found in target.items()
            if other == name and found is not None
        }
        if name == "attachment":
            _write_attachments(change, wanted)
            continue
        for key, found in wanted.items():
            kind.write(change, key, found)
    for name, kind in reversed(tuple(KINDS.items())):
        for (other, key), document in target.items():
            if other == name and document is None:
                kind.delete(change, key)


def _part_from_parents(change: Change, target: Target) -> None:
    """Make all groups of `target` roots first, so that no order makes a circle."""
    documents = {key: found for (kind, key), found in target.items() if kind == "group"}
    parents = {found.get("parent") for found in documents.values() if found}
    for key, document in documents.items():
        present = _present_group(change.session, key)
        if present is not None and present.parent is not None:
            groups.put_group(change, key, present.model_copy(update={"parent": None}))
        elif present is None and document is not None and key in parents:
            groups.put_group(change, key, _group_body({**document, "parent": None}))


def _present_group(session: Session, name: str) -> GroupBody | None:
    found = groups.find_or_none(session, name)
    return None if found is None else groups.body_of(found)


def _group_body(document: Mapping[str, object]) -> GroupBody:
    return GroupBody.model_validate(document)


def _write_group(change: Change, key: str, document: Mapping[str, object]) -> None:
    groups.put_group(change, key, _group_body(document))


def _delete_group(change: Change, key: str) -> None:
    if _present_group(change.session, key) is not None:
        groups.delete_group(change, key)


def _write_attachment(change: Change, key: str, document: Mapping[str, object]) -> None:
    _write_attachments(change, {key: document})


def _write_attachments(
    change: Change, documents: Mapping[str, Mapping[str, object]]
) -> None:
    """Write all in a few queries: there may be a hundred thousand."""
    wanted: dict[str, str] = {}
    for key, document in documents.items():
        group = document.get("group")
        if not isinstance(group, str):
            raise Invalid("group", "expected the name of a group")
        wanted[key] = group
    attachments.put_attachments(change, wanted)


def _delete_attachment(change: Change, key: str) -> None:
    attachments.delete_attachment(change, checked_subject(subject_of_key(key)))


def _write_tenant(change: Change, key: str, document: Mapping[str, object]) -> None:
    body = TenantPut.model_validate(document)
    tenants.put_tenant(
        change,
        key,
        admin_roles=body.admin_roles,
        allowed_clusters=body.allowed_clusters,
    )


def _delete_tenant(change: Change, key: str) -> None:
    try:
        tenants.delete_tenant(change, key)
    except NotFound:
        return


def _write_namespace(change: Change, key: str, document: Mapping[str, object]) -> None:
    policies = cast("Mapping[str, object]", document.get("policies") or {})
    tenant, _, name = key.partition("/")
    tenants.put_namespace(change, tenant, name, policies=policies)


def _delete_namespace(change: Change, key: str) -> None:
    tenant, _, name = key.partition("/")
    try:
        tenants.delete_namespace(change, tenant, name)
    except NotFound:
        return


def _write_policy(change: Change, key: str, document: Mapping[str, object]) -> None:
    level, target, kind = json.loads(key)
    wanted = {"level": level, "target": target, "kind": kind, "policy": document}
    policies.put_policy(change, PolicyPut.model_validate(wanted))


def _delete_policy(change: Change, key: str) -> None:
    policies.delete_policy(change, *json.loads(key))


def _write_setting(change: Change, key: str, document: Mapping[str, object]) -> None:
    policies.put_setting(change, key, str(document.get("text")))


def _delete_setting(change: Change, key: str) -> None:
    policies.delete_setting(change, key)


def _write_override(change: Change, key: str, document: Mapping[str, object]) -> None:
    if float(str(document["ends_at_s"])) > time.time():  # else it has ended since
        overrides.write_override(change, key, document)


def _delete_override(change: Change, key: str) -> None:
    overrides.delete_override(change, key)


KINDS: Mapping[str, Kind] = {
    "tenant": Kind(_write_tenant, _delete_tenant),
    "namespace": Kind(_write_namespace, _delete_namespace),
    "group": Kind(_write_group, _delete_group),
    "attachment": Kind(_write_attachment, _delete_attachment),
    "policy": Kind(_write_policy, _delete_policy),
    "setting": Kind(_write_setting, _delete_setting),
    "override": Kind(_write_override, _delete_override),
}
"""Name → kind, in the order in which things depend on earlier ones."""
