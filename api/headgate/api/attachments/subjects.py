"""Subjects: what can be attached, as JSON, as a query and as the store's key."""

import json
from collections.abc import Mapping, Sequence

from headgate.api.values.errors import Invalid
from headgate.api.values.names import MAX_NAME, checked_name, checked_path_name
from headgate.api.values.ownership import OF_TENANTS
from headgate.coordinator.config.configuration import SUBJECT_KINDS

Subject = tuple[tuple[str, str | None], ...]
"""Pairs of (kind, name) in the order of `SUBJECT_KINDS`; None is the default."""

PAIRS = (("topic", "subscription"), ("user", "client"))
"""Subjects of two kinds: one subscription of a topic, Kafka's pairs (KIP-599)."""

_SCHEME = "persistent://"


def checked_subject(named: Mapping[str, str | None], field: str = "subject") -> Subject:
    """Return the subject that `named` (kind → name) means.

    Raises:
        Invalid: A kind is unknown, kinds don't go together, or a name is not valid.
    """
    kinds = [kind for kind in SUBJECT_KINDS if kind in named]
    unknown = next((kind for kind in named if kind not in SUBJECT_KINDS), None)
    if unknown is not None:
        raise Invalid(
            f"{field}.{unknown[:40]}", f"expected one of {', '.join(SUBJECT_KINDS)}"
        )
    if len(kinds) != 1 and tuple(kinds) not in PAIRS:
        raise Invalid(
            field, "expected one kind, or user and client, or topic and subscription"
        )
    return tuple((kind, _checked(kind, named[kind], field)) for kind in kinds)


def subject_key(subject: Subject) -> str:
    """Return the store's unique text of `subject`."""
    return json.dumps(dict(subject), ensure_ascii=False, separators=(",", ":"))


def subject_of_key(key: str) -> dict[str, str | None]:
    """Return kind → name for a key that `subject_key` returned."""
    named: dict[str, str | None] = json.loads(key)
    return named


def subject_kind(subject: Subject) -> str:
    """Return the kind that lists are filtered by, such as ``user+client``."""
    return "+".join(kind for kind, _ in subject)


def subject_of_query(pairs: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    """Return kind → name of a query string's pairs; an empty name is the default.

    Raises:
        Invalid: A kind is given twice.
    """
    named: dict[str, str | None] = {}
    for kind, name in pairs:
        if kind in named:
            raise Invalid(kind, "expected at most once")
        named[kind] = name or None
    return named


def wider_subjects(subject: Subject) -> list[Subject]:
    """Return the subjects whose groups apply where `subject` has none, nearest first.

    >>> wider_subjects((("topic", "acme/orders/new"),))
    [(('namespace', 'acme/orders'),), (('tenant', 'acme'),)]
    """
    kind, name = subject[0]
    if kind not in OF_TENANTS or name is None:
        return []
    parts = name.split("/", 2)
    found: list[Subject] = []
    if len(subject) > 1:
        found.append((subject[0],))
    if kind == "topic":
        found.append((("namespace", "/".join(parts[:2])),))
    if kind != "tenant":
        found.append((("tenant", parts[0]),))
    return found


def _checked(kind: str, name: str | None, field: str) -> str | None:
    at = f"{field}.{kind}"
    if name is None:
        return None
    if kind in {"cluster", "tenant"}:
        return checked_name(name, at)
    if kind == "namespace":
        tenant, slash, rest = name.partition("/")
        if not slash:
            raise Invalid(at, "expected tenant/namespace")
        return f"{checked_name(tenant, at)}/{checked_name(rest, at)}"
    if kind == "topic":
        return _checked_topic(name, at)
    return checked_path_name(name, at, longest=MAX_NAME)


def _checked_topic(name: str, at: str) -> str:
    """Return a topic's name as agents know it: tenant/namespace/topic."""
    plain = name.removeprefix(_SCHEME)
    parts = plain.split("/", 2)
    if len(parts) != 3:
        raise Invalid(at, "expected tenant/namespace/topic")
    for part in parts[:2]:
        checked_name(part, at)
    checked_path_name(parts[2], at)
    return checked_path_name(plain, at)
