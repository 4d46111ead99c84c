"""REST routes of the live view: what is used now, by whom, and why so."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from headgate.api.groups.service import find_group
from headgate.api.http.dependencies import ServiceOf, TenantsOf
from headgate.api.live.schemas import (
    AgentsShown,
    ExplanationShown,
    LiveShown,
    SlotsShown,
    agents_shown,
    explanation_shown,
    live_shown,
    slots_shown,
)
from headgate.api.live.snapshot import cut_to
from headgate.api.observing.observing import observing_of
from headgate.api.rights.visibility import require_visible, visible_groups
from headgate.api.values.errors import Busy, NotFound

MAX_AGENTS = 1000
"""Most agents in one answer; metrics are for larger clusters."""

_UNREPORTED = (
    "its limit has scope node: each process enforces it on its own, so agents report "
    "no usage"
)

router = APIRouter(tags=["live"])


@router.get("/live", summary="Show all limits in use, with a row per agent")
def get_live(
    service: ServiceOf,
    tenants: TenantsOf,
    request: Request,
    group: Annotated[
        str | None, Query(max_length=256, description="Only this group.")
    ] = None,
) -> LiveShown:
    """Return the latest view of the cluster, at most a second old."""
    picture = observing_of(request).newest()
    if tenants is not None:
        with service.store.reading() as session:
            picture = cut_to(picture, visible_groups(session, tenants))
    return live_shown(picture, service.watch.revision, group=group)


@router.get("/agents", summary="Show the agents of the cluster")
def get_agents(service: ServiceOf, request: Request) -> AgentsShown:
    """Return all known agents, with the ages of their last reports."""
    picture = observing_of(request).newest()
    return agents_shown(picture, service.watch.revision, most=MAX_AGENTS)


@router.get("/groups/{name}/slots", summary="Show which agents hold slots")
def get_slots(
    name: Annotated[str, Path(description="The group's name.", examples=["gold"])],
    service: ServiceOf,
    tenants: TenantsOf,
    request: Request,
) -> SlotsShown:
    """Return how many slots of a group are held, by agent."""
    with service.store.reading() as session:
        require_visible(session, tenants, name)
        group = find_group(session, name)
        group_id, slots = group.id, group.slots
    observer = observing_of(request).observer
    if observer is None:
        raise Busy("the live view has not started yet")
    return slots_shown(name, slots, observer.slots(group_id))


@router.get("/groups/{name}/explain", summary="Explain the shares of a limit")
def get_explanation(
    name: Annotated[str, Path(description="The group's name.", examples=["gold"])],
    service: ServiceOf,
    tenants: TenantsOf,
    request: Request,
    dimension: Annotated[str, Query(max_length=64, examples=["requests"])],
) -> ExplanationShown:
    """Return every input of the shares, as this process computes them.

    Only for limits of scope cluster: agents report no usage of those of scope node.
    """
    with service.store.reading() as session:
        require_visible(session, tenants, name)
        group = find_group(session, name)
        group_id = group.id
        scopes = {x.scope for x in group.limits if x.dimension == dimension}
    if scopes == {"node"}:
        raise NotFound(f"live use of {dimension} ({_UNREPORTED})", None)
    observer = observing_of(request).observer
    if observer is None:
        raise Busy("the live view has not started yet")
    try:
        return explanation_shown(observer.explain(group_id, dimension))
    except KeyError:
        raise _unused(name, dimension, limited=bool(scopes)) from None


def _unused(group: str, dimension: str, *, limited: bool) -> NotFound:
    if limited:  # since a moment ago: the live view follows a change within a second
        return NotFound(f"live use of {dimension} in group", group)
    return NotFound(f"limit of {dimension} in group", group)
