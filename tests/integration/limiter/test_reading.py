"""Servers that stop reading: a raw client sees that its bytes are not taken."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx
import hypercorn
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect
from tests.integration.agent.rigs import PATIENCE_S
from tests.integration.limiter.making import make, node_limit, served
from websockets.sync.client import connect

from headgate.agent.integrations.asgi import LimitMiddleware, Scope
from headgate.agent.integrations.grpc_server import (
    AsyncLimitInterceptor,
    Call,
    LimitInterceptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from starlette.requests import Request
    from starlette.websockets import WebSocket

Grpc = Any
"""grpcio has no types."""

grpc: Grpc = import_module("grpc")
aio: Grpc = import_module("grpc.aio")

hypercorn_asyncio: Any = import_module("hypercorn.asyncio")
"""Its types are known in part."""

MIB = 1 << 20
BUFFER = 64 << 10
"""Of each socket, so that little fits between client and server."""

BODY = 16 * MIB
"""More than all buffers between a client and an application hold."""

QUIET_S = 0.5
"""Nothing is taken for so long: the client is blocked, not slow."""


def nobody(_: Scope) -> None:
    return None


class Server:
    """An application whose answers wait until they are let go."""

    def __init__(
        self, *, pending: int | None = None, buffered: int | None = None
    ) -> None:
        self.held = threading.Semaphore(0)
        self.arrived = 0
        self.read = 0
        app = Starlette(
            routes=[
                Route("/", self._post, methods=["POST"]),
                WebSocketRoute("/socket", self._socket),
            ]
        )
        self.app = LimitMiddleware(
            app,
            source=make(node_limit("requests", 1000, 1000)),
            subject=nobody,
            max_pending_requests_per_connection=pending,
            max_buffered_bytes=buffered,
        )

    async def _post(self, request: Request) -> PlainTextResponse:
        async for part in request.stream():
            self.read += len(part)
        self.arrived += 1
        await asyncio.to_thread(self.held.acquire)
        return PlainTextResponse("done")

    async def _socket(self, socket_: WebSocket) -> None:
        async def answer(text: str) -> None:
            await asyncio.to_thread(self.held.acquire)
            await socket_.send_text(text)

        await socket_.accept()
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    text = await socket_.receive_text()
                    self.arrived += 1
                    tasks.create_task(answer(text))
            except WebSocketDisconnect:
                return


@contextmanager
def serving(server: Server) -> Generator[str]:
    with served(server.app) as url:
        try:
            yield url
        finally:
            server.held.release(100)


@contextmanager
def raw_client(url: str) -> Generator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as it:
        it.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        it.connect((host, int(port)))
        it.setblocking(False)
        yield it


def begin_post(client: socket.socket, size: int) -> None:
    client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)


def send(client: socket.socket, most: int, quiet_s: float = PATIENCE_S) -> int:
    """Send until nothing has been taken for so long; return the bytes taken."""
    part, sent = b"x" * BUFFER, 0
    while sent < most:
        if not select.select([], [client], [], quiet_s)[1]:
            break
        sent += client.send(part[: most - sent])
    return sent


def receive(client: socket.socket) -> bytes:
    assert select.select([client], [], [], PATIENCE_S)[0], "an answer"
    return client.recv(1 << 16)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.005)


def answer_until_read_again(server: Server) -> None:
    """Check that four of one connection are pending and one of another; answer all."""
    time.sleep(QUIET_S)
    assert server.arrived == 5
    server.held.release(3)  # at least two of the four are answered: read on
    until(lambda: server.arrived >= 7, "reading again")
    server.held.release(10)


def test_pip322_a_server_stops_reading_while_its_publish_buffers_are_full() -> None:
    server = Server(buffered=MIB)
    with (
        serving(server) as url,
        raw_client(url) as full,
        raw_client(url) as other,
    ):
        begin_post(other, BODY)  # begins while there is room
        other.send(b"x" * 1000)
        until(lambda: server.read >= 1000, "the beginning of a body")
        begin_post(full, MIB)
        assert send(full, MIB) == MIB  # its own body arrives whole
        until(lambda: server.arrived == 1, "the request that fills the buffers")
        sent = 1000 + send(other, BODY - 1000, QUIET_S)
        assert sent < BODY, "its bytes are not taken any more"
        server.held.release()
        assert b"200 OK" in receive(full)
        server.held.release()
        assert sent + send(other, BODY - sent) == BODY
        assert b"200 OK" in receive(other)


def test_pip322_a_request_that_never_arrives_whole_holds_nobody_up() -> None:
    server = Server(buffered=MIB)
    with (
        serving(server) as url,
        raw_client(url) as slow,
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        begin_post(slow, BODY)
        assert send(slow, 2 * MIB) == 2 * MIB
        until(lambda: server.read == 2 * MIB, "twice the limit, and no end of it")
        server.held.release()
        assert client.post(url, content=b"x").status_code == 200


def test_pip322_a_connection_with_too_many_pending_requests_is_not_read() -> None:
    server = Server(pending=4)
    with (
        serving(server) as url,
        connect(f"{url.replace('http', 'ws')}/socket") as busy,
        connect(f"{url.replace('http', 'ws')}/socket") as other,
    ):
        for number in range(9):
            busy.send(str(number))
        until(lambda: server.arrived >= 4, "as many as may be pending")
        other.send("other")  # another connection is read meanwhile
        until(lambda: server.arrived >= 5, "another connection's message")
        answer_until_read_again(server)
        told = [busy.recv(timeout=PATIENCE_S) for _ in range(9)]
        assert sorted(told) == [str(number) for number in range(9)]
        assert other.recv(timeout=PATIENCE_S) == "other"


@contextmanager
def serving_http2(server: Server) -> Generator[str]:
    """Serve with hypercorn, which speaks HTTP/2 without TLS to those who begin so."""
    stop = threading.Event()
    config = hypercorn.Config()
    listener = socket.create_server(("127.0.0.1", 0))
    config.bind = [f"fd://{listener.fileno()}"]

    async def main() -> None:
        ended = partial(asyncio.to_thread, stop.wait)
        await hypercorn_asyncio.serve(server.app, config, shutdown_trigger=ended)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.held.release(100)
        stop.set()
        thread.join()
        listener.detach()  # the server closed it


def over_http2(url: str) -> httpx.Client:
    """Return a client whose requests share one connection."""
    return httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S)


def test_pip322_a_connection_with_too_many_requests_over_http2_is_not_read() -> None:
    server = Server(pending=4)
    with (
        serving_http2(server) as url,
        over_http2(url) as busy,
        over_http2(url) as other,
        ThreadPoolExecutor(10) as threads,
    ):
        answers = [threads.submit(busy.post, "/", content=b"x") for _ in range(9)]
        until(lambda: server.arrived >= 4, "as many as may be pending")
        answers.append(threads.submit(other.post, "/", content=b"x"))
        until(lambda: server.arrived >= 5, "another connection's request")
        answer_until_read_again(server)
        for answer in answers:
            assert answer.result(PATIENCE_S).http_version == "HTTP/2"
            assert answer.result().text == "done"


def test_pip322_a_body_without_a_length_over_http2_counts_once_it_is_whole() -> None:
    server = Server(buffered=MIB)

    def parts() -> Iterator[bytes]:
        for _ in range(MIB // BUFFER):
            yield b"x" * BUFFER

    with (
        serving_http2(server) as url,
        over_http2(url) as full,
        over_http2(url) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        answers = [threads.submit(full.post, "/", content=parts())]
        until(lambda: server.arrived == 1, "the request that fills the buffers")
        answers.append(threads.submit(other.post, "/", content=b"x"))
        time.sleep(QUIET_S)
        assert server.arrived == 1, "the other connection is not read"
        server.held.release()
        until(lambda: server.arrived == 2, "reading again")
        server.held.release()
        assert [answer.result(PATIENCE_S).text for answer in answers] == ["done"] * 2


def test_limits_on_reading_below_one_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="max_pending_requests_per_connection: exp"):
        Server(pending=0)
    with pytest.raises(ValueError, match="max_buffered_bytes: expected at least 1"):
        LimitInterceptor(make(), subject=who, max_buffered_bytes=-1)


def who(_: Call) -> None:
    return None


class Service:
    """A servicer whose unary calls wait until they are let go, on two kinds of server.

    Attributes:
        inside: Unary calls in the servicer.
        most_inside: The most at once.
    """

    def __init__(self) -> None:
        self.held = threading.Semaphore(0)
        self.inside = 0
        self.most_inside = 0
        self._lock = threading.Lock()

    def count(self, change: int) -> None:
        with self._lock:
            self.inside += change
            self.most_inside = max(self.most_inside, self.inside)

    def hold(self, request: Grpc, _: Grpc) -> Grpc:
        self.count(1)
        self.held.acquire()
        self.count(-1)
        return request

    async def hold_async(self, request: Grpc, context: Grpc) -> Grpc:
        return await asyncio.to_thread(self.hold, request, context)

    def total(self, requests: Grpc, _: Grpc) -> Grpc:
        return str(sum(len(one) for one in requests)).encode()

    async def total_async(self, requests: Grpc, _: Grpc) -> Grpc:
        return str(sum([len(one) async for one in requests])).encode()

    def handlers(self, hold: Grpc, total: Grpc) -> Grpc:
        return grpc.method_handlers_generic_handler(
            "test.Held",
            {
                "Hold": grpc.unary_unary_rpc_method_handler(hold),
                "Total": grpc.stream_unary_rpc_method_handler(total),
            },
        )


@contextmanager
def threaded(
    service: Service, pending: int | None = None, buffered: int | None = None
) -> Generator[str]:
    interceptor = LimitInterceptor(
        make(),
        subject=who,
        max_pending_requests_per_connection=pending,
        max_buffered_bytes=buffered,
    )
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[interceptor])
    server.add_generic_rpc_handlers([service.handlers(service.hold, service.total)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        service.held.release(100)
        server.stop(None).wait()


@contextmanager
def on_asyncio(
    service: Service, pending: int | None = None, buffered: int | None = None
) -> Generator[str]:
    ports: list[int] = []
    ready, done = threading.Event(), threading.Event()

    async def main() -> None:
        interceptor = AsyncLimitInterceptor(
            make(),
            subject=who,
            max_pending_requests_per_connection=pending,
            max_buffered_bytes=buffered,
        )
        server = aio.server(interceptors=[interceptor])
        handlers = service.handlers(service.hold_async, service.total_async)
        server.add_generic_rpc_handlers([handlers])
        ports.append(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        ready.set()
        await asyncio.to_thread(done.wait)
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        service.held.release(100)
        done.set()
        thread.join()


@pytest.mark.parametrize("serve", [threaded, on_asyncio])
def test_pip322_a_grpc_server_reads_no_stream_while_its_buffers_are_full(
    serve: Grpc,
) -> None:
    service = Service()
    sent = 0

    def stream() -> Iterator[bytes]:
        nonlocal sent
        while sent < BODY:
            sent += BUFFER
            yield b"x" * BUFFER

    with ExitStack() as stack:
        address = stack.enter_context(serve(service, buffered=MIB))
        channel = stack.enter_context(grpc.insecure_channel(address))
        full = channel.unary_unary("/test.Held/Hold").future(b"x" * MIB)
        until(lambda: service.inside == 1, "the call that fills the buffers")
        total = channel.stream_unary("/test.Held/Total").future(stream())
        before = -1
        while before != sent:  # until nothing has been taken for a while
            before = sent
            time.sleep(QUIET_S)
        assert sent < BODY, "the client is blocked"
        service.held.release()
        assert full.result(PATIENCE_S) == b"x" * MIB
        assert total.result(PATIENCE_S) == str(BODY).encode()


@pytest.mark.parametrize("serve", [threaded, on_asyncio])
def test_pip322_a_grpc_server_holds_what_is_too_much_for_one_connection(
    serve: Grpc,
) -> None:
    service = Service()
    with ExitStack() as stack:
        address = stack.enter_context(serve(service, pending=2))
        # Without the option, channels of one process share one connection.
        own = [("grpc.use_local_subchannel_pool", 1)]
        busy, other = (
            stack.enter_context(grpc.insecure_channel(address, options=own))
            for _ in range(2)
        )
        calls = [busy.unary_unary("/test.Held/Hold").future(b"x") for _ in range(5)]
        until(lambda: service.inside >= 2, "as many as may be pending")
        calls.append(other.unary_unary("/test.Held/Hold").future(b"x"))
        until(lambda: service.inside >= 3, "another connection's call")
        time.sleep(QUIET_S)
        assert service.inside == 3
        for _ in calls:
            service.held.release()
        for one in calls:
            assert one.result(PATIENCE_S) == b"x"
        assert service.most_inside == 3
