"""Refuse what a changing request says in vain: its route would ignore it.

`?dryrun=true` in place of `?dry_run=true` would otherwise change what was only to be
looked at.
"""

from collections.abc import Iterable

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from headgate.api.values.errors import Invalid

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_NOTHING = frozenset({b"", b"{}", b"null"})
"""Bodies that say nothing; some clients send one with each request."""


async def refuse_undeclared(request: Request) -> None:
    """Check that the route of a changing request knows all that the request says.

    Raises:
        Invalid: It has a query parameter that the route does not declare, or a body
            where none is declared.
    """
    if request.method not in _CHANGING:
        return
    route: object = request.scope["route"]
    assert isinstance(route, APIRoute)
    extra = route.openapi_extra or {}
    known = _declared(route.dependant) | _named(extra.get("parameters", ()))
    named = ", ".join(sorted(known))
    for name in request.query_params:
        if name not in known:
            only = f"only {named}" if known else "nothing"
            raise Invalid(name, f"expected {only} in the query")
    if route.body_field is None and "requestBody" not in extra:
        body = await request.body()
        if body.strip() not in _NOTHING:
            elsewhere = f"; {named} goes into the query" if known else ""
            raise Invalid("body", f"expected none{elsewhere}")


def _declared(dependant: Dependant) -> frozenset[str]:
    """Return the query parameters of a route's function and of its dependencies."""
    own = frozenset(field.alias for field in dependant.query_params)
    return own.union(*(_declared(each) for each in dependant.dependencies))


def _named(parameters: Iterable[dict[str, object]]) -> frozenset[str]:
    """Return the query parameters that a route reads by itself."""
    return frozenset(str(each["name"]) for each in parameters if each["in"] == "query")
