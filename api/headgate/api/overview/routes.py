"""REST routes of what is going on now: all limits at a glance, one group's use."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Query, Request

from headgate.api.groups.service import find_group
from headgate.api.http.dependencies import Service, ServiceOf, TenantsOf
from headgate.api.live.snapshot import ClusterSnapshot
from headgate.api.overview.entries import Standing
from headgate.api.overview.overview import MAX_WINDOW, Look, Overview, Sort
from headgate.api.overview.schemas import (
    GroupUseShown,
    OverviewShown,
    TenantLimitsShown,
    group_use_shown,
    overview_shown,
    tenant_limits_shown,
)
from headgate.api.overview.tenant_limits import TenantLook, groups_of_tenant
from headgate.api.rights.visibility import require_visible

MAX_OFFSET = 10_000_000
"""Upper bound on `offset`, far above the number of rows there can be."""

router = APIRouter(tags=["live"])


def look_of(
    search: Annotated[
        str, Query(max_length=256, description="Part of a group's name or dimension.")
    ] = "",
    standing: Annotated[
        Standing | None, Query(description="Only limits in this state.")
    ] = None,
    sort: Annotated[
        Sort, Query(description="standing: limits in state over or near come first.")
    ] = "standing",
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_WINDOW, description="Rows.")] = 60,
) -> Look:
    """Return the window of rows that the query asks for."""
    return Look(search=search, standing=standing, sort=sort, offset=offset, limit=limit)


LookOf = Annotated[Look, Depends(look_of)]


@router.get("/overview", summary="Show all limits at a glance")
def get_overview(look: LookOf, tenants: TenantsOf, request: Request) -> OverviewShown:
    """Return a window of the matching limits, with their present use."""
    window = _overview(request).window(look, tenants)
    return overview_shown(window, look.offset)


@router.get("/tenants/{tenant}/limits", summary="Show what limits a tenant now")
def get_tenant_limits(
    tenant: Annotated[str, Path(description="The tenant's name.", examples=["acme"])],
    service: ServiceOf,
    request: Request,
    search: Annotated[
        str, Query(max_length=256, description="Part of a namespace's name.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_WINDOW, description="Namespaces.")] = 50,
) -> TenantLimitsShown:
    """Return the groups that apply to a tenant and its namespaces, with their use."""
    look = TenantLook(tenant=tenant, search=search, offset=offset, limit=limit)
    return tenant_limits(service, _overview(request), look)


def tenant_limits(
    service: Service, overview: Overview, look: TenantLook
) -> TenantLimitsShown:
    """Return what `look` shows now; reads the database, so don't call it on a loop.

    Raises:
        NotFound: There is no such tenant.
    """
    with service.store.reading() as session:
        found = groups_of_tenant(session, look)
    return tenant_limits_shown(found, overview.of_groups(found.groups()), look.offset)


@router.get("/groups/{name}/use", summary="Show which agents use a group now")
def get_group_use(
    name: Annotated[str, Path(description="The group's name.", examples=["gold"])],
    service: ServiceOf,
    tenants: TenantsOf,
    request: Request,
) -> GroupUseShown:
    """Return each limit of the group that is in use, with a row per agent."""
    with service.store.reading() as session:
        require_visible(session, tenants, name)
        find_group(session, name)
    picture = _newest(request)
    return group_use_shown(name, service.watch.revision, picture)


def _overview(request: Request) -> Overview:
    """Return the overview of what the application of `request` sees."""
    return cast("Overview", request.app.state.observing.overview)


def _newest(request: Request) -> ClusterSnapshot | None:
    """Return the newest picture; None before the first."""
    return cast("ClusterSnapshot | None", request.app.state.observing.newest())
