"""REST routes of overrides."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from headgate.api.dependencies import AuthorOf, ServiceOf
from headgate.api.errors import NotFound
from headgate.api.overrides import service as overrides
from headgate.api.overrides.schemas import OverrideList, OverridePut, OverrideShown

router = APIRouter(prefix="/overrides", tags=["overrides"])


@router.get("", summary="List overrides")
def list_overrides(service: ServiceOf) -> OverrideList:
    """Return all overrides that are in force."""
    with service.store.reading() as session:
        return OverrideList(items=overrides.list_overrides(session))


@router.put("", summary="Override a group's limits for a while")
def put_override(
    body: OverridePut, service: ServiceOf, author: AuthorOf
) -> OverrideShown:
    """Change rate and burst of a group until a time; then they are as they were."""
    with service.store.changing(author) as change:
        return overrides.put_override(change, body)


@router.delete("", status_code=HTTPStatus.NO_CONTENT, summary="End an override")
def delete_override(
    service: ServiceOf,
    author: AuthorOf,
    group: Annotated[str, Query(max_length=256)],
    dimension: Annotated[str | None, Query(max_length=64)] = None,
) -> None:
    """End an override before its time."""
    with service.store.changing(author) as change:
        key = overrides.override_key(group, dimension)
        if not overrides.delete_override(change, key):
            raise NotFound("override", f"{group} {dimension or ''}".strip())
