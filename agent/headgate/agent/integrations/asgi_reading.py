"""An ASGI connection that is read only while no limit on reading is reached.

An application reads by calling `receive`.  While that call is held, the server fills
its own buffer (uvicorn: 64 KiB) and then stops reading from the socket, so that the
client's `send` blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, MutableMapping

    from headgate.agent.integrations.reading import ReadConnection, ReadingLimits

    Scope = MutableMapping[str, object]
    Message = MutableMapping[str, object]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

HAS_BODY = (b"content-length", b"transfer-encoding")
"""A request without one of these headers has arrived whole with its head, except over
HTTP/2, where a body needs none: it counts from its head until more of it comes."""


async def serve_readable(
    app: App, limits: ReadingLimits, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a request or WebSocket once its connection may be read."""
    with limits.connection(_client(scope)) as connection:
        await connection.readable()
        if scope["type"] == "websocket":
            messages = _Messages(connection, receive, send)
            try:
                await app(scope, messages.receive, messages.send)
            finally:
                messages.close()
            return
        request = _Request(connection, receive, send)
        if not _has_body(scope):
            request.arrive()
        try:
            await app(scope, request.receive, request.send)
        finally:
            request.close()


class _Request:
    """One HTTP request: it counts from the end of its body to its response's end."""

    def __init__(
        self, connection: ReadConnection, receive: Receive, send: Send
    ) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._size = 0
        self._reads = True
        self._counts = False

    async def receive(self) -> Message:
        if self._reads:
            await self._connection.readable()
        message = await self._receive()
        if message["type"] != "http.request":  # the client is gone
            self._reads = False
            return message
        size = len(cast("bytes", message.get("body", b"")))
        more = message.get("more_body")
        if self._counts and (more or size):  # HTTP/2: a body without a header
            self._leave()
            self._reads = True
        if self._reads:
            self._size += size
            if not more:
                self.arrive()
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.close()

    def arrive(self) -> None:
        self._reads = False
        self._counts = True
        self._connection.ask()
        self._connection.hold(self._size)

    def close(self) -> None:
        self._reads = False
        if self._counts:
            self._leave()

    def _leave(self) -> None:
        self._counts = False
        self._connection.free(self._size)
        self._connection.answer()


class _Messages:
    """The messages of a WebSocket.

    A message counts as pending until the application has sent one in return, and its
    bytes count until the application asks for the next.
    """

    def __init__(
        self, connection: ReadConnection, receive: Receive, send: Send
    ) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._pending = 0
        self._size = 0

    async def receive(self) -> Message:
        self._free()  # otherwise a message above the limit would wait for itself
        await self._connection.readable()
        message = await self._receive()
        if message["type"] == "websocket.receive":
            data = cast(
                "bytes | str", message.get("bytes") or message.get("text") or b""
            )
            self._size = len(data.encode() if isinstance(data, str) else data)
            self._connection.hold(self._size)
            self._pending += 1
            self._connection.ask()
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        if self._pending and message["type"] == "websocket.send":
            self._pending -= 1
            self._connection.answer()

    def close(self) -> None:
        self._free()
        while self._pending:
            self._pending -= 1
            self._connection.answer()

    def _free(self) -> None:
        size, self._size = self._size, 0
        self._connection.free(size)


def _client(scope: Scope) -> Hashable:
    client = scope.get("client")
    return tuple(cast("tuple[str, int]", client)) if client else None


def _has_body(scope: Scope) -> bool:
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    return any(name in HAS_BODY and value != b"0" for name, value in headers)
