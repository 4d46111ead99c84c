"""REST routes of resource groups."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Response

from headgate.api.groups import service as groups
from headgate.api.groups.schemas import (
    GroupPage,
    GroupPatch,
    GroupPost,
    GroupPut,
    GroupShown,
)
from headgate.api.http.dependencies import (
    AfterName,
    AuthorOf,
    PageSize,
    PreconditionOf,
    ServiceOf,
    TenantsOf,
    etag,
    revisions_of,
    tell,
)
from headgate.api.rights.visibility import require_visible, visible_groups
from headgate.api.values.errors import Invalid
from headgate.api.values.preconditions import Precondition

router = APIRouter(prefix="/groups", tags=["groups"])

Name = Annotated[str, Path(description="The group's name.", examples=["gold"])]


@router.get("", summary="List groups")
def list_groups(
    service: ServiceOf,
    tenants: TenantsOf,
    after: AfterName = "",
    limit: PageSize = 100,
) -> GroupPage:
    """Return a page of groups in order of their names."""
    with service.store.reading() as session:
        among = None if tenants is None else visible_groups(session, tenants)
        return groups.list_groups(session, after=after, limit=limit, among=among)


@router.post("", status_code=HTTPStatus.CREATED, summary="Create a group")
def create_group(
    body: GroupPost, service: ServiceOf, author: AuthorOf, response: Response
) -> GroupShown:
    """Create a group; 409 if the name is taken."""
    with service.store.changing(author) as change:
        group = groups.create_group(change, body.name, body)
    tell(response, change, of=group.revision)
    return group


@router.get("/{name}", summary="Show a group")
def get_group(
    name: Name,
    service: ServiceOf,
    tenants: TenantsOf,
    response: Response,
    if_none_match: Annotated[str | None, Header()] = None,
) -> GroupShown:
    """Return a group; 304 if it still matches the given ETag."""
    with service.store.reading() as session:
        require_visible(session, tenants, name)
        group = groups.get_group(session, name)
    response.headers["ETag"] = etag(group.revision)
    if if_none_match is not None and group.revision in revisions_of(if_none_match):
        response.status_code = HTTPStatus.NOT_MODIFIED
    return group


@router.put("/{name}", summary="Create or replace a group")
def put_group(
    name: Name,
    body: GroupPut,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> GroupShown:
    """Create or replace a group; a `revision` in the body acts as If-Match."""
    if body.name not in {None, name}:
        raise Invalid("name", "expected the name in the path; it can't be changed")
    if body.revision is not None and precondition.revisions is None:
        precondition = Precondition(
            revisions=frozenset({body.revision}), exists=precondition.exists
        )
    with service.store.changing(author) as change:
        group, is_new = groups.put_group(change, name, body, precondition)
    if is_new:
        response.status_code = HTTPStatus.CREATED
    tell(response, change, of=group.revision)
    return group


@router.patch("/{name}", summary="Change a group")
def patch_group(
    name: Name,
    patch: GroupPatch,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> GroupShown:
    """Change what the body names; limits are merged by dimension and scope."""
    with service.store.changing(author) as change:
        group = groups.patch_group(change, name, patch, precondition)
    tell(response, change, of=group.revision)
    return group


@router.delete("/{name}", status_code=HTTPStatus.NO_CONTENT, summary="Delete a group")
def delete_group(
    name: Name,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Delete a group; 409 while it has attachments or child groups."""
    with service.store.changing(author) as change:
        groups.delete_group(change, name, precondition)
    tell(response, change)
