"""REST route of grants."""

import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request

from headgate.api.grants.schemas import Claimed, GrantShown, LevelTold
from headgate.api.grants.service import grant
from headgate.api.http.dependencies import ServiceOf
from headgate.api.observing.observing import observing_of

if TYPE_CHECKING:
    from headgate.agent.observer import Observer

FOLLOWS_WITHIN_S = 0.5
"""How long a claim waits until the listener knows the newest limits."""

LOOKS_S = 0.01
"""Time between two checks whether it does."""

router = APIRouter(tags=["snapshot"])


@router.post("/grants", summary="Ask about limits that an agent begins to use")
def post_grants(body: Claimed, service: ServiceOf, request: Request) -> GrantShown:
    """Grant the calling agent the strict limits that nobody has founded; tell levels.

    Each limit is granted once, and only while this server has listened on the bus since
    before the limit was made.  The agent finds it full, and divides it with the others.

    Levels are told as this server sees them now or as they were stored; a limit that
    was never used is full, if this server would have noticed.
    """
    observing, revision = observing_of(request), service.watch.revision
    listener = observing.observer
    follows = listener is not None and _follows(listener, revision)
    wanted = {(limit.group, limit.dimension) for limit in body.limits}
    told = observing.levels.of(
        wanted, revision, body.agent, watched=observing.watches()
    )
    levels = [LevelTold.model_validate(level) for level in told]
    if listener is None or not follows:
        return GrantShown(granted=[], levels=levels)
    founded_by_nobody = [
        limit
        for limit in body.limits
        if listener.grantable(limit.group, limit.dimension, body.agent)
    ]
    granted = grant(service.store, founded_by_nobody)
    return GrantShown(granted=granted, levels=levels)


def _follows(listener: "Observer", revision: int) -> bool:
    """Wait until a listener knows the limits of a revision; return whether it does."""
    if listener.revision >= revision:
        return True
    listener.follow()
    until_s = time.monotonic() + FOLLOWS_WITHIN_S
    while listener.revision < revision:
        if time.monotonic() > until_s:
            return False
        time.sleep(LOOKS_S)
    return True
