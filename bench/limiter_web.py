"""What a middleware adds to a FastAPI request, called in process, without a network.

slowapi and fastapi-limiter bring their own integration.  The other peers have none:
they stand in the least middleware that there is, which asks them for one key.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from limiter_peers import PEERS, Peer
from starlette.middleware.base import BaseHTTPMiddleware

from headgate.agent.enforcer import Enforcer
from headgate.agent.integrations.asgi import LimitMiddleware
from headgate.coordinator.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

ROUNDS = 40
REQUESTS = 100
Module = Any


def _app() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, str]:
        return {"hello": "world"}

    return app


def _headgate(*, headers: bool) -> FastAPI:
    limit = Limit(dimension="requests", rate=1e9, burst=1e9, scope="node")
    enforcer = Enforcer(clock=time.monotonic)
    enforcer.configure(
        Configuration(
            revision=1,
            groups=(Group(id=1, name="g", limits=(limit,)),),
            attachments=(Attachment((("tenant", "a"),), 1),),
        ),
        time.monotonic(),
    )
    app = _app()
    app.add_middleware(
        LimitMiddleware,
        source=enforcer,
        subject=lambda _: "a",
        headers=headers,
    )
    return app


def _slowapi() -> FastAPI:
    slowapi: Module = import_module("slowapi")
    middleware: Module = import_module("slowapi.middleware")
    app = _app()
    app.state.limiter = slowapi.Limiter(
        key_func=lambda: "key", default_limits=["1000000000/second"]
    )
    app.add_middleware(middleware.SlowAPIASGIMiddleware)
    return app


def _fastapi_limiter() -> FastAPI:
    pyrate: Module = import_module("pyrate_limiter")
    depends: Module = import_module("fastapi_limiter.depends")

    async def identifier(_: object) -> str:
        return "key"

    limiter = pyrate.Limiter(pyrate.Rate(10**9, pyrate.Duration.SECOND))
    limited = depends.RateLimiter(limiter=limiter, identifier=identifier)
    app = FastAPI()

    @app.get("/", dependencies=[Depends(limited)])
    async def root() -> dict[str, str]:
        return {"hello": "world"}

    return app


def _least(peer: Peer) -> FastAPI:
    attempt = peer.make(10**9, 10**9)

    class Least:
        def __init__(self, app: Module) -> None:
            self.app = app

        async def __call__(self, scope: Module, receive: Module, send: Module) -> None:
            if attempt("key"):
                await self.app(scope, receive, send)

    app = _app()
    app.add_middleware(Least)
    return app


def _base() -> FastAPI:
    class Nothing(BaseHTTPMiddleware):
        async def dispatch(self, request: Module, call_next: Module) -> Module:
            return await call_next(request)

    app = _app()
    app.add_middleware(Nothing)
    return app


async def _request(app: FastAPI) -> None:
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: object) -> None:
        return None

    await app(scope, receive, send)


def web_table() -> str:
    """Return the rows: CPU time of a request, and what it is above none."""
    apps = {
        "no middleware": _app(),
        "headgate": _headgate(headers=False),
        "headgate with RateLimit headers": _headgate(headers=True),
        "an empty BaseHTTPMiddleware": _base(),
    }
    if find_spec("slowapi"):
        apps["slowapi (limits)"] = _slowapi()
    if find_spec("fastapi_limiter"):
        apps["fastapi-limiter (pyrate-limiter)"] = _fastapi_limiter()
    apps |= {peer.name: _least(peer) for peer in PEERS if peer.version}

    async def measure() -> dict[str, list[float]]:
        rounds: dict[str, list[float]] = {name: [] for name in apps}
        for _ in range(ROUNDS):
            for name, app in apps.items():
                before = time.thread_time_ns()
                for _ in range(REQUESTS):
                    await _request(app)
                rounds[name].append((time.thread_time_ns() - before) / REQUESTS)
        return rounds

    rounds = asyncio.run(measure())
    plain = rounds["no middleware"]
    rows = [
        "| FastAPI request, in process | CPU µs | requests/CPU s | above none |",
        "|---|---|---|---|",
    ]
    for name, times in rounds.items():
        ratio = statistics.median(t / p for t, p in zip(times, plain, strict=True))
        used = statistics.median(times)
        rows.append(
            f"| {name} | {used / 1e3:,.0f} | {1e9 / used:,.0f} | {ratio - 1:+.1%} |"
        )
    return "\n".join(rows)
