"""The intake: bound every request's body in size, time and kind before all else.

Plain ASGI, outermost: what is refused here costs no parsing and no thread.
"""

import asyncio
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.http.problems import PULSAR_PREFIX, problem

MAX_BODY = 1024 * 1024
"""Bytes of a request's body; the largest group has some ten kB."""

MAX_APPLY_BODY = 32 * 1024 * 1024
"""Bytes of a bulk file: 100,000 attachments take about 10 MB."""

MAX_APPLIES = 1
"""Bulk files in memory at once; the store makes one change after the other anyway."""

MAX_DRAIN = 8 * 1024 * 1024
"""Bytes of an oversized body that are read and dropped, so that the caller gets to
read the answer; beyond that the connection is cut."""

BODY_TIMEOUT_S = 30.0
"""A body that takes longer is somebody holding a connection open."""

_BULK = frozenset({"/api/v1/apply", "/api/v1/delete"})
"""Paths that take files of quotas."""

_BULK_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")


class BodyLimits:
    """ASGI middleware that reads the body and refuses what can't be one."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app
        self._applies = asyncio.Semaphore(MAX_APPLIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"].rstrip("/") in _BULK:
            async with self._applies:
                await self._serve(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if len(path) > 1 and path.endswith("/"):
            scope["path"] = path = path[:-1]
        refusal = _refused_by_place(scope)
        body = b""
        if refusal is None and scope["method"] not in {"GET", "HEAD", "OPTIONS"}:
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    body, refusal = await _read(receive, _bound(path))
            except TimeoutError:
                refusal = (
                    HTTPStatus.REQUEST_TIMEOUT,
                    "the body did not arrive in time",
                )
            receive = _replayed(body, receive)
        if refusal is None and body:
            refusal = _refused_by_type(scope)
        if refusal is not None:
            status, reason = refusal
            headers = None if status == 415 else {"Connection": "close"}
            await problem(path, status, reason, headers=headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _bound(path: str) -> int:
    return MAX_APPLY_BODY if path in _BULK else MAX_BODY


def _refused_by_place(scope: Scope) -> tuple[int, str] | None:
    """Refuse NUL characters, which no name holds and PostgreSQL can't compare."""
    if "\0" in scope["path"]:
        return HTTPStatus.NOT_FOUND, "expected a path without NUL characters"
    if b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
        return HTTPStatus.BAD_REQUEST, "expected a query without NUL characters"
    return None


def _refused_by_type(scope: Scope) -> tuple[int, str] | None:
    """Refuse a body that is not JSON; Pulsar's paths decide for themselves."""
    path: str = scope["path"]
    if path.startswith(PULSAR_PREFIX):
        return None
    given = Headers(scope=scope).get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    if kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        return None
    if path in _BULK and kind in _BULK_TYPES:
        return None
    reason = "expected Content-Type application/json"
    return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason


async def _read(receive: Receive, bound: int) -> tuple[bytes, tuple[int, str] | None]:
    """Return the body, or why it is refused; read on a little past the bound."""
    body = bytearray()
    read = 0
    more = True
    while more and read <= bound + MAX_DRAIN:
        message = await receive()
        if message["type"] != "http.request":
            break
        part = message.get("body", b"")
        read += len(part)
        if read <= bound:
            body += part
        more = message.get("more_body", False)
    if read <= bound:
        return bytes(body), None
    reason = f"expected at most {bound} bytes"
    return b"", (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives `body` once, and then what the server sends."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
