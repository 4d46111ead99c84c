"""What a middleware adds to a FastAPI request, called in process, without a network."""

from __future__ import annotations

import asyncio
import statistics
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
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

ROUNDS = 15
REQUESTS = 150
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
        apps["slowapi"] = _slowapi()

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
        "| FastAPI request, in process | CPU µs | above none |",
        "|---|---|---|",
    ]
    for name, times in rounds.items():
        ratio = statistics.median(t / p for t, p in zip(times, plain, strict=True))
        rows.append(
            f"| {name} | {statistics.median(times) / 1e3:,.0f} | {ratio - 1:+.1%} |"
        )
    return "\n".join(rows)
