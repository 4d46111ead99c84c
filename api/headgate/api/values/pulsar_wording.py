"""Pulsar's own words for refusals: scripts look for them."""

from headgate.api.values.errors import AlreadyExists, InUse, NotFound, Refused

GROUP_MISSING = "ResourceGroup does not exist"
CLUSTER_MISSING = "Cluster does not exist"
NAMESPACE_MISSING = "Namespace does not exist"
POLICIES_MISSING = "Namespace policies does not exist"
"""Pulsar's error for a missing namespace whose policies are to be changed."""

_MISSING = {
    "group": GROUP_MISSING,
    "tenant": "Tenant does not exist",
    "namespace": NAMESPACE_MISSING,
}
_PRESENT = {
    "tenant": "Tenant already exist",
    "namespace": "Namespace already exists",
}
_IN_USE = {
    "group": "ResourceGroup is in use",
    "tenant": "The tenant still has active namespaces",
}


def pulsar_reason(refusal: Refused) -> str:
    """Return what Pulsar says where it has words, else our own reason."""
    if isinstance(refusal, NotFound):
        return _MISSING.get(refusal.thing, refusal.reason)
    if isinstance(refusal, AlreadyExists):
        return _PRESENT.get(refusal.thing, refusal.reason)
    if isinstance(refusal, InUse):
        return _IN_USE.get(refusal.thing, refusal.reason)
    return refusal.reason
