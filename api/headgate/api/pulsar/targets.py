"""Names of tenants, namespaces and topics from the parts of Pulsar's paths."""

from collections.abc import Callable

NameOf = Callable[..., str]
"""A dependency that joins the parts of a path to a full name."""


def tenant_name(tenant: str) -> str:
    """Return the tenant's name."""
    return tenant


def namespace_name(tenant: str, namespace: str) -> str:
    """Return `tenant/namespace`."""
    return f"{tenant}/{namespace}"


def topic_name(tenant: str, namespace: str, topic: str) -> str:
    """Return `tenant/namespace/topic`."""
    return f"{tenant}/{namespace}/{topic}"
