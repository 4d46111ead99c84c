"""Which role may ask what: everything that no rule allows is denied."""

import re

from headgate.api.rights.principal import Principal

OPEN = frozenset({"/", "/healthz", "/docs", "/openapi.json"})
"""Paths without a secret: the page asks for a token before it shows anything."""

OPEN_FOLDER = "/static/"

TOKENS = "/api/v1/tokens"

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})

_FOR_AGENTS = frozenset({"/api/v1/snapshot", "/metrics"})

_FOR_LOOKERS = frozenset({"/api/v1/preview", "/api/v1/whoami"})
"""Nothing is changed there, though it is asked by POST."""

_OF_TENANT = re.compile(
    r"/api/v1/namespaces/(?P<a>[^/]+)/"
    r"|/admin/v2/(?:namespaces|persistent)/(?P<b>[^/]+)/"
    r"|/admin/v2/tenants/(?P<c>[^/]+)/resourcegroup"
)
"""Changes that belong to the tenant in their path."""

_CHECKED_BY_ROUTE = frozenset(
    {"/api/v1/attachments", "/api/v1/policies", "/api/v1/apply"}
)
"""Changes whose tenant stands in the body or the query; their routes look."""


def is_open(path: str) -> bool:
    """Tell whether `path` needs no token."""
    return path in OPEN or path.startswith(OPEN_FOLDER)


def may(principal: Principal, method: str, path: str) -> bool:
    """Tell whether `principal` may ask `method` of `path`."""
    if principal.role == "admin":
        return True
    if path == TOKENS or path.startswith(f"{TOKENS}/"):
        return False
    if principal.role == "agent":
        return method in _LOOKS and path in _FOR_AGENTS
    if method in _LOOKS or path in _FOR_LOOKERS:
        return True
    return principal.role == "operator" and _may_operate(principal, path)


def _may_operate(principal: Principal, path: str) -> bool:
    if principal.tenants is None or path in _CHECKED_BY_ROUTE:
        return True
    found = _OF_TENANT.match(path)
    if found is None:
        return False
    return any(tenant in principal.tenants for tenant in found.groups() if tenant)
