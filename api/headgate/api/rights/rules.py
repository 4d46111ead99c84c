"""The requests each role may make: whatever no rule allows is denied.

docs/roles.md has the same as a table.  The routes of `_CUT_TO_TENANTS` show an operator
of some tenants only what is theirs; reading anything else is denied.
"""

import re

from headgate.api.rights.principal import Principal

OPEN = frozenset({"/", "/healthz", "/docs", "/openapi.json"})
"""Paths without a secret: the page asks for a token before it shows anything."""

OPEN_FOLDER = "/static/"

TOKENS = "/api/v1/tokens"

LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_FOR_AGENTS = frozenset({"/api/v1/snapshot", "/metrics"})

GRANTS = "/api/v1/grants"
"""An agent asks there about limits that it begins to use."""

_FOR_LOOKERS = frozenset({"/api/v1/preview", "/api/v1/whoami"})
"""They change nothing, whatever the method."""

_OF_TENANT = re.compile(
    r"/api/v1/namespaces/(?P<a>[^/]+)/"
    r"|/admin/v2/(?:namespaces|persistent)/(?P<b>[^/]+)/"
    r"|/admin/v2/tenants/(?P<c>[^/]+)/resourcegroup"
)
"""Changes that belong to the tenant in their path."""

_LOOKS_OF_TENANT = re.compile(
    r"/api/v1/(?:tenants|namespaces)/(?P<a>[^/]+)(?:/.*)?"
    r"|/admin/v2/(?:tenants|namespaces|persistent)/(?P<b>[^/]+)(?:/.*)?"
)
"""Paths that operators of the tenant in the path may read."""

_CUT_TO_TENANTS = re.compile(
    r"/api/v1/(?:whoami|preview|attachments|policies|policies/effective|tenants"
    r"|audit|revisions/[^/]+|overview|live|events|overrides"
    r"|groups|groups/[^/]+|groups/[^/]+/(?:use|history|explain|slots))"
)
"""Routes that show a caller of some tenants only what is theirs."""

_CHECKED_BY_ROUTE = frozenset(
    {"/api/v1/attachments", "/api/v1/policies", "/api/v1/apply", "/api/v1/delete"}
)
"""Changes whose tenant is in the body or the query, where their routes check it."""


def is_open(path: str) -> bool:
    """Return whether `path` needs no token."""
    return path in OPEN or path.startswith(OPEN_FOLDER)


def may(principal: Principal, method: str, path: str) -> bool:
    """Return whether `principal` may call `method` on `path`."""
    if principal.role == "admin":
        return True
    if path == TOKENS or path.startswith(f"{TOKENS}/"):
        return False
    if principal.role == "agent":
        asks = method == "POST" and path == GRANTS
        return asks or (method in LOOKS and path in _FOR_AGENTS)
    if method in LOOKS or path in _FOR_LOOKERS:
        return principal.tenants is None or _may_look(principal.tenants, path)
    return (
        principal.role == "operator"
        and path != GRANTS
        and _may_operate(principal, path)
    )


def _may_look(tenants: frozenset[str], path: str) -> bool:
    if _CUT_TO_TENANTS.fullmatch(path):
        return True
    found = _LOOKS_OF_TENANT.fullmatch(path)
    return found is not None and _is_of(tenants, found)


def _may_operate(principal: Principal, path: str) -> bool:
    if principal.tenants is None or path in _CHECKED_BY_ROUTE:
        return True
    found = _OF_TENANT.match(path)
    return found is not None and _is_of(principal.tenants, found)


def _is_of(tenants: frozenset[str], found: re.Match[str]) -> bool:
    return any(tenant in tenants for tenant in found.groups() if tenant)
