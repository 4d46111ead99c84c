"""gRPC calls that are read only while no limit on reading is reached.

The core of gRPC reads a stream as far as its flow control allows (64 KiB and more), and
no further until the servicer asks for the next message: the client's writes then block.
A unary call has been read before it gets here, so it is held instead.
"""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Generator,
        Iterator,
    )

    from headgate.agent.integrations.reading import ReadConnection, ReadingLimits


class PeerContext(Protocol):
    """The part of a servicer's context used here."""

    def peer(self) -> str:
        """Return the client's address."""
        ...

    def is_active(self) -> bool:
        """Return whether the call goes on; contexts of `grpc.aio` lack it."""
        ...


Context = TypeVar("Context", bound=PeerContext)
"""The context that a behaviour asks for."""


def size_of(request: object) -> int:
    """Return the bytes of a request on the wire.

    Requests that are neither messages of protobuf nor bytes, because a serializer of
    the application's own made them, count as nothing.
    """
    if isinstance(request, bytes):
        return len(request)
    measure = cast("Callable[[], int] | None", getattr(request, "ByteSize", None))
    return 0 if measure is None else measure()


class _Held:
    """One request that counts until it is closed."""

    def __init__(self, connection: ReadConnection) -> None:
        self._connection = connection
        self._size: int | None = None

    def hold(self, request: object) -> None:
        self._size = size_of(request)
        self._connection.ask()
        self._connection.hold(self._size)

    def close(self) -> None:
        size, self._size = self._size, None
        if size is not None:
            self._connection.free(size)
            self._connection.answer()


class _Requests:
    """A client's stream: each message counts until the servicer asks for the next."""

    def __init__(
        self,
        requests: Iterator[object],
        connection: ReadConnection,
        active: Callable[[], bool],
    ) -> None:
        self._requests = requests
        self._connection = connection
        self._active = active
        self._held = _Held(connection)

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        self._held.close()
        self._connection.wait_readable(self._active)
        request = next(self._requests)
        self._held.hold(request)
        return request

    def close(self) -> None:
        self._held.close()


class _AsyncRequests:
    """`_Requests` of a `grpc.aio` server."""

    def __init__(
        self, requests: AsyncIterator[object], connection: ReadConnection
    ) -> None:
        self._requests = requests
        self._connection = connection
        self._held = _Held(connection)

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        self._held.close()
        await self._connection.readable()
        request = await anext(self._requests)
        self._held.hold(request)
        return request

    def close(self) -> None:
        self._held.close()


def read_by_threads(
    inner: Callable[[object, Context], object],
    limits: ReadingLimits,
    *,
    request_streaming: bool,
    response_streaming: bool,
) -> Callable[[object, Context], object]:
    """Return a behaviour that reads when it may, for a threaded server."""

    @contextmanager
    def arrived(given: object, context: Context) -> Generator[object]:
        with limits.connection(context.peer()) as connection:
            active = context.is_active
            if request_streaming:
                requests = _Requests(
                    cast("Iterator[object]", given), connection, active
                )
                with closing(requests):
                    yield requests
                return
            connection.wait_readable(active)
            with closing(_Held(connection)) as held:
                held.hold(given)
                yield given

    def unary(given: object, context: Context) -> object:
        with arrived(given, context) as request:
            return inner(request, context)

    def stream(given: object, context: Context) -> Iterator[object]:
        with arrived(given, context) as request:
            yield from cast("Iterator[object]", inner(request, context))

    return stream if response_streaming else unary


def read_by_tasks(
    inner: Callable[[object, Context], object],
    limits: ReadingLimits,
    *,
    request_streaming: bool,
) -> Callable[[object, Context], object] | None:
    """Return a behaviour that reads when it may, for a server of `grpc.aio`.

    Returns:
        None for a plain function, or one that reads or writes through the context.
    """

    @asynccontextmanager
    async def arrived(given: object, context: Context) -> AsyncGenerator[object]:
        with limits.connection(context.peer()) as connection:
            if request_streaming:
                stream_in = cast("AsyncIterator[object]", given)
                with closing(_AsyncRequests(stream_in, connection)) as requests:
                    yield requests
                return
            await connection.readable()
            with closing(_Held(connection)) as held:
                held.hold(given)
                yield given

    async def unary(given: object, context: Context) -> object:
        async with arrived(given, context) as request:
            return await cast("Awaitable[object]", inner(request, context))

    async def stream(given: object, context: Context) -> AsyncIterator[object]:
        async with arrived(given, context) as request:
            async for response in cast(
                "AsyncIterator[object]", inner(request, context)
            ):
                yield response

    if inspect.iscoroutinefunction(inner):
        return unary
    if inspect.isasyncgenfunction(inner):
        return stream
    return None
