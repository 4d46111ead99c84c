"""Dependencies of routes: the service's parts, the author, paging, preconditions."""

import re
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Header, Query, Request, Response

from headgate.api.http.guard import PRINCIPAL
from headgate.api.rights.principal import ANYONE, Principal
from headgate.api.store import Author, Change, Store
from headgate.api.values.preconditions import Precondition
from headgate.api.values.quantities import MAX_ROW_ID
from headgate.api.watch import RevisionWatch

MAX_PAGE = 1000
"""Items of one page: some hundred kB of JSON."""

MAX_REVISION_DIGITS = len(str(MAX_ROW_ID))
"""A longer ETag names no revision, and `int` refuses thousands of digits."""


_ADDRESS = re.compile(r"[\w.:%\[\]-]{1,64}", re.ASCII)
"""Addresses, and names such as ``testclient``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of one running service.

    Attributes:
        store: The database.
        watch: Requests that wait for the next revision.
    """

    store: Store
    watch: RevisionWatch


def service_of(request: Request) -> Service:
    """Return the service that the application was made for."""
    return cast("Service", request.app.state.service)


def author_of(request: Request) -> Author:
    """Return the caller's name as the audit records it."""
    address = request.client.host if request.client is not None else "local"
    if not _ADDRESS.fullmatch(address):  # a trusted proxy passed on a client's text
        address = "unknown"
    principal = principal_of(request)
    return Author(
        name=principal.name,
        address=address,
        action=f"{request.method} {request.url.path}",
        tenants=principal.tenants,
    )


def principal_of(request: Request) -> Principal:
    """Return whose token came with the request."""
    return cast("Principal", request.scope.get(PRINCIPAL, ANYONE))


def tenants_of(request: Request) -> frozenset[str] | None:
    """Return whose things the caller may see; None for everybody's."""
    return principal_of(request).tenants


def precondition_of(
    if_match: Annotated[
        str | None,
        Header(description="ETag that you read; 412 if it has changed since."),
    ] = None,
    if_none_match: Annotated[
        str | None, Header(description="* to create it only if it does not exist.")
    ] = None,
) -> Precondition:
    """Return what the request's headers say about the thing to be changed."""
    exists = False if if_none_match and if_none_match.strip() == "*" else None
    if if_match is None:
        return Precondition(exists=exists)
    if if_match.strip() == "*":
        return Precondition(exists=True)
    return Precondition(revisions=revisions_of(if_match), exists=exists)


def etag(revision: int) -> str:
    """Return the ETag of a thing that `revision` last changed."""
    return f'"{revision}"'


def revisions_of(etags: str) -> frozenset[int]:
    """Return the revisions in a list of ETags; those that name none are left out.

    A proxy that compresses answers makes ETags weak, as in ``W/"7"``; compressed or
    not, revision 7 of a thing is the same.
    """
    tags = (tag.strip().removeprefix("W/").strip('"') for tag in etags.split(","))
    return frozenset(int(tag) for tag in tags if _is_revision(tag))


def tell(response: Response, change: Change, *, of: int | None = None) -> None:
    """Put the reached revision, and the ETag `of` a thing, into the headers."""
    response.headers["Headgate-Revision"] = str(change.reached)
    if of is not None:
        response.headers["ETag"] = etag(of)


def _is_revision(tag: str) -> bool:
    return tag.isascii() and tag.isdecimal() and len(tag) <= MAX_REVISION_DIGITS


ServiceOf = Annotated[Service, Depends(service_of)]
AuthorOf = Annotated[Author, Depends(author_of)]
TenantsOf = Annotated[frozenset[str] | None, Depends(tenants_of)]
PreconditionOf = Annotated[Precondition, Depends(precondition_of)]
AfterName = Annotated[
    str, Query(max_length=1024, description="`next` of the previous page.")
]
AfterId = Annotated[
    int, Query(ge=0, le=MAX_ROW_ID, description="`next` of the previous page.")
]
PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items per page.")]
