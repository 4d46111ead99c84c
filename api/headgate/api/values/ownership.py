"""The tenant that owns an object, by its kind and key as in the audit."""

import json
from collections.abc import Mapping
from typing import cast

OF_TENANTS = frozenset({"tenant", "namespace", "topic"})
"""Kinds of subjects whose names begin with their tenant's."""


def tenant_of_subject(kind: str, name: str | None) -> str | None:
    """Return the tenant that the subject `name` of `kind` belongs to.

    >>> tenant_of_subject("topic", "acme/orders/new")
    'acme'
    >>> tenant_of_subject("user", "alice") is None
    True
    """
    if kind not in OF_TENANTS or name is None:
        return None
    return name.split("/", 1)[0]


def tenant_of(kind: str, key: str, document: Mapping[str, object]) -> str | None:
    """Return the tenant that owns an object; None if no single tenant does."""
    if kind == "attachment":
        named = cast("dict[str, str | None]", json.loads(key))
        return tenant_of_subject(*next(iter(named.items())))
    if kind == "policy":
        level, target, _ = cast("list[str]", json.loads(key))
        return tenant_of_subject(level, target)
    if kind in OF_TENANTS:
        return tenant_of_subject(kind, key)
    owner = document.get("owner") if kind == "group" else None
    return owner if isinstance(owner, str) else None
