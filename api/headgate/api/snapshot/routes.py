"""REST route of the snapshot: a blocking query on the revision."""

import asyncio
import json
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from headgate.api.http.dependencies import (
    MAX_PAGE,
    AfterName,
    PageSize,
    etag,
    principal_of,
)
from headgate.api.rights.principal import Principal
from headgate.api.snapshot.following import Following, FollowingOf
from headgate.api.snapshot.service import SnapshotText
from headgate.api.values.names import MAX_NAME
from headgate.api.values.quantities import MAX_ROW_ID

if TYPE_CHECKING:
    from headgate.api.levels.service import LevelBook

MAX_WAIT_S = 60.0
"""Longest wait; proxies drop connections that are silent for a minute or more."""

MAX_REST_S = 2.0
"""Longest time for which a caller may ask to be kept waiting in any case."""

_TELLERS = frozenset({"agent", "admin"})
"""Roles whose tokens may say that an agent is alive."""

_EVERYWHERE = b'"tcp://0.0.0.0:'
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,255}")

router = APIRouter(prefix="/snapshot", tags=["snapshot"])

_EXAMPLE = {
    "revision": 3,
    "cluster": "default",
    "bus": {
        "kind": "zeromq",
        "publish": "tcp://127.0.0.1:7410",
        "subscribe": "tcp://127.0.0.1:7411",
    },
    "report": {"interval_s": 1.0},
    "groups": [
        {
            "id": 1,
            "name": "gold",
            "limits": [
                {
                    "dimension": "requests",
                    "rate": 1000.0,
                    "burst": 1000.0,
                    "period_s": 1.0,
                    "period": None,
                    "time_zone": "UTC",
                    "scope": "cluster",
                    "minimum": 0.0,
                    "maximum": "unlimited",
                }
            ],
            "parent": None,
            "weight": 1.0,
            "mode": "balanced",
            "may_owe": True,
            "isolation": "fair",
            "refusal": "reject",
            "soft_threshold": None,
            "per_partition": False,
            "split": None,
            "slots": None,
            "per": None,
        }
    ],
    "attachments": [{"subject": {"tenant": "acme"}, "group": 1}],
}


_Revision = Annotated[
    int | None,
    Query(
        ge=0, le=MAX_ROW_ID, description="Answer only once there is a newer revision."
    ),
]
_At = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_ROW_ID,
        description="Return groups and attachments as this revision left them; "
        "`revision` in the answer is the first revision with that state.",
    ),
]
_Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="How long to wait for a newer revision, seconds.",
    ),
]
_Rest = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_REST_S,
        allow_inf_nan=False,
        description="How long to wait in any case before looking for one, seconds.",
    ),
]
_Agent = Annotated[
    str | None,
    Query(min_length=1, max_length=MAX_NAME, description="Id of the requesting agent."),
]
_Incarnation = Annotated[
    int, Query(ge=0, le=MAX_ROW_ID, description="Incarnation of that agent.")
]
_Alive = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_ROW_ID,
        description="`alive.version` that the caller last received, 0 at first; asks "
        "also which agents' processes are alive and which are gone.",
    ),
]
_Changes = Annotated[
    bool,
    Query(description="Answer with the changes since `revision` where possible."),
]


@router.get(
    "",
    summary="Fetch the configuration, or wait for a newer one",
    response_class=Response,
    responses={
        200: {
            "description": "The newest configuration.",
            "content": {"application/json": {"example": _EXAMPLE}},
        },
        304: {"description": "No newer revision than the given one."},
    },
)
async def get_snapshot(
    request: Request,
    following: FollowingOf,
    revision: _Revision = None,
    at: _At = None,
    wait_s: _Wait = 0.0,
    rest_s: _Rest = 0.0,
    agent: _Agent = None,
    incarnation: _Incarnation = 0,
    alive: _Alive = None,
    changes: _Changes = False,
    after: AfterName = "",
    limit: PageSize = MAX_PAGE,
) -> Response:
    """Return the newest configuration; wait while there is none newer.

    With `at`, a page of up to `limit` groups and attachments, and `next`.

    With `changes`, an answer with the member `since` holds only what has changed since
    that revision.  The answer is whole, without `since`, when too much has changed or
    that revision is not known.

    With `alive`, the answer has the member `alive`, and only that one if the caller
    already knows the newest configuration.  The member `levels` holds what is
    left of each limit, for agents that find no other agent to ask.
    """
    if at is not None:
        past = await run_in_threadpool(
            following.snapshots.past, at, after=after, limit=limit
        )
        return Response(past, media_type="application/json")
    if revision is None:
        return await _newest(request, following, alive)
    asking = _Asking(following, revision, alive)
    waiting = _while_connected(request, asking.news(wait_s, rest_s))
    if agent is None:
        found = await waiting
    else:
        teller = principal_of(request)
        found = await _while_present(following, teller, agent, incarnation, waiting)
    if not found:
        return Response(status_code=HTTPStatus.NOT_MODIFIED)
    if following.watch.revision == revision and alive is not None:
        told = json.dumps({"alive": following.presence.told()})
        return Response(told, media_type="application/json")
    changed = await _changes(following, revision) if changes else None
    return await _newest(request, following, alive, changed)


@dataclass(frozen=True, slots=True)
class _Asking:
    """One blocking query: what the caller knows already."""

    following: Following
    revision: int
    alive: int | None

    async def news(self, wait_s: float, rest_s: float) -> bool:
        """Rest, then wait for what the caller does not know; return if there is any."""
        await asyncio.sleep(rest_s)
        return await self.following.watch.beyond(
            self.revision, wait_s=wait_s, or_when=self._knows_not_who_lives
        )

    def _knows_not_who_lives(self) -> bool:
        return self.alive is not None and self.alive != self.following.presence.version


async def _while_present(
    following: Following,
    teller: Principal,
    agent: str,
    incarnation: int,
    waiting: Coroutine[object, object, bool | None],
) -> bool | None:
    """Await `waiting`; until it returns, the agent's process counts as alive.

    Only an agent's token, or an administrator's, may say so: others just wait.
    """
    if teller.role not in _TELLERS or not following.presence.began(
        agent, incarnation, teller.name
    ):
        return await waiting
    broken = True
    try:
        found = await waiting
        broken = found is None
    finally:
        following.presence.ended(agent, incarnation, broken=broken)
    return found


async def _changes(following: Following, since: int) -> SnapshotText | None:
    """Return what changed since then; None if the whole snapshot must be sent."""
    revision = following.watch.revision
    if since > revision:
        return None
    return await following.snapshots.changes(since, revision)


async def _newest(
    request: Request,
    following: Following,
    alive: int | None,
    changed: SnapshotText | None = None,
) -> Response:
    """Return the newest snapshot or the changes since; with liveness if requested."""
    snapshot = changed or await following.snapshots.at_least(following.watch.revision)
    more: dict[str, object] = {}
    if levels := await _levels(request, snapshot):
        more["levels"] = levels
    if alive is not None:
        more["alive"] = following.presence.told()
    body = _as_the_caller_names_us(request, snapshot.body)
    if more:
        body = body[:-1] + b"," + json.dumps(more)[1:].encode()
    return Response(
        body,
        media_type="application/json",
        headers={
            "ETag": etag(snapshot.revision),
            "Headgate-Revision": str(snapshot.revision),
        },
    )


async def _levels(request: Request, snapshot: SnapshotText) -> list[dict[str, object]]:
    """Return the levels of the limits in `snapshot`, as far as known."""
    observing = request.app.state.observing
    book = cast("LevelBook", observing.levels)
    watched = cast("bool", await observing.watching())
    return await run_in_threadpool(
        book.told, snapshot.revision, snapshot.groups, watched=watched
    )


def _as_the_caller_names_us(request: Request, body: bytes) -> bytes:
    """Return `body` with the bus at the host name that the caller used for us."""
    if _EVERYWHERE not in body:  # the bus does not listen on all addresses
        return body
    host = request.url.hostname or ""
    if not _HOST.fullmatch(host):
        return body
    shown = f"[{host}]" if ":" in host else host
    return body.replace(_EVERYWHERE, f'"tcp://{shown}:'.encode())


async def _while_connected(
    request: Request, waiting: Coroutine[object, object, bool]
) -> bool | None:
    """Await `waiting`; return None as soon as the client has gone."""
    answer = asyncio.ensure_future(waiting)
    parting = asyncio.ensure_future(_parted(request))
    try:
        await asyncio.wait({answer, parting}, return_when=asyncio.FIRST_COMPLETED)
        return await answer if answer.done() else None
    finally:
        answer.cancel()
        parting.cancel()


async def _parted(request: Request) -> None:
    """Wait until the other side of `request` closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
