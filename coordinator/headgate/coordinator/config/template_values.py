"""Template groups: one group of the configuration, a bucket for each value.

The group of one value is in no configuration: every process derives it, with the same
id, from the template's id and the value
(docs/decisions/0061-template-groups.md).  Template ids are never used again, so neither
are these.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Group

VALUES_FROM = 1 << 61
"""Smallest id of a value's group."""

VALUES_BELOW = 1 << 62
"""All such ids are below this; the difference of any two fits in 63 bits."""


def value_id(template_id: int, value: str) -> int:
    """Return the id of one value's group, which is the same in every process."""
    named = f"{template_id}:{value}".encode("utf-8", "surrogatepass")
    digest = int.from_bytes(blake2b(named, digest_size=8).digest())
    return VALUES_FROM | digest % VALUES_FROM


def value_name(template_name: str, value: str) -> str:
    """Return what decisions and metrics call a value's group."""
    return f"{template_name}[{value}]"


def value_group(template: Group, value: str) -> Group:
    """Return the group of one value: the template's limits, under its own id."""
    return replace(
        template,
        id=value_id(template.id, value),
        name=value_name(template.name, value),
        per=None,
        template=template.id,
    )
