"""WSGI middleware: 429 with exact retry-after, and the IETF RateLimit headers.

For Flask, Django without its settings, Bottle, and whatever else speaks WSGI::

    app.wsgi_app = WsgiLimitMiddleware(
        app.wsgi_app, source=agent, subject=lambda env: header(env, "x-tenant")
    )

**Servers that fork** (gunicorn, uWSGI): the agent may be made before the fork
(``--preload``) or after it; each worker is an agent of its own either way, from its
first request on (docs/decisions/0018-forked-processes.md).
**Threads** share one agent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headgate.agent.errors import InvalidSubject
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.integrations.web.answers import (
    ONE_REQUEST,
    PROBLEM_JSON,
    admit,
    refusal_body,
    retry_after_s,
    subject_of,
    unusable_subject_body,
)
from headgate.agent.integrations.web.headers import header_text
from headgate.agent.limiter.ratelimit_headers import ratelimit_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.integrations.web.answers import Asker
    from headgate.agent.limiter.limiter import Limiter

LONGEST_WAIT_S = 10.0
"""Longest wait for tokens by default; it holds a thread of the server."""

LONGEST_MUTE_S = 10.0
"""Longest that a connection is held after its response in mode ``delay``: gunicorn
kills a worker without threads that is silent for 30 seconds."""


def header(environ: Mapping[str, object], name: str) -> str | None:
    """Return the value of a request header, None if it is missing.

    Args:
        environ: The request's environment; Flask's `request.environ`, Django's
            `request.META`.
        name: Name of the header.
    """
    value = environ.get("HTTP_" + name.upper().replace("-", "_"))
    return header_text(value) if isinstance(value, str) else None


class WsgiLimitMiddleware:
    """Admits, refuses or delays the requests of a WSGI application."""

    def __init__(
        self,
        app: WSGIApplication,
        *,
        source: LimiterSource,
        subject: Callable[[WSGIEnvironment], Asker],
        costs: Callable[[WSGIEnvironment], Mapping[str, float]] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
        headers: bool = True,
    ) -> None:
        """Wrap an application.

        Args:
            app: What is protected.
            source: The agent.
            subject: Who asks, from the request's environment; None lets the request
                pass without a limit (health checks).  An invalid name is answered 400.
            costs: Units by dimension; one of ``requests`` by default.
            longest_wait_s: Longest wait for tokens where the group says ``wait``.
            headers: Add RateLimit and RateLimit-Policy to every response.
        """
        self.app = app
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._costs = costs
        self._longest_wait_s = longest_wait_s
        self._headers = headers

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Serve one request."""
        asker = self._subject(environ)
        if asker is None:
            return self.app(environ, start_response)
        try:
            limiter = self._limiters.get(subject_of(asker))
        except InvalidSubject as error:
            body = unusable_subject_body(error)
            start_response("400 Bad Request", _content(body))
            return [body]
        costs = ONE_REQUEST if self._costs is None else self._costs(environ)
        decision = admit(limiter, costs, self._longest_wait_s)
        marks = _marks(limiter, costs, decision)
        if not decision:
            body = refusal_body(decision)
            start_response("429 Too Many Requests", [*_content(body), *marks])
            return [body]
        if self._headers:
            start_response = _marked(start_response, marks)
        response = self.app(environ, start_response)
        if decision.delay_s > 0.0:
            return _Muted(response, min(decision.delay_s, LONGEST_MUTE_S))
        return response


def _content(body: bytes) -> list[tuple[str, str]]:
    return [("Content-Type", PROBLEM_JSON), ("Content-Length", str(len(body)))]


def _marks(
    limiter: Limiter, costs: Mapping[str, float], decision: Decision
) -> list[tuple[str, str]]:
    """Return the RateLimit headers of the tightest limit, and Retry-After."""
    marks = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in ratelimit_headers(limiter.links(costs), limiter.clock())
    ]
    if decision.delay_s > 0.0:
        marks.append(("retry-after", str(retry_after_s(decision))))
    return marks


def _marked(
    start_response: StartResponse, marks: list[tuple[str, str]]
) -> StartResponse:
    """Return a `start_response` that adds headers."""

    def marked(
        status: str, headers: list[tuple[str, str]], *exc_info: object
    ) -> Callable[[bytes], object]:
        return start_response(status, [*headers, *marks], *exc_info)  # type: ignore[arg-type]  # as it came  # pyright: ignore[reportArgumentType]

    return marked


class _Muted:
    """A response after which the connection is held, so that no other follows on it."""

    def __init__(self, response: Iterable[bytes], mute_s: float) -> None:
        self._response = response
        self._mute_s = mute_s

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        """Close the response; the server calls this when all of it was sent."""
        close: Callable[[], object] | None = getattr(self._response, "close", None)
        try:
            if close is not None:
                close()
        finally:
            time.sleep(self._mute_s)
