"""ASGI middleware: 429 with exact retry-after, and the IETF RateLimit headers.

Pure ASGI: wrapping `send` costs microseconds, Starlette's BaseHTTPMiddleware would
double the cost of a request.

::

    app.add_middleware(
        LimitMiddleware,
        source=agent,
        subject=lambda scope: {"tenant": header(scope, b"x-tenant")},
    )

Headers follow draft-ietf-httpapi-ratelimit-headers: ``RateLimit-Policy`` says the
quota and its window, ``RateLimit`` what remains and when the bucket is full again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from math import ceil, inf
from typing import TYPE_CHECKING

from headgate.agent.integrations.sources import LimiterCache

if TYPE_CHECKING:
    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter import Limiter

Scope = MutableMapping[str, object]
Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

TOO_MANY_REQUESTS = 429

ONE_REQUEST: Mapping[str, float] = {"requests": 1.0}
"""What a request costs unless the application says otherwise."""

LONGEST_WAIT_S = 10.0
"""Longest wait for tokens by default: shorter than the patience of most clients."""

LONGEST_MUTE_S = 30.0
"""Longest that a connection is held after its response in mode ``delay``."""

LONGEST_RETRY_S = 3_600.0
"""Retry-After of what is refused for ever, or by a limit that is closed: an hour."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a request header, None when it is not there.

    Args:
        scope: Of the connection.
        name: In lower case.
    """
    headers = scope.get("headers")
    if isinstance(headers, list | tuple):
        for key, value in headers:  # pyright: ignore[reportUnknownVariableType]  # ASGI: pairs of bytes
            if key == name:
                return bytes(value).decode("latin-1")  # pyright: ignore[reportUnknownArgumentType]  # as above
    return None


class LimitMiddleware:
    """Admits, refuses or delays HTTP requests and WebSocket connections."""

    def __init__(
        self,
        app: App,
        *,
        source: LimiterSource,
        subject: Callable[[Scope], Mapping[str, str | None] | None],
        costs: Callable[[Scope], Mapping[str, float]] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
        headers: bool = True,
    ) -> None:
        """Wrap an application.

        Args:
            app: What is protected.
            source: The agent.
            subject: Who asks, such as ``{"tenant": "acme"}``; None lets the request
                pass without a limit (health checks).
            costs: Units by dimension; one of ``requests`` by default.
            longest_wait_s: Longest wait for tokens where the group says ``wait``.
            headers: Say RateLimit and RateLimit-Policy with every response.
        """
        self.app = app
        self._limiters = LimiterCache(source)
        self._subject = subject
        self._costs = costs
        self._longest_wait_s = longest_wait_s
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        kind = scope["type"]
        subject = self._subject(scope) if kind in ("http", "websocket") else None
        if subject is None:
            await self.app(scope, receive, send)
            return
        limiter = self._limiters.get(subject)
        costs = ONE_REQUEST if self._costs is None else self._costs(scope)
        if limiter.waits(costs):
            decision = await limiter.wait_async(timeout_s=self._longest_wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        if not decision:
            await _refuse(kind, decision, limiter, costs, send)
            return
        if self._headers and kind == "http":
            send = _with_headers(send, limiter, costs, decision)
        await self.app(scope, receive, send)
        if decision.delay_s > 0.0:  # admitted, and muted: no next request so long
            await asyncio.sleep(min(decision.delay_s, LONGEST_MUTE_S))


def _with_headers(
    send: Send, limiter: Limiter, costs: Mapping[str, float], decision: Decision
) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers")
            have: list[Header] = list(headers) if isinstance(headers, list) else []  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]  # ASGI: pairs of bytes
            message["headers"] = have + rate_limit_headers(limiter, costs, decision)
        await send(message)

    return wrapped


def rate_limit_headers(
    limiter: Limiter, costs: Mapping[str, float], decision: Decision
) -> list[Header]:
    """Return RateLimit, RateLimit-Policy and, where there is a delay, Retry-After."""
    headers: list[Header] = []
    standing = limiter.tightest(costs)
    if standing is not None:
        name, policy = _policy(standing.name, standing.quota, standing.window_s)
        reset_s = 0 if standing.full_in_s == inf else ceil(standing.full_in_s)
        remaining = _whole(standing.remaining)
        headers.append((b"ratelimit-policy", policy))
        headers.append((b"ratelimit", b"%s;r=%d;t=%d" % (name, remaining, reset_s)))
    if decision.delay_s > 0.0:
        headers.append((b"retry-after", str(_retry_after(decision)).encode()))
    return headers


@lru_cache(maxsize=1_024)
def _policy(name: str, quota: float, window_s: float) -> tuple[bytes, bytes]:
    """Return a limit's name as a structured field, and its RateLimit-Policy."""
    quoted = f'"{_quoted(name)}"'.encode()
    return quoted, b"%s;q=%d;w=%d" % (quoted, _whole(quota), ceil(window_s))


def _quoted(name: str) -> str:
    """Return a name as the inside of a structured field's string (RFC 9651)."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in name)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _whole(units: float) -> int:
    return max(0, min(int(units), 999_999_999_999_999))  # RFC 9651's integers


def _retry_after(decision: Decision) -> int:
    return ceil(min(decision.delay_s, LONGEST_RETRY_S))


async def _refuse(
    kind: object,
    decision: Decision,
    limiter: Limiter,
    costs: Mapping[str, float],
    send: Send,
) -> None:
    if kind == "websocket":  # before it is accepted: the server answers 403
        await send({"type": "websocket.close", "code": 1013, "reason": str(decision)})
        return
    body = json.dumps(
        {
            "type": "about:blank",
            "title": "Too Many Requests",
            "status": TOO_MANY_REQUESTS,
            "detail": str(decision),
            "reason": "never" if decision.never else "quota exhausted",
            "throttle_time_ms": decision.throttle_time_ms,
        }
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        *rate_limit_headers(limiter, costs, decision),
    ]
    await send(
        {
            "type": "http.response.start",
            "status": TOO_MANY_REQUESTS,
            "headers": headers,
        }
    )
    await send({"type": "http.response.body", "body": body})
