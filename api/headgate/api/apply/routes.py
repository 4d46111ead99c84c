"""REST route of bulk apply."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headgate.api.apply.export import exported
from headgate.api.apply.reading import quotas_of
from headgate.api.apply.schemas import ApplyPlan, Quotas
from headgate.api.apply.service import apply_quotas, delete_quotas
from headgate.api.http.dependencies import AuthorOf, ServiceOf

router = APIRouter(tags=["apply"])

_SCHEMA = Quotas.model_json_schema(ref_template="#/components/schemas/{model}")
_SCHEMA.pop("$defs", None)

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": _SCHEMA, "example": _SCHEMA["examples"][0]}
            for kind in ("application/json", "application/yaml")
        },
    }
}


@router.post("/apply", summary="Apply a file of quotas", openapi_extra=_BODY)
def apply_file(
    quotas: Annotated[Quotas, Depends(quotas_of)],
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
    dry_run: Annotated[bool, Query(description="Only show the plan.")] = False,
) -> ApplyPlan:
    """Bring everything that the file names into the described state, or change nothing.

    Applying the same file again changes nothing.  A tenant's operator may name only
    what they could also change one by one: the tenant's attachments, policies and
    namespaces.
    """
    with service.store.changing(author, dry_run=dry_run) as change:
        changes = apply_quotas(change, quotas, author)
        revision = change.revision - 1 if dry_run else change.reached
    response.headers["Headgate-Revision"] = str(revision)
    return ApplyPlan(revision=revision, dry_run=dry_run, changes=changes)


@router.post(
    "/delete", summary="Delete everything in a file of quotas", openapi_extra=_BODY
)
def delete_file(
    quotas: Annotated[Quotas, Depends(quotas_of)],
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
    dry_run: Annotated[bool, Query(description="Only show the plan.")] = False,
) -> ApplyPlan:
    """Delete everything in the file that exists, or change nothing.

    Only names count: what the file says about a thing does not matter, except that an
    attachment stays if its subject belongs to another group.
    """
    with service.store.changing(author, dry_run=dry_run) as change:
        changes = delete_quotas(change, quotas, author)
        revision = change.revision - 1 if dry_run else change.reached
    response.headers["Headgate-Revision"] = str(revision)
    return ApplyPlan(revision=revision, dry_run=dry_run, changes=changes)


@router.get("/export", summary="The configuration as a file of quotas")
def export_file(service: ServiceOf) -> dict[str, object]:
    """Return a file that gives an empty server the same configuration when applied.

    It holds everything but tokens, all from the same revision.
    """
    with service.store.reading() as session:
        return exported(session)
