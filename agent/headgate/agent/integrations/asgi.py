"""ASGI middleware: 429 with exact retry-after, and the IETF RateLimit headers.

It is pure ASGI: wrapping `send` costs microseconds, while Starlette's
BaseHTTPMiddleware would double the cost of a request.

::

    app.add_middleware(
        LimitMiddleware,
        source=agent,
        subject=lambda scope: header(scope, b"x-tenant"),
    )

Headers follow draft-ietf-httpapi-ratelimit-headers: ``RateLimit-Policy`` gives
the quota and its window, ``RateLimit`` what remains and when the bucket is full again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from math import inf
from typing import TYPE_CHECKING, cast

from headgate.agent.decision import ADMITTED
from headgate.agent.errors import InvalidSubject, Throttled
from headgate.agent.integrations.asgi_reading import serve_readable
from headgate.agent.integrations.mutes import LONGEST_MUTE_S
from headgate.agent.integrations.reading import reading_limits
from headgate.agent.integrations.sources import MOST_LIMITERS, SubjectCache
from headgate.agent.integrations.web.answers import (
    BAD_REQUEST,
    ONE_REQUEST,
    PROBLEM_JSON,
    TOO_MANY_REQUESTS,
    refusal_body,
    retry_after_s,
    unusable_subject_body,
)
from headgate.agent.integrations.web.headers import header_text
from headgate.agent.limiter.kafka_quota import composed
from headgate.agent.limiter.limiter import Limiter
from headgate.agent.limiter.ratelimit_headers import Header, ratelimit_headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.notice_stream import NoticeStream
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.handle import DimensionHandle
    from headgate.agent.limiter.slots import Slot

Scope = MutableMapping[str, object]
Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READ_BY = "headgate.read_by"
"""Member of a scope: the `ReadingLimits` that it has passed."""

MOST_REASON_BYTES = 123
"""Longest reason of a closed WebSocket (RFC 6455); servers drop the connection on a
longer one."""

LONGEST_WAIT_S = 10.0
"""Longest wait for tokens, by default: shorter than most clients' timeouts."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a request header, None if it is missing.

    Args:
        scope: The connection's scope.
        name: Name of the header, in lower case.
    """
    headers = scope.get("headers")
    if isinstance(headers, list | tuple):
        for key, value in headers:  # pyright: ignore[reportUnknownVariableType]  # ASGI: pairs of bytes
            if key == name:
                return header_text(bytes(value))  # pyright: ignore[reportUnknownArgumentType]  # as above
    return None


class LimitMiddleware:
    """Admits, refuses or delays HTTP requests and WebSocket connections.

    An application that is itself refused, by a controller that it forwards to, raises
    `headgate.Throttled` before it answers: the client gets the longer delay, less the
    time that it has already waited (KIP-599).
    """

    def __init__(
        self,
        app: App,
        *,
        source: LimiterSource,
        subject: Callable[[Scope], Mapping[str, str | None] | str | None],
        costs: Callable[[Scope], Mapping[str, float]] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
        headers: bool = True,
        mute_refused: bool = False,
        slots: bool = False,
        notices: NoticeStream | None = None,
        max_pending_requests_per_connection: int | None = None,
        max_buffered_bytes: int | None = None,
    ) -> None:
        """Wrap an application.

        Args:
            app: The application to protect.
            source: The agent.
            subject: Returns who asks: a tenant's name, or any subject such as
                ``{"tenant": "acme", "user": "alice"}``; None lets the request pass
                without a limit, as for health checks.  An invalid name is answered 400.
            costs: Returns units by dimension; one unit of ``requests`` by default.
            longest_wait_s: Longest wait for tokens, and for a slot, in groups of mode
                ``wait``.
            headers: Add RateLimit and RateLimit-Policy to every admitted response.
            mute_refused: Refuse *and* mute, as KIP-599's brokers do: serve no other
                request of a refused connection until its delay is over.  Don't use it
                behind a proxy whose connections carry the requests of many callers.
            slots: Hold a slot in flight of each group that limits them, from before
                the request is admitted until its response, or connection, has ended.
            notices: Notifies those who would have received what was refused.
            max_pending_requests_per_connection: Stop reading from a connection, which
                is identified by the client's host and port, at this many unanswered
                requests (HTTP/2) or WebSocket messages, until half of them are
                answered.  Don't use it for WebSockets whose messages get no answer.
            max_buffered_bytes: Stop reading from every connection while the bodies of
                unanswered requests hold this many bytes, until half of them are free.
                A body counts once it has arrived whole.

        Raises:
            ValueError: One of the last two is below 1.
        """
        self.app = app
        self._handles = SubjectCache(source, Limiter.handle)
        self._of_tenant: dict[str, DimensionHandle[Limiter]] = {}
        self._subject = subject
        self._costs = costs
        self._longest_wait_s = longest_wait_s
        self._headers = headers
        self._mute_refused = mute_refused
        self._slots = slots
        self._notices = notices
        self._reading = reading_limits(
            max_pending_requests_per_connection, max_buffered_bytes
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901, PLR0915  # the short way has no call to spare
        """Serve one connection."""
        kind = scope["type"]
        if kind != "http" and kind != "websocket":  # cheaper than `in`
            await self.app(scope, receive, send)
            return
        if self._reading is not None and scope.get(READ_BY) is not self._reading:
            scope[READ_BY] = self._reading
            await serve_readable(self, self._reading, scope, receive, send)
            return
        subject = self._subject(scope)
        if subject is None:
            await self.app(scope, receive, send)
            return
        # The rest is tuned for the smallest request: no avoidable call, and a subject
        # that is a string needs no key of its own.
        try:
            if type(subject) is str:
                handle = self._of_tenant.get(subject) or self._add_tenant(subject)
            else:
                handle = self._handles.get(cast("Mapping[str, str | None]", subject))
        except InvalidSubject as error:
            await _turn_away(kind, error, send)
            return
        if self._slots:
            await self._serve_in_slot(handle.limiter, scope, receive, send)
            return
        now = handle.clock()
        chain = handle.chain
        if chain is None or chain.waits or self._costs is not None:
            await self._serve(handle.limiter, scope, receive, send)
            return
        only = chain.only
        if (
            only is not None
            and now < only.bucket.look_s
            and only.bucket.spent <= only.bucket.headroom
        ):
            # as in `DimensionHandle.try_acquire`, without the call
            only.bucket.spent += 1.0
            decision = chain.admitted
        else:
            decision = handle.try_acquire()
        if decision is not ADMITTED:
            await self._answer(
                handle.limiter, decision, ONE_REQUEST, now, scope, receive, send
            )
            return
        if self._headers and kind == "http":
            if only is not None and only.told_since_s <= now < only.told_until_s:
                send = _marked(send, only.told)
            else:
                send = _marked(send, ratelimit_headers(chain.links, now))
        try:
            await self.app(scope, receive, send)
        except Throttled as error:
            limiter = handle.limiter
            await self._pass_on(limiter, error, decision, ONE_REQUEST, scope, send)

    def _add_tenant(self, tenant: str) -> DimensionHandle[Limiter]:
        if len(self._of_tenant) >= MOST_LIMITERS:
            self._of_tenant.clear()  # they are made again when needed
        handle = self._handles.get({"tenant": tenant})
        self._of_tenant[tenant] = handle
        return handle

    async def _serve_in_slot(
        self, limiter: Limiter, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a connection that holds a slot until it has ended."""
        wait_s = self._longest_wait_s if limiter.waits_for_slots else 0.0
        # A connection may last longer than the usual lease, and gives its slot back.
        slot = await limiter.slot(timeout_s=wait_s, lease_s=inf).take_async()
        if slot:
            with slot:
                await self._serve(limiter, scope, receive, send, slot)
            return
        refused = slot.decision
        marks = [_retry_after(refused)] if not refused.never else []
        if self._mute_refused and scope["type"] == "http" and not refused.never:
            send = _muting(send, refused.delay_s)
        await self._refuse(limiter, refused, self._costs_of(scope), marks, scope, send)

    async def _serve(
        self,
        limiter: Limiter,
        scope: Scope,
        receive: Receive,
        send: Send,
        slot: Slot | None = None,
    ) -> None:
        """Serve a connection with any costs, in any mode."""
        costs = self._costs_of(scope)
        if limiter.waits(costs):
            decision = await limiter.wait_async(timeout_s=self._longest_wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        now = limiter.clock()
        await self._answer(limiter, decision, costs, now, scope, receive, send, slot)

    def _costs_of(self, scope: Scope) -> Mapping[str, float]:
        return ONE_REQUEST if self._costs is None else self._costs(scope)

    async def _answer(
        self,
        limiter: Limiter,
        decision: Decision,
        costs: Mapping[str, float],
        now: float,
        scope: Scope,
        receive: Receive,
        send: Send,
        slot: Slot | None = None,
    ) -> None:
        """Refuse, or serve the connection and mute it afterwards."""
        kind = scope["type"]
        marks = ratelimit_headers(limiter.links(costs), now)
        if decision.delay_s > 0.0:
            marks = [*marks, _retry_after(decision)]
        mutes = decision.delay_s > 0.0 and kind == "http"
        if not decision:
            if slot is not None:
                slot.release()
            if mutes and self._mute_refused and not decision.never:
                send = _muting(send, decision.delay_s)
            await self._refuse(limiter, decision, costs, marks, scope, send)
            return
        answer = send
        if mutes:  # admitted, but no next request until then
            answer = _muting(answer, decision.delay_s, slot)
        if self._headers and kind == "http":
            answer = _marked(answer, marks)
        try:
            await self.app(scope, receive, answer)
        except Throttled as error:
            await self._pass_on(limiter, error, decision, costs, scope, send, slot)

    async def _pass_on(
        self,
        limiter: Limiter,
        error: Throttled,
        decision: Decision,
        costs: Mapping[str, float],
        scope: Scope,
        send: Send,
        slot: Slot | None = None,
    ) -> None:
        """Answer for an application that a controller refused, before it answered."""
        refused = composed(decision, error, time.monotonic())
        marks = [] if refused.never else [_retry_after(refused)]
        mutes = self._mute_refused or decision.delay_s > 0.0
        if mutes and scope["type"] == "http" and not refused.never:
            send = _muting(send, refused.delay_s, slot)
        await self._refuse(limiter, refused, costs, marks, scope, send)

    async def _refuse(
        self,
        limiter: Limiter,
        refused: Decision,
        costs: Mapping[str, float],
        marks: list[Header],
        scope: Scope,
        send: Send,
    ) -> None:
        """Tell the caller, and those who would have received what it sent."""
        if self._notices is not None:
            self._notices.note(limiter, refused, costs)
        if scope["type"] == "websocket":  # before it is accepted: it is answered 403
            reason = _fitting(str(refused))
            await send({"type": "websocket.close", "code": 1013, "reason": reason})
            return
        await _send_problem(TOO_MANY_REQUESTS, refusal_body(refused), marks, send)


def _marked(send: Send, marks: list[Header]) -> Send:
    """Return a `send` that adds headers to the response."""

    # Not a coroutine: a response has at least two messages.
    def marked(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            have = message.get("headers")
            if type(have) is list:
                message["headers"] = have + marks  # not the application's own list
            else:
                message["headers"] = [*cast("Iterable[Header]", have or ()), *marks]
        return send(message)

    return marked


def _muting(send: Send, delay_s: float, slot: Slot | None = None) -> Send:
    """Return a `send` that ends the response only after a delay.

    A server takes the next request of a connection once the response has ended, not
    when the application returns.  The bytes leave at once: a client that knows the
    length of the response has it, and only its next request waits.  Nothing runs
    meanwhile, so a slot is given back before.
    """

    async def muting(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body"):
            await send(message)
            return
        await send({**message, "more_body": True})
        if slot is not None:
            slot.release()
        await asyncio.sleep(min(delay_s, LONGEST_MUTE_S))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return muting


def _retry_after(decision: Decision) -> Header:
    return b"retry-after", b"%d" % retry_after_s(decision)


async def _turn_away(kind: object, error: InvalidSubject, send: Send) -> None:
    """Answer a caller that names a subject that can't exist."""
    if kind == "websocket":
        reason = _fitting(str(error))
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    await _send_problem(BAD_REQUEST, unusable_subject_body(error), [], send)


def _fitting(reason: str) -> str:
    """Return as much of a reason as fits into the frame that closes a WebSocket."""
    return reason.encode()[:MOST_REASON_BYTES].decode(errors="ignore")


async def _send_problem(
    status: int, body: bytes, marks: list[Header], send: Send
) -> None:
    headers = [
        (b"content-type", PROBLEM_JSON.encode()),
        (b"content-length", str(len(body)).encode()),
        *marks,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
