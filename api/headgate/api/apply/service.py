"""Turn a file of quotas into target documents, and reach them in one transaction."""

import json
import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.apply.documents import put_in_place
from headgate.api.apply.schemas import Quotas
from headgate.api.attachments.subjects import (
    checked_subject,
    subject_key,
    subject_of_key,
)
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides.service import (
    check_limited,
    override_document,
    override_key,
)
from headgate.api.policies.broker import KEYS
from headgate.api.policies.service import checked_target, policy_key
from headgate.api.store import Author, Change, Document
from headgate.api.store.tables import AttachmentRow, GroupRow, NamespaceRow, PolicyRow
from headgate.api.tenants.schemas import TenantPut
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.names import MAX_NAME, checked_name
from headgate.api.values.schemas import ChangeShown

Target = dict[tuple[str, str], Document]


def apply_quotas(change: Change, quotas: Quotas, author: Author) -> list[ChangeShown]:
    """Bring everything that `quotas` names into its state; return what changed.

    Raises:
        Forbidden: `author` may not change something that it names, or prunes.
        Refused: Part of it can't be done; the caller must abandon the transaction.
    """
    target = _target(quotas)
    _leave_namespaces(change.session, target, quotas)
    if quotas.prune:
        _add_prunings(change.session, target)
    _require_rights(author, target)
    put_in_place(change, target)
    for index, override in enumerate(quotas.overrides):
        if ("override", override_key(override.group, override.dimension)) in target:
            field = f"overrides[{index}].dimension"
            check_limited(change.session, override, field)
    return [ChangeShown.model_validate(item) for item in change.recorded]


def delete_quotas(change: Change, quotas: Quotas, author: Author) -> list[ChangeShown]:
    """Delete everything that `quotas` names and that exists; return what changed.

    An attachment stays if its subject belongs to another group than `quotas` says.

    Raises:
        Forbidden: `author` may not change something that it names.
        Refused: Something is in use; the caller must abandon the transaction.
    """
    named = _target(quotas)
    _require_rights(author, named)
    elsewhere = _attached_elsewhere(change.session, named)
    put_in_place(change, {key: None for key in named if key not in elsewhere})
    return [ChangeShown.model_validate(item) for item in change.recorded]


def _attached_elsewhere(session: Session, named: Target) -> set[tuple[str, str]]:
    """Return the attachments of `named` whose subjects belong to other groups."""
    query = select(AttachmentRow.subject, GroupRow.name).join(
        GroupRow, AttachmentRow.group_id == GroupRow.id
    )
    found = {
        ("attachment", subject): group for subject, group in session.execute(query)
    }
    return {
        key
        for key, document in named.items()
        if key in found and document is not None and document["group"] != found[key]
    }


def _require_rights(author: Author, target: Target) -> None:
    """Check that an author limited to some tenants may change each thing in it."""
    for kind, key in target:
        if kind == "attachment":
            owner = next(iter(subject_of_key(key).items()))
        elif kind == "policy":
            level, name, _ = json.loads(key)
            owner = (level, name)
        else:
            owner = (kind, key if kind == "namespace" else None)
        author.require_tenant_of(*owner)


def _target(quotas: Quotas) -> Target:
    """Return the documents of everything that `quotas` names.

    Raises:
        Refused: A name or a value can't be accepted, or a thing is named twice.
    """
    target: Target = {}
    for name, tenant in quotas.tenants.items():
        body = tenant or TenantPut()
        target["tenant", checked_name(name, "tenants")] = body.model_dump(mode="json")
    _add_namespaces(target, quotas)
    for name, group in quotas.groups.items():
        limits = group or GroupBody()
        target["group", checked_name(name, "groups")] = limits.model_dump(mode="json")
    _add_attachments(target, quotas)
    _add_policies(target, quotas)
    for key, text in quotas.settings.items():
        if key not in KEYS:
            raise NotFound("setting", key[:MAX_NAME])
        target["setting", key] = None if text is None else {"text": text}
    _add_overrides(target, quotas)
    return target


def _add_namespaces(target: Target, quotas: Quotas) -> None:
    for index, name in enumerate(quotas.namespaces):
        subject = checked_subject({"namespace": name}, f"namespaces[{index}]")
        target["namespace", str(subject[0][1])] = {"policies": {}}
    for name, policies in quotas.namespace_policies.items():
        field = f"namespace_policies.{name[:MAX_NAME]}"
        subject = checked_subject({"namespace": name}, field)
        target["namespace", str(subject[0][1])] = {"policies": policies}


def _add_attachments(target: Target, quotas: Quotas) -> None:
    for index, attachment in enumerate(quotas.attachments):
        field = f"attachments[{index}].subject"
        key = subject_key(checked_subject(attachment.subject, field))
        if ("attachment", key) in target:
            raise Invalid(field, "expected each subject once")
        target["attachment", key] = {"group": attachment.group, "own": attachment.own}


def _add_policies(target: Target, quotas: Quotas) -> None:
    for index, policy in enumerate(quotas.policies):
        name = checked_target(policy.level, policy.target)
        key = policy_key(policy.level, name, policy.kind)
        if ("policy", key) in target:
            raise Invalid(f"policies[{index}]", "expected each policy once")
        target["policy", key] = policy.policy.model_dump(mode="json")


def _add_overrides(target: Target, quotas: Quotas) -> None:
    """Add the overrides that have not ended."""
    for index, override in enumerate(quotas.overrides):
        key = override_key(override.group, override.dimension)
        if ("override", key) in target:
            raise Invalid(f"overrides[{index}]", "expected each override once")
        if override.until is None or override.until.timestamp() > time.time():
            target["override", key] = override_document(override)


def _leave_namespaces(session: Session, target: Target, quotas: Quotas) -> None:
    """Drop namespaces that exist, unless the file has their Pulsar policies."""
    for tenant, name in session.execute(select(NamespaceRow.tenant, NamespaceRow.name)):
        full_name = f"{tenant}/{name}"
        if full_name not in quotas.namespace_policies:
            target.pop(("namespace", full_name), None)


def _add_prunings(session: Session, target: Target) -> None:
    for name in session.scalars(select(GroupRow.name)):
        target.setdefault(("group", name), None)
    for subject in session.scalars(select(AttachmentRow.subject)):
        target.setdefault(("attachment", subject), None)
    for row in session.scalars(select(PolicyRow)):
        key = policy_key(row.level, row.target, row.kind)
        target.setdefault(("policy", key), None)
