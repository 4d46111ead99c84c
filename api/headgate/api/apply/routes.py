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
    """Bring everything that the file names into its state, all of it or nothing.

    Doing it again changes nothing.  An operator of some tenants may name what they
    may change one by one: attachments, policies and namespaces of these tenants.
    """
    with service.store.changing(author, dry_run=dry_run) as change:
        changes = apply_quotas(change, quotas, author)
        revision = change.revision - 1 if dry_run else change.reached
    response.headers["Headgate-Revision"] = str(revision)
    return ApplyPlan(revision=revision, dry_run=dry_run, changes=changes)


@router.post(
    "/delete", summary="Delete what a file of quotas names", openapi_extra=_BODY
)
def delete_file(
    quotas: Annotated[Quotas, Depends(quotas_of)],
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
    dry_run: Annotated[bool, Query(description="Only show the plan.")] = False,
) -> ApplyPlan:
    """Delete everything that the file names and that exists, all of it or nothing.

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
    """Return a file which, applied to an empty server, gives the same configuration.

    It holds everything but tokens, as of one revision.
    """
    with service.store.reading() as session:
        return exported(session)
