"""REST routes of the audit and of going back."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from headgate.api.audit import service as audit
from headgate.api.audit.schemas import AuditEntry, AuditPage, RolledBack
from headgate.api.http.dependencies import (
    MAX_PAGE,
    AuthorOf,
    PageSize,
    ServiceOf,
    TenantsOf,
)
from headgate.api.values.quantities import MAX_ROW_ID

router = APIRouter(tags=["audit"])

Filter = Annotated[str | None, Query(max_length=2048)]
TimeQuery = Annotated[
    float | None,
    Query(
        allow_inf_nan=False,
        description="Seconds since the epoch; changes at that time are included.",
    ),
]
Number = Annotated[
    int, Path(ge=0, le=MAX_ROW_ID, description="Number of the revision.")
]


@router.get("/audit", summary="List changes, newest first")
def list_entries(
    service: ServiceOf,
    tenants: TenantsOf,
    kind: Filter = None,
    key: Filter = None,
    author: Filter = None,
    since: TimeQuery = None,
    until: TimeQuery = None,
    before: Annotated[
        int, Query(ge=0, le=MAX_ROW_ID, description="`next` of the previous page.")
    ] = MAX_ROW_ID,
    limit: PageSize = 50,
) -> AuditPage:
    """Return changes: who made them, when and from where."""
    with service.store.reading() as session:
        return audit.list_entries(
            session,
            before=before,
            limit=limit,
            kind=kind,
            key=key,
            author=author,
            since_s=since,
            until_s=until,
            tenants=tenants,
        )


@router.get("/revisions/{revision}", summary="Show a revision's change")
def get_entry(
    revision: Number,
    service: ServiceOf,
    tenants: TenantsOf,
    after: Annotated[
        int, Query(ge=0, le=MAX_ROW_ID, description="Number of changes to skip.")
    ] = 0,
    limit: PageSize = MAX_PAGE,
) -> AuditEntry:
    """Return what a revision changed; `omitted` counts the changes that follow."""
    with service.store.reading() as session:
        return audit.get_entry(
            session, revision, after=after, limit=limit, tenants=tenants
        )


@router.post("/revisions/{revision}/rollback", summary="Go back to a revision")
def roll_back(
    revision: Number,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
    dry_run: Annotated[bool, Query(description="Only show what would change.")] = False,
) -> RolledBack:
    """Restore the state that a revision left, as a new revision."""
    with service.store.changing(author, dry_run=dry_run) as change:
        changes = audit.roll_back(change, revision)
    reached = change.revision - 1 if dry_run else change.reached
    response.headers["Headgate-Revision"] = str(reached)
    return RolledBack(revision=reached, dry_run=dry_run, changes=changes)
