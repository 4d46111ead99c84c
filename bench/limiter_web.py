"""What a middleware adds to a FastAPI request, called in process, without a network.

::

    python bench/limiter_web.py                Headgate with and without headers
    python bench/limiter_web.py --peers        the others too
    python bench/limiter_web.py --rounds 500   closer, where the machine is busy

slowapi and fastapi-limiter bring their own integration.  The other peers have none:
they run in a minimal middleware, which asks them for one key.  For comparison with
Headgate there are two that limit nothing: one only passes the request on, one adds two
fixed headers to the response; no middleware that does the same can cost less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from limiter_peers import PEERS, Peer
from starlette.middleware.base import BaseHTTPMiddleware

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.integrations.asgi import LimitMiddleware
from headgate.coordinator.config.configuration import (
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

FIXED = [
    (b"ratelimit-policy", b'"g.requests";q=1000000000;w=1'),
    (b"ratelimit", b'"g.requests";r=1000000000;t=0'),
]
"""As long as the headers that Headgate adds."""


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


class _Passing:
    """Does nothing at all."""

    def __init__(self, app: Module) -> None:
        self.app = app

    async def __call__(self, scope: Module, receive: Module, send: Module) -> None:
        await self.app(scope, receive, send)


class _Fixed(_Passing):
    """Adds two headers that never change."""

    async def __call__(self, scope: Module, receive: Module, send: Module) -> None:
        def marked(message: Module) -> Module:
            if message["type"] == "http.response.start":
                message["headers"] = message["headers"] + FIXED
            return send(message)

        await self.app(scope, receive, marked)


def _around(middleware: type[_Passing]) -> FastAPI:
    app = _app()
    app.add_middleware(middleware)
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


def _own() -> dict[str, FastAPI]:
    return {
        "no middleware": _app(),
        "one that only passes on": _around(_Passing),
        "one that adds two fixed headers": _around(_Fixed),
        "headgate": _headgate(headers=False),
        "headgate with RateLimit headers": _headgate(headers=True),
    }


def _peers() -> dict[str, FastAPI]:
    apps = {"an empty BaseHTTPMiddleware": _base()}
    if find_spec("slowapi"):
        apps["slowapi (limits)"] = _slowapi()
    if find_spec("fastapi_limiter"):
        apps["fastapi-limiter (pyrate-limiter)"] = _fastapi_limiter()
    return apps | {peer.name: _least(peer) for peer in PEERS if peer.version}


async def _measure(apps: dict[str, FastAPI], rounds: int) -> dict[str, list[float]]:
    """Return CPU nanoseconds of a request by app and round."""
    found: dict[str, list[float]] = {name: [] for name in apps}
    order = list(apps)
    for _ in range(rounds):
        random.shuffle(order)  # which one runs before it must not matter
        for name in order:
            before = time.thread_time_ns()
            for _ in range(REQUESTS):
                await _request(apps[name])
            found[name].append((time.thread_time_ns() - before) / REQUESTS)
    return found


def web_table(*, rounds: int = ROUNDS, peers: bool = True) -> str:
    """Return the rows: CPU time of a request, and how much each middleware adds."""
    apps = _own() | (_peers() if peers else {})
    found = asyncio.run(_measure(apps, rounds))
    plain = found["no middleware"]
    rows = [
        "| FastAPI request, in process | CPU µs | requests/CPU s | above none |",
        "|---|---|---|---|",
    ]
    for name, times in found.items():
        ratio = statistics.median(t / p for t, p in zip(times, plain, strict=True))
        used = statistics.median(times)
        rows.append(
            f"| {name} | {used / 1e3:,.0f} | {1e9 / used:,.0f} | {ratio - 1:+.1%} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What a middleware adds to a request.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: expected a number ≥ 1, got {options.rounds}")
    sys.stdout.write(web_table(rounds=options.rounds, peers=options.peers))
    sys.stdout.write(f"\n\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")


if __name__ == "__main__":
    main()
