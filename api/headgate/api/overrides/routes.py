"""REST routes of overrides."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate.api.http.dependencies import (
    AfterName,
    AuthorOf,
    PageSize,
    PreconditionOf,
    ServiceOf,
    TenantsOf,
    tell,
)
from headgate.api.overrides import service as overrides
from headgate.api.overrides.schemas import OverridePage, OverridePut, OverrideShown
from headgate.api.values.errors import NotFound

router = APIRouter(prefix="/overrides", tags=["overrides"])


@router.get("", summary="List overrides")
def list_overrides(
    service: ServiceOf,
    tenants: TenantsOf,
    group: Annotated[str | None, Query(max_length=256)] = None,
    after: AfterName = "",
    limit: PageSize = 100,
) -> OverridePage:
    """Return a page of the overrides in force, of all groups or of one."""
    with service.store.reading() as session:
        return overrides.list_overrides(
            session, after=after, limit=limit, group=group, tenants=tenants
        )


@router.put("", summary="Override a group's limits temporarily")
def put_override(
    body: OverridePut,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> OverrideShown:
    """Change a group's rate and burst until a given time, then revert."""
    with service.store.changing(author) as change:
        made = overrides.put_override(change, body, precondition)
    tell(response, change, of=made.revision)
    return made


@router.delete("", status_code=HTTPStatus.NO_CONTENT, summary="End an override")
def delete_override(
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
    group: Annotated[str, Query(max_length=256, examples=["gold"])],
    dimension: Annotated[
        str | None,
        Query(max_length=64, description="By default, the override of all dimensions."),
    ] = None,
) -> None:
    """End an override early."""
    with service.store.changing(author) as change:
        key = overrides.override_key(group, dimension)
        if not overrides.delete_override(change, key, precondition):
            raise NotFound("override", f"{group} {dimension or ''}".strip())
    tell(response, change)
