"""The route of server-sent events: one stream per open page.

A stream has no queue: each second it sends the newest state, so that a slow reader
misses states rather than falling behind.  A new revision is sent at once.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from importlib.metadata import version
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.api.groups.service import find_group
from headgate.api.http.dependencies import Service, ServiceOf, TenantsOf
from headgate.api.live.schemas import agents_shown
from headgate.api.observing.observing import Observing, observing_of
from headgate.api.observing.routes import MAX_AGENTS
from headgate.api.overview.routes import LookOf, tenant_limits
from headgate.api.overview.schemas import group_use_shown, overview_shown
from headgate.api.overview.tenant_limits import TenantLook
from headgate.api.rights.visibility import Tenants, require_visible
from headgate.api.values.errors import Busy, Forbidden, NotFound

INTERVAL_S = 1.0
"""Time between two pictures on a stream: as fast as an eye can follow."""

MAX_STREAMS = 256
"""Streams at once; each costs a task, a socket and some ms of work a second."""

RETRY_MS = 1000
"""Reconnection delay sent to `EventSource`, milliseconds."""

LEAST_GAP_S = 0.1
"""Least time between two events of a stream, even while a script makes revisions."""

router = APIRouter(tags=["live"])

_log = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy in between may cache or buffer events."""


@router.get(
    "/events",
    summary="Follow the overview, or one group, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def get_events(
    request: Request,
    service: ServiceOf,
    look: LookOf,
    tenants: TenantsOf,
    view: Annotated[
        Literal["overview", "agents"], Query(description="What to follow.")
    ] = "overview",
    group: Annotated[
        str | None, Query(max_length=256, description="Follow this group's use.")
    ] = None,
    tenant: Annotated[
        str | None,
        Query(
            max_length=256,
            description="Follow what limits this tenant and those of its namespaces "
            "that `search`, `offset` and `limit` select.",
        ),
    ] = None,
) -> StreamingResponse:
    """Send `hello`, then each new `revision` at once, and the view every second.

    The view is an event `overview`, `agents`, `group` or `tenant`.  When the followed
    group or tenant is deleted, the last event is `gone`.
    """
    observing = observing_of(request)

    def overview() -> BaseModel:
        return overview_shown(observing.overview.window(look, tenants), look.offset)

    def agents() -> BaseModel:
        revision = service.watch.revision
        return agents_shown(observing.newest(), revision, most=MAX_AGENTS)

    if tenant is not None:
        if tenants is not None and tenant not in tenants:
            raise Forbidden(f"{tenant!r} is not one of the caller's tenants")
        window = TenantLook(
            tenant=tenant, search=look.search, offset=look.offset, limit=look.limit
        )
        limits = partial(tenant_limits, service, observing.overview, window)
        await run_in_threadpool(limits)  # an unknown tenant is refused at once
        stream = _stream(service, "tenant", limits)
    elif group is not None:
        await run_in_threadpool(_require_group, service, tenants, group)
        stream = _stream(service, "group", _use_of(service, observing, group))
    elif view == "agents":
        if tenants is not None:
            raise Forbidden(
                "agents serve all tenants; only an unrestricted caller may list them"
            )
        stream = _stream(service, "agents", agents)
    else:
        stream = _stream(service, "overview", overview)
    return _CountedStream(observing, stream)


class _CountedStream(StreamingResponse):
    """A stream that counts from its request on, before its first event is sent."""

    def __init__(self, observing: Observing, stream: AsyncGenerator[str]) -> None:
        if observing.streams >= MAX_STREAMS:
            raise Busy(f"{MAX_STREAMS} event streams are already open on this server")
        super().__init__(stream, media_type="text/event-stream", headers=_HEADERS)
        self._observing = observing
        observing.streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the reader disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._observing.streams -= 1


def _use_of(
    service: Service, observing: Observing, group: str
) -> Callable[[], BaseModel]:
    """Return a function that shows the use of `group`, or raises NotFound.

    It reads the database only after a change, which may have deleted the group.
    """
    looked_at = -1

    def use() -> BaseModel:
        nonlocal looked_at
        revision = service.watch.revision
        if revision != looked_at:
            _require_group(service, None, group)
            looked_at = revision
        return group_use_shown(group, revision, observing.newest())

    return use


def _require_group(service: Service, tenants: Tenants, group: str) -> None:
    with service.store.reading() as session:
        require_visible(session, tenants, group)
        find_group(session, group)


async def _stream(
    service: Service, kind: str, show: Callable[[], BaseModel]
) -> AsyncGenerator[str]:
    """Yield events until the reader disconnects or the server stops."""
    watch = service.watch
    revision = watch.revision
    yield f"retry: {RETRY_MS}\n\n"
    yield _event("hello", {"version": version("headgate"), "revision": revision})
    while not watch.closed:
        told = time.monotonic()
        try:
            shown = await run_in_threadpool(show)
            yield f"event: {kind}\ndata: {shown.model_dump_json()}\n\n"
        except OperationalError as error:
            _log.error("an event stream has a gap: database error: %s", error)
            yield _event("gap", {"detail": "the database does not answer"})
        except NotFound as error:
            yield _event("gone", {"detail": error.reason})
            return
        if await watch.beyond(revision, wait_s=INTERVAL_S):
            revision = watch.revision
            yield _event("revision", {"revision": revision})
            await asyncio.sleep(max(0.0, told + LEAST_GAP_S - time.monotonic()))


def _event(kind: str, content: dict[str, object]) -> str:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n"
