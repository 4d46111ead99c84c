"""gRPC server interceptors: RESOURCE_EXHAUSTED, with the delay in the trailers.

::

    def who(call: Call) -> dict[str, str | None]:
        return {"tenant": call.metadata.get("tenant")}

    server = grpc.server(pool, interceptors=[LimitInterceptor(agent, subject=who)])

For `grpc.aio` there is `AsyncLimitInterceptor`.  The trailers carry ``retry-after-ms``
and gRPC's own ``grpc-retry-pushback-ms``, which its clients' retry policies obey.  For
a call that will never be admitted both are -1: don't retry.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.integrations.sources import limiter_cache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.limiter import Limiter

LONGEST_WAIT_S = 10.0
"""Longest wait for tokens, by default; a waiting call holds a thread of the server."""

LONGEST_MUTE_S = 30.0
"""Longest time that a call is held in mode ``delay``."""


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


class _Context(Protocol):
    def abort(self, code: object, details: str) -> object: ...
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
    ) -> None:
        self._limiters = limiter_cache(source)
        self._subject = subject
        self._costs = costs
        self.longest_wait_s = longest_wait_s

    def find(self, details: object) -> tuple[Limiter, Mapping[str, float]] | None:
        given = cast("_Details", details)
        metadata = {
            key: value if isinstance(value, str) else value.decode("latin-1")
            for key, value in given.invocation_metadata or ()
        }
        call = Call(given.method, metadata)
        subject = self._subject(call)
        if subject is None:
            return None
        costs = {"requests": 1.0} if self._costs is None else self._costs(call)
        return self._limiters.get(subject), costs


class _LimitInterceptor:
    """Admits, refuses or delays calls of a threaded server."""

    def __init__(
        self,
        source: LimiterSource,
        *,
        subject: Callable[[Call], Mapping[str, str | None] | None],
        costs: Callable[[Call], Mapping[str, float]] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self._rules = _Rules(source, subject, costs, longest_wait_s)

    def intercept_service(
        self, continuation: Callable[[object], object], handler_call_details: object
    ) -> object:
        found = self._rules.find(handler_call_details)
        handler = continuation(handler_call_details)
        if found is None or handler is None:
            return handler
        limiter, costs = found
        if limiter.waits(costs):
            decision = limiter.wait(timeout_s=self._rules.longest_wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        if decision:
            if decision.delay_s > 0.0:
                time.sleep(min(decision.delay_s, LONGEST_MUTE_S))
            return handler

        def abort(_: object, context: _Context) -> object:
            context.set_trailing_metadata(_trailers(decision))
            return context.abort(_exhausted(), str(decision))

        return _refusing(cast("_Handler", handler), abort)


class _AsyncLimitInterceptor:
    """Admits, refuses or delays calls of a `grpc.aio` server."""

    def __init__(
        self,
        source: LimiterSource,
        *,
        subject: Callable[[Call], Mapping[str, str | None] | None],
        costs: Callable[[Call], Mapping[str, float]] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self._rules = _Rules(source, subject, costs, longest_wait_s)

    async def intercept_service(
        self,
        continuation: Callable[[object], Awaitable[object]],
        handler_call_details: object,
    ) -> object:
        found = self._rules.find(handler_call_details)
        handler = await continuation(handler_call_details)
        if found is None or handler is None:
            return handler
        limiter, costs = found
        if limiter.waits(costs):
            wait_s = self._rules.longest_wait_s
            decision = await limiter.wait_async(timeout_s=wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        if decision:
            if decision.delay_s > 0.0:
                await asyncio.sleep(min(decision.delay_s, LONGEST_MUTE_S))
            return handler

        async def abort(_: object, context: _Context) -> None:
            context.set_trailing_metadata(_trailers(decision))
            await cast("Awaitable[None]", context.abort(_exhausted(), str(decision)))

        return _refusing(cast("_Handler", handler), abort)


def LimitInterceptor(  # noqa: N802 RUF100  # used as a class
    source: LimiterSource,
    *,
    subject: Callable[[Call], Mapping[str, str | None] | None],
    costs: Callable[[Call], Mapping[str, float]] | None = None,
    longest_wait_s: float = LONGEST_WAIT_S,
) -> object:
    """Return an interceptor for `grpc.server`.

    Args:
        source: The agent.
        subject: Returns who calls, such as ``{"tenant": "acme"}``; None lets a call
            pass without a limit.
        costs: Returns units by dimension; one unit of ``requests`` by default.
        longest_wait_s: Longest wait for tokens in groups of mode ``wait``.
    """
    base = cast("type", import_module("grpc").ServerInterceptor)
    kind = type("LimitInterceptor", (_LimitInterceptor, base), {})
    return _made(kind, source, subject, costs, longest_wait_s)


def AsyncLimitInterceptor(  # noqa: N802 RUF100  # used as a class
    source: LimiterSource,
    *,
    subject: Callable[[Call], Mapping[str, str | None] | None],
    costs: Callable[[Call], Mapping[str, float]] | None = None,
    longest_wait_s: float = LONGEST_WAIT_S,
) -> object:
    """Return an interceptor for `grpc.aio.server`; see `LimitInterceptor`."""
    base = cast("type", import_module("grpc.aio").ServerInterceptor)
    kind = type("AsyncLimitInterceptor", (_AsyncLimitInterceptor, base), {})
    return _made(kind, source, subject, costs, longest_wait_s)


def _made(
    kind: type,
    source: LimiterSource,
    subject: Callable[[Call], Mapping[str, str | None] | None],
    costs: Callable[[Call], Mapping[str, float]] | None,
    longest_wait_s: float,
) -> object:
    make = cast("Callable[..., object]", kind)
    return make(source, subject=subject, costs=costs, longest_wait_s=longest_wait_s)


def _exhausted() -> object:
    return cast("object", import_module("grpc").StatusCode.RESOURCE_EXHAUSTED)


def _trailers(decision: Decision) -> tuple[tuple[str, str], ...]:
    milliseconds = str(-1 if decision.never else decision.throttle_time_ms)
    return (
        ("retry-after-ms", milliseconds),
        ("grpc-retry-pushback-ms", milliseconds),
    )


def _refusing(handler: _Handler, abort: Callable[..., object]) -> object:
    """Return a handler of the same shape that aborts.

    A streaming handler should be a generator, but nothing is ever iterated, because
    `abort` raises.
    """
    shape = {
        (False, False): "unary_unary",
        (False, True): "unary_stream",
        (True, False): "stream_unary",
        (True, True): "stream_stream",
    }[handler.request_streaming, handler.response_streaming]
    make = cast(
        "Callable[..., object]",
        getattr(import_module("grpc"), f"{shape}_rpc_method_handler"),
    )
    return make(
        abort,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
