"""gRPC server interceptors: RESOURCE_EXHAUSTED, with the delay in the trailers.

::

    def who(call: Call) -> dict[str, str | None]:
        return {"tenant": call.metadata.get("tenant")}

    server = grpc.server(pool, interceptors=[LimitInterceptor(agent, subject=who)])

For `grpc.aio` there is `AsyncLimitInterceptor`.  The trailers carry ``retry-after-ms``
and gRPC's own ``grpc-retry-pushback-ms``, which its clients' retry policies obey.  For
a call that will never be admitted both are -1: don't retry.

A servicer that is itself refused, by a controller that it calls, raises
`headgate.Throttled`: the trailers carry the longer of the two delays, less the time
already waited (KIP-599).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.decision import ADMITTED
from headgate.agent.errors import InvalidSubject, Throttled
from headgate.agent.integrations.grpc_reading import (
    PeerContext,
    read_by_tasks,
    read_by_threads,
)
from headgate.agent.integrations.mutes import LONGEST_MUTE_S, Mutes
from headgate.agent.integrations.reading import reading_limits
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.integrations.web.headers import header_text
from headgate.agent.limiter.kafka_quota import composed

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
    )

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.reading import ReadingLimits
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.limiter.reservation import Reservation

LONGEST_WAIT_S = 10.0
"""Longest wait for tokens, by default; a waiting call holds a thread of the server."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is known about a call before it is served.

    Attributes:
        method: Such as ``/package.Service/Method``.
        metadata: By lower-case key, with the last value if there are several.
    """

    method: str
    metadata: Mapping[str, str]


class _Details(Protocol):
    method: str
    invocation_metadata: Iterable[tuple[str, str | bytes]]


class _Context(PeerContext, Protocol):
    def abort(self, code: object, details: str) -> object: ...
    def set_code(self, code: object) -> object: ...
    def set_details(self, details: str) -> object: ...
    def is_active(self) -> bool: ...
    def time_remaining(self) -> float | None: ...
    def set_trailing_metadata(
        self, trailing_metadata: tuple[tuple[str, str], ...]
    ) -> object: ...


class _Handler(Protocol):
    request_streaming: bool
    response_streaming: bool
    request_deserializer: object
    response_serializer: object


class _Rules:
    """What both interceptors share."""

    def __init__(
        self,
        source: LimiterSource,
        subject: Callable[[Call], Mapping[str, str | None] | None],
        costs: Callable[[Call], Mapping[str, float]] | None,
        longest_wait_s: float,
        *,
        mute_refused: bool,
        most_pending: int | None,
        most_bytes: int | None,
    ) -> None:
        self.reading = reading_limits(most_pending, most_bytes)
        self.mutes = Mutes(time.monotonic) if mute_refused else None
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._costs = costs
        self._longest_wait_s = longest_wait_s

    def find(self, details: object) -> tuple[Limiter, Mapping[str, float]] | None:
        given = cast("_Details", details)
        metadata = {
            key: value if isinstance(value, str) else header_text(value)
            for key, value in given.invocation_metadata or ()
        }
        call = Call(given.method, metadata)
        subject = self._subject(call)
        if subject is None:
            return None
        costs = {"requests": 1.0} if self._costs is None else self._costs(call)
        return self._limiters.get(subject), costs

    def held_s(self, limiter: Limiter) -> float:
        """Return how long to hold a call of a caller that was refused before."""
        return 0.0 if self.mutes is None else self.mutes.left_s(limiter.subject)

    def reserve(
        self, limiter: Limiter, costs: Mapping[str, float], left_s: float = inf
    ) -> Reservation:
        """Return what charges a call that is served, and no other.

        Args:
            limiter: Of the caller.
            costs: Units by dimension.
            left_s: How long the caller will wait.
        """
        waits = limiter.waits(costs)
        wait_s = min(self._longest_wait_s, left_s) if waits else None
        return limiter.reserve(estimate=None, wait_s=wait_s, **costs)

    def note_refused(self, limiter: Limiter, decision: Decision) -> None:
        """Mute the caller, where refused ones are muted."""
        if self.mutes is not None and not decision.never:
            self.mutes.mute(limiter.subject, decision.delay_s)


class _LimitInterceptor:
    """Admits, refuses or delays calls of a threaded server."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def intercept_service(
        self, continuation: Callable[[object], object], handler_call_details: object
    ) -> object:
        handler = _reading(continuation(handler_call_details), self._rules.reading)
        if handler is None:
            return None
        try:
            found = self._rules.find(handler_call_details)
        except InvalidSubject as error:
            return _turning_away(cast("_Handler", handler), str(error))
        if found is None:
            return handler
        limiter, costs = found

        # One thread of gRPC runs the interceptors of all calls, so this one must not
        # wait here; `admit` runs in the call's own thread.
        def admit(context: _Context) -> None:
            if (held_s := self._rules.held_s(limiter)) > 0.0:
                time.sleep(min(held_s, _left_s(context)))
            _leave_if_gone(context)
            try:
                with self._rules.reserve(limiter, costs, _left_s(context)) as charged:
                    if (mute_s := min(charged.decision.delay_s, LONGEST_MUTE_S)) > 0.0:
                        time.sleep(min(mute_s, _left_s(context)))
                    _leave_if_gone(context)
            except Throttled as error:
                abort(context, error.decision)

        def abort(context: _Context, refused: Decision) -> object:
            self._rules.note_refused(limiter, refused)
            context.set_trailing_metadata(_trailers(refused))
            return context.abort(_status("RESOURCE_EXHAUSTED"), str(refused))

        return _limited(cast("_Handler", handler), admit, abort)


def _left_s(context: _Context) -> float:
    """Return how long a call's client will still wait for the answer."""
    left_s = context.time_remaining()
    return inf if left_s is None else max(left_s, 0.0)


def _leave_if_gone(context: _Context) -> None:
    """Serve nothing to a client that no longer waits for it."""
    if not context.is_active():
        context.abort(_status("CANCELLED"), "the client is gone")


class _AsyncLimitInterceptor:
    """Admits, refuses or delays calls of a `grpc.aio` server."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    async def intercept_service(
        self,
        continuation: Callable[[object], Awaitable[object]],
        handler_call_details: object,
    ) -> object:
        handler = _reading_async(
            await continuation(handler_call_details), self._rules.reading
        )
        if handler is None:
            return None
        try:
            found = self._rules.find(handler_call_details)
        except InvalidSubject as error:
            return _turning_away_async(cast("_Handler", handler), str(error))
        if found is None:
            return handler
        limiter, costs = found
        if (held_s := self._rules.held_s(limiter)) > 0.0:
            await asyncio.sleep(held_s)
        try:
            async with self._rules.reserve(limiter, costs) as charged:
                if (mute_s := min(charged.decision.delay_s, LONGEST_MUTE_S)) > 0.0:
                    await asyncio.sleep(mute_s)
        except Throttled as error:
            refused = error.decision

            async def refuse(_: object, context: _Context) -> None:
                await self._abort(limiter, context, refused)

            return _made_like(cast("_Handler", handler), refuse)
        return self._passing_on(cast("_Handler", handler), limiter)

    def _passing_on(self, handler: _Handler, limiter: Limiter) -> object:
        """Return a handler that passes on what a controller said to its servicer."""
        if not _is_plain(handler):
            return _passing_on_async(handler, partial(self._abort, limiter))

        # In a plain function's thread `abort` would overtake what it has streamed.
        def end(context: _Context, refused: Decision) -> None:
            self._rules.note_refused(limiter, refused)
            context.set_trailing_metadata(_trailers(refused))
            context.set_code(_status("RESOURCE_EXHAUSTED"))
            context.set_details(str(refused))

        return _limited(handler, lambda _: None, end)

    async def _abort(
        self, limiter: Limiter, context: _Context, refused: Decision
    ) -> None:
        self._rules.note_refused(limiter, refused)
        context.set_trailing_metadata(_trailers(refused))
        status = _status("RESOURCE_EXHAUSTED")
        await cast("Awaitable[None]", context.abort(status, str(refused)))


def LimitInterceptor(  # noqa: N802 RUF100  # used as a class
    source: LimiterSource,
    *,
    subject: Callable[[Call], Mapping[str, str | None] | None],
    costs: Callable[[Call], Mapping[str, float]] | None = None,
    longest_wait_s: float = LONGEST_WAIT_S,
    mute_refused: bool = False,
    max_pending_requests_per_connection: int | None = None,
    max_buffered_bytes: int | None = None,
) -> object:
    """Return an interceptor for `grpc.server`.

    Args:
        source: The agent.
        subject: Returns who calls, such as ``{"tenant": "acme"}``; None lets a call
            pass without a limit.  An invalid name is answered INVALID_ARGUMENT.
        costs: Returns units by dimension; one unit of ``requests`` by default.
        longest_wait_s: Longest wait for tokens in groups of mode ``wait``.
        mute_refused: Refuse *and* mute, as KIP-599's brokers do: hold the next calls of
            a refused subject until its delay is over; each holds a thread.
        max_pending_requests_per_connection: Stop reading from a connection at this many
            unanswered calls and messages of streams, until half of them are answered.
            A message of a stream counts until the servicer asks for the next.
        max_buffered_bytes: Stop reading from every connection while such requests hold
            this many bytes, until half of them are free.  In a threaded server each
            unary call that arrives meanwhile holds a thread.

    Raises:
        ValueError: One of the last two is below 1.
    """
    rules = _Rules(
        source,
        subject,
        costs,
        longest_wait_s,
        mute_refused=mute_refused,
        most_pending=max_pending_requests_per_connection,
        most_bytes=max_buffered_bytes,
    )
    return _interceptor("grpc", _LimitInterceptor, rules)


def AsyncLimitInterceptor(  # noqa: N802 RUF100  # used as a class
    source: LimiterSource,
    *,
    subject: Callable[[Call], Mapping[str, str | None] | None],
    costs: Callable[[Call], Mapping[str, float]] | None = None,
    longest_wait_s: float = LONGEST_WAIT_S,
    mute_refused: bool = False,
    max_pending_requests_per_connection: int | None = None,
    max_buffered_bytes: int | None = None,
) -> object:
    """Return an interceptor for `grpc.aio.server`; see `LimitInterceptor`."""
    rules = _Rules(
        source,
        subject,
        costs,
        longest_wait_s,
        mute_refused=mute_refused,
        most_pending=max_pending_requests_per_connection,
        most_bytes=max_buffered_bytes,
    )
    return _interceptor("grpc.aio", _AsyncLimitInterceptor, rules)


def _interceptor(module: str, kind: type, rules: _Rules) -> object:
    """Return an interceptor of `kind`; gRPC is imported only here, when one is made."""
    base = cast("type", import_module(module).ServerInterceptor)
    made = type(kind.__name__.lstrip("_"), (kind, base), {})
    return cast("Callable[[_Rules], object]", made)(rules)


def _status(name: str) -> object:
    return cast("object", getattr(import_module("grpc").StatusCode, name))


def _trailers(decision: Decision) -> tuple[tuple[str, str], ...]:
    milliseconds = str(-1 if decision.never else decision.throttle_time_ms)
    return (
        ("retry-after-ms", milliseconds),
        ("grpc-retry-pushback-ms", milliseconds),
    )


def _turning_away(handler: _Handler, message: str) -> object:
    """Return a handler for a caller whose subject can't exist."""

    def turn_away(_: object, context: _Context) -> object:
        return context.abort(_status("INVALID_ARGUMENT"), message)

    return _made_like(handler, turn_away)


def _turning_away_async(handler: _Handler, message: str) -> object:
    """Do what `_turning_away` does, for servicers of `grpc.aio`."""

    async def turn_away(_: object, context: _Context) -> None:
        status = _status("INVALID_ARGUMENT")
        await cast("Awaitable[None]", context.abort(status, message))

    return _made_like(handler, turn_away)


def _limited(
    handler: _Handler,
    admit: Callable[[_Context], None],
    abort: Callable[[_Context, Decision], object],
) -> object:
    """Return a handler that serves what is admitted.

    It passes on what a controller said to its servicer.

    Args:
        handler: Serves the call.
        admit: Waits as long as the call must; raises if it is refused.
        abort: Ends the call as refused; may raise.
    """
    inner = _behaviour(handler)

    def unary(request: object, context: _Context) -> object:
        admit(context)
        try:
            return inner(request, context)
        except Throttled as error:
            return abort(context, composed(ADMITTED, error, time.monotonic()))

    def stream(request: object, context: _Context) -> Iterator[object]:
        admit(context)
        try:
            yield from cast("Iterator[object]", inner(request, context))
        except Throttled as error:
            abort(context, composed(ADMITTED, error, time.monotonic()))

    return _made_like(handler, stream if handler.response_streaming else unary)


def _passing_on_async(
    handler: _Handler, abort: Callable[[_Context, Decision], Awaitable[None]]
) -> object:
    """Return a handler that passes on what a controller said to its servicer."""
    inner = _behaviour(handler)

    async def unary(request: object, context: _Context) -> object:
        try:
            return await cast("Awaitable[object]", inner(request, context))
        except Throttled as error:
            await abort(context, composed(ADMITTED, error, time.monotonic()))
            return None

    async def stream(request: object, context: _Context) -> AsyncIterator[object]:
        try:
            async for response in cast(
                "AsyncIterator[object]", inner(request, context)
            ):
                yield response
        except Throttled as error:
            await abort(context, composed(ADMITTED, error, time.monotonic()))

    # A coroutine may also write its responses to the context itself.
    made = stream if inspect.isasyncgenfunction(inner) else unary
    return _made_like(handler, made)


def _is_plain(handler: _Handler) -> bool:
    """Return whether a servicer of `grpc.aio` is a plain function."""
    inner = _behaviour(handler)
    return not (inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner))


def _reading(handler: object, limits: ReadingLimits | None) -> object:
    """Return a handler that reads only when its connection may be read."""
    if handler is None or limits is None:
        return handler
    given = cast("_Handler", handler)
    behaviour = read_by_threads(
        _behaviour(given),
        limits,
        request_streaming=given.request_streaming,
        response_streaming=given.response_streaming,
    )
    return _made_like(given, behaviour)


def _reading_async(handler: object, limits: ReadingLimits | None) -> object:
    """Do what `_reading` does, for servicers of `grpc.aio`."""
    if handler is None or limits is None:
        return handler
    given = cast("_Handler", handler)
    behaviour = read_by_tasks(
        _behaviour(given), limits, request_streaming=given.request_streaming
    )
    return handler if behaviour is None else _made_like(given, behaviour)


def _shape(handler: _Handler) -> str:
    requests = "stream" if handler.request_streaming else "unary"
    return f"{requests}_{'stream' if handler.response_streaming else 'unary'}"


def _behaviour(handler: _Handler) -> Callable[[object, _Context], object]:
    found: Callable[[object, _Context], object] = getattr(handler, _shape(handler))
    return found


def _made_like(handler: _Handler, behaviour: Callable[..., object]) -> object:
    """Return a handler of the same shape.

    A streaming handler that refuses should be a generator, but nothing is ever
    iterated, because `abort` raises.
    """
    make = cast(
        "Callable[..., object]",
        getattr(import_module("grpc"), f"{_shape(handler)}_rpc_method_handler"),
    )
    return make(
        behaviour,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
