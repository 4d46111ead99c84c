"""REST routes of tokens."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request

from headgate.api.http.dependencies import (
    AfterId,
    AuthorOf,
    PageSize,
    ServiceOf,
    principal_of,
)
from headgate.api.rights import tokens
from headgate.api.rights.schemas import TokenMade, TokenPage, TokenPost, Whoami
from headgate.api.values.quantities import MAX_ROW_ID

router = APIRouter(tags=["rights"])


@router.get("/whoami", summary="Show whose token this is")
def whoami(request: Request) -> Whoami:
    """Return the caller's name, role and tenants."""
    principal = principal_of(request)
    tenants = None if principal.tenants is None else sorted(principal.tenants)
    return Whoami(name=principal.name, role=principal.role, tenants=tenants)


@router.get("/tokens", summary="List tokens")
def list_tokens(
    service: ServiceOf, after: AfterId = 0, limit: PageSize = 100
) -> TokenPage:
    """Return a page of opaque tokens, without their secrets."""
    with service.store.reading() as session:
        return tokens.list_tokens(session, after=after, limit=limit)


@router.post("/tokens", status_code=HTTPStatus.CREATED, summary="Create a token")
def make_token(body: TokenPost, service: ServiceOf, author: AuthorOf) -> TokenMade:
    """Create a token; its text appears in this response and never again."""
    with service.store.changing(author) as change:
        text, shown = tokens.make_token(
            change, body.name, body.role, tenants=body.tenants, life_s=body.life_s
        )
    return TokenMade(**shown.model_dump(), token=text)


@router.delete(
    "/tokens/{number}", status_code=HTTPStatus.NO_CONTENT, summary="Delete a token"
)
def delete_token(
    number: Annotated[int, Path(ge=0, le=MAX_ROW_ID)],
    service: ServiceOf,
    author: AuthorOf,
) -> None:
    """Revoke a token, effective at once."""
    with service.store.changing(author) as change:
        tokens.delete_token(change, number)
