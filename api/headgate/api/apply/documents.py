"""Every kind of thing that a change can touch: read, written, deleted by documents.

A document is what an operator decided about one thing.  Rollback, bulk apply and
overrides put a number of things into a wanted state; this table is all that they
know about the kinds.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from headgate.api.attachments import service as attachments
from headgate.api.groups import service as groups
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides import service as overrides
from headgate.api.policies import service as policies
from headgate.api.policies.broker import check_together
from headgate.api.policies.schemas import PolicyPut
from headgate.api.store import Change, Document
from headgate.api.tenants import service as tenants
from headgate.api.tenants import topics
from headgate.api.tenants.schemas import TenantPut
from headgate.api.values.errors import Invalid, NotFound

Model = TypeVar("Model", bound=BaseModel)

Target = Mapping[tuple[str, str], Document]
"""(kind, key) → wanted document; None for what should not exist."""


Documents = Mapping[str, Mapping[str, object]]
"""Key → wanted document, of things of one kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How objects of one kind are brought into a wanted state.

    Attributes:
        write: Create or replace the things with these keys.
        delete: Delete them; those that don't exist are ignored.
        check: Raise Refused unless all things of the kind fit together; called in the
            end, because on the way there they need not.
    """

    write: Callable[[Change, Documents], None]
    delete: Callable[[Change, Collection[str]], None]
    check: Callable[[Change], None] = lambda _: None


def put_in_place(change: Change, target: Target) -> None:
    """Bring all things of `target` into their wanted states, in an order that works.

    Raises:
        Refused: A document can't be accepted, or something else depends on what
            is to be deleted; the caller must then abandon the transaction.
    """
    unknown = next((kind for kind, _ in target if kind not in KINDS), None)
    if unknown is not None:
        raise Invalid(unknown, f"expected one of {', '.join(KINDS)}")
    for name, kind in KINDS.items():
        wanted = {
            key: found
            for (other, key), found in target.items()
            if other == name and found is not None
        }
        if wanted:
            kind.write(change, wanted)
    for name, kind in reversed(tuple(KINDS.items())):
        unwanted = [
            key
            for (other, key), found in target.items()
            if other == name and found is None
        ]
        if unwanted:
            kind.delete(change, unwanted)
    touched = {name for name, _ in target}
    for name, kind in KINDS.items():
        if name in touched:
            kind.check(change)


def _each(
    write: Callable[[Change, str, Mapping[str, object]], None],
) -> Callable[[Change, Documents], None]:
    """Return a function that writes one document after another."""

    def write_all(change: Change, documents: Documents) -> None:
        for key, document in documents.items():
            write(change, key, document)

    return write_all


def _each_of(
    delete: Callable[[Change, str], None],
) -> Callable[[Change, Collection[str]], None]:
    """Return a function that deletes one thing after another."""

    def delete_all(change: Change, keys: Collection[str]) -> None:
        for key in keys:
            delete(change, key)

    return delete_all


def _checked(model: type[Model], document: object, what: str) -> Model:
    """Return a document as a body; one of an earlier version may be wrong by now.

    Raises:
        Invalid: A value can't be accepted any more; `what` is the thing that has it.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        item = error.errors()[0]
        for step in item["loc"]:
            what += f"[{step}]" if isinstance(step, int) else f".{step}"
        reason = item["msg"].removeprefix("Value error, ")
        raise Invalid(what, reason.replace("Input should be", "expected")) from error


def _write_groups(change: Change, documents: Documents) -> None:
    bodies = {
        key: _checked(GroupBody, found, f"groups.{key}")
        for key, found in documents.items()
    }
    groups.put_groups(change, bodies)


def _check_groups(change: Change) -> None:
    groups.check_groups(change.session)


def _write_attachments(change: Change, documents: Documents) -> None:
    wanted: dict[str, tuple[str, bool]] = {}
    for key, document in documents.items():
        group = document.get("group")
        if not isinstance(group, str):
            raise Invalid("group", "expected the name of a group")
        wanted[key] = group, document.get("own") is True
    attachments.put_attachments(change, wanted)


def _write_tenants(change: Change, documents: Documents) -> None:
    bodies = {key: TenantPut.model_validate(found) for key, found in documents.items()}
    tenants.put_tenants(change, bodies)


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


def _write_topic(change: Change, key: str, document: Mapping[str, object]) -> None:
    topics.put_partitions(change, key, int(str(document["partitions"])))


def _write_policy(change: Change, key: str, document: Mapping[str, object]) -> None:
    level, target, kind = json.loads(key)
    wanted = {"level": level, "target": target, "kind": kind, "policy": document}
    policies.put_policy(change, _checked(PolicyPut, wanted, f"policies.{target}"))


def _delete_policy(change: Change, key: str) -> None:
    policies.delete_policy(change, *json.loads(key))


def _write_setting(change: Change, key: str, document: Mapping[str, object]) -> None:
    policies.write_setting(change, key, str(document.get("text")))


def _check_settings(change: Change) -> None:
    check_together(policies.get_settings(change.session))


def _delete_setting(change: Change, key: str) -> None:
    policies.delete_setting(change, key)


def _write_override(change: Change, key: str, document: Mapping[str, object]) -> None:
    if float(str(document["ends_at_s"])) > time.time():  # otherwise it has ended by now
        overrides.write_override(change, key, document)


def _delete_override(change: Change, key: str) -> None:
    overrides.delete_override(change, key)


KINDS: Mapping[str, Kind] = {
    "tenant": Kind(_write_tenants, _each_of(_delete_tenant)),
    "namespace": Kind(_each(_write_namespace), _each_of(_delete_namespace)),
    "topic": Kind(_each(_write_topic), _each_of(topics.delete_partitions)),
    "group": Kind(_write_groups, groups.delete_groups, _check_groups),
    "attachment": Kind(_write_attachments, attachments.delete_attachments),
    "policy": Kind(_each(_write_policy), _each_of(_delete_policy)),
    "setting": Kind(_each(_write_setting), _each_of(_delete_setting), _check_settings),
    "override": Kind(_each(_write_override), _each_of(_delete_override)),
}
"""Name → kind, in the order in which things depend on earlier ones."""
