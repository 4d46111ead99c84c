"""REST routes of attachments."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headgate.api.attachments import service as attachments
from headgate.api.attachments.schemas import (
    AttachmentPage,
    AttachmentPut,
    AttachmentShown,
)
from headgate.api.attachments.subjects import (
    checked_subject,
    subject_key,
    subject_of_query,
)
from headgate.api.http.dependencies import (
    AfterId,
    AuthorOf,
    PageSize,
    PreconditionOf,
    ServiceOf,
    TenantsOf,
    tell,
)
from headgate.api.values.errors import NotFound
from headgate.coordinator.config.configuration import SUBJECT_KINDS

router = APIRouter(prefix="/attachments", tags=["attachments"])

Filter = Annotated[str | None, Query(max_length=1024)]

_SUBJECT_QUERY: list[dict[str, object]] = [
    {
        "name": kind,
        "in": "query",
        "required": False,
        "schema": {"type": "string"},
        "description": "Name of that kind; empty for the default.",
    }
    for kind in SUBJECT_KINDS
]


@router.get("", summary="List attachments")
def list_attachments(
    service: ServiceOf,
    tenants: TenantsOf,
    kind: Filter = None,
    name: Filter = None,
    group: Filter = None,
    after: AfterId = 0,
    limit: PageSize = 100,
) -> AttachmentPage:
    """Return a page of attachments, all or those of a kind, a name, a group."""
    with service.store.reading() as session:
        return attachments.list_attachments(
            session,
            after=after,
            limit=limit,
            kind=kind,
            name=name,
            group=group,
            tenants=tenants,
        )


@router.put("", summary="Attach a subject to a group")
def put_attachment(
    body: AttachmentPut,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> AttachmentShown:
    """Attach a subject; it leaves the group that it belonged to before."""
    subject = checked_subject(body.subject)
    author.require_tenant_of(*subject[0])
    with service.store.changing(author) as change:
        attachment, is_new = attachments.put_attachment(
            change, subject, body.group, precondition
        )
    if is_new:
        response.status_code = HTTPStatus.CREATED
    tell(response, change, of=attachment.revision)
    return attachment


@router.delete(
    "",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Detach a subject",
    openapi_extra={"parameters": _SUBJECT_QUERY},
)
def delete_attachment(
    request: Request,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Detach the subject of the query, such as ``?tenant=acme``."""
    named = subject_of_query(request.query_params.multi_items())
    subject = checked_subject(named, "query")
    author.require_tenant_of(*subject[0])
    with service.store.changing(author) as change:
        if not attachments.delete_attachment(change, subject, precondition):
            raise NotFound("attachment", subject_key(subject))
    tell(response, change)
