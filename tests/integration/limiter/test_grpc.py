"""The interceptors in real gRPC servers, all four shapes of call."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.limiter.making import make, node_limit

from headgate.agent.decision import Refusal
from headgate.agent.errors import Throttled
from headgate.agent.integrations.grpc_server import (
    AsyncLimitInterceptor,
    Call,
    LimitInterceptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.agent.enforcement.enforcer import Enforcer
    from headgate.coordinator.config.configuration import Refusal as RefusalMode

Grpc = Any
"""grpcio has no types."""

grpc: Grpc = import_module("grpc")
aio: Grpc = import_module("grpc.aio")


def who(call: Call) -> dict[str, str | None] | None:
    tenant = call.metadata.get("tenant")
    return None if tenant is None else {"tenant": tenant}


ACME = (("tenant", "acme"),)


def same(request: Grpc, _: Grpc) -> Grpc:
    return request


def twice(request: Grpc, _: Grpc) -> Grpc:
    return iter([request, request])


def joined(requests: Grpc, _: Grpc) -> Grpc:
    return b"".join(requests)


async def same_async(request: Grpc, _: Grpc) -> Grpc:
    return request


ECHO = grpc.method_handlers_generic_handler(
    "test.Echo",
    {
        "unary_unary": grpc.unary_unary_rpc_method_handler(same),
        "unary_stream": grpc.unary_stream_rpc_method_handler(twice),
        "stream_unary": grpc.stream_unary_rpc_method_handler(joined),
        "stream_stream": grpc.stream_stream_rpc_method_handler(same),
    },
)

ASYNC_ECHO = grpc.method_handlers_generic_handler(
    "test.Echo", {"unary_unary": grpc.unary_unary_rpc_method_handler(same_async)}
)


def call(channel: Grpc, shape: str, metadata: Grpc = ACME) -> Grpc:
    stub = getattr(channel, shape)(f"/test.Echo/{shape}")
    request = iter([b"x"]) if shape.startswith("stream") else b"x"
    answer = stub(request, metadata=metadata, timeout=10)
    return list(answer) if shape.endswith("stream") else answer


def serve(
    interceptor: Grpc, handlers: Grpc = ECHO, pool: ThreadPoolExecutor | None = None
) -> tuple[Grpc, Grpc]:
    server = grpc.server(pool or ThreadPoolExecutor(4), interceptors=[interceptor])
    server.add_generic_rpc_handlers([handlers])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, grpc.insecure_channel(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "shape", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]
)
def test_a_refused_call_is_resource_exhausted_and_says_when_to_come_back(
    shape: str,
) -> None:
    enforcer = make(node_limit("requests", 0.01, 1))
    server, channel = serve(LimitInterceptor(enforcer, subject=who))
    try:
        call(channel, shape)
        call(channel, shape)
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, shape)
        error: Grpc = caught.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "gold" in error.details()
        trailers = dict(error.trailing_metadata())
        assert 90_000 < int(trailers["retry-after-ms"]) <= 100_000
        assert trailers["grpc-retry-pushback-ms"] == trailers["retry-after-ms"]
        call(channel, shape, metadata=())  # nobody's: no limit
    finally:
        channel.close()
        server.stop(None).wait()


@pytest.mark.parametrize("shape", ["unary_unary", "stream_stream"])
def test_a_tenant_that_can_t_be_one_is_told_so(shape: str) -> None:
    enforcer = make(node_limit("requests", 1, 1))
    server, channel = serve(LimitInterceptor(enforcer, subject=who))
    try:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, shape, metadata=(("tenant", "acme/orders"),))
        error: Grpc = caught.value
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details().startswith("tenant: expected a name without '/'")
    finally:
        channel.close()
        server.stop(None).wait()


def test_a_tenant_that_can_t_be_one_is_told_so_by_an_asynchronous_server() -> None:
    async def main() -> None:
        enforcer = make(node_limit("requests", 1, 1))
        server = aio.server(interceptors=[AsyncLimitInterceptor(enforcer, subject=who)])
        server.add_generic_rpc_handlers([ASYNC_ECHO])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            echo = channel.unary_unary("/test.Echo/unary_unary")
            with pytest.raises(aio.AioRpcError) as caught:
                await echo(b"x", metadata=(("tenant", ""),), timeout=10)
        await server.stop(None)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "expected a name of 1 to" in caught.value.details()

    asyncio.run(main())


def test_a_method_that_there_is_not_stays_unimplemented() -> None:
    enforcer = make(node_limit("requests", 0.1, 1))
    server, channel = serve(LimitInterceptor(enforcer, subject=who))
    try:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Echo/nothing")(b"x", metadata=ACME, timeout=10)
        error: Grpc = caught.value
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        channel.close()
        server.stop(None).wait()


@pytest.mark.parametrize("mode", ["wait", "delay", "reject"])
def test_a_call_that_waits_holds_up_no_other(mode: RefusalMode) -> None:
    """gRPC calls the interceptors of all calls in one thread."""
    enforcer = make(node_limit("requests", 0.25, 1), refusal=mode)
    enforcer.limiter(tenant="acme").charge(requests=2)
    interceptor = LimitInterceptor(
        enforcer, subject=who, longest_wait_s=5.0, mute_refused=True
    )
    server, channel = serve(interceptor)
    try:
        if mode == "reject":
            with pytest.raises(grpc.RpcError):
                call(channel, "unary_unary")
        stub = channel.unary_unary("/test.Echo/unary_unary")
        waiting = stub.future(b"x", metadata=ACME, timeout=10)
        for shape in ("unary_unary", "unary_stream"):
            call(channel, shape, metadata=())
        assert not waiting.done()
        waiting.cancel()
    finally:
        channel.close()
        server.stop(None)


def test_calls_whose_client_is_gone_are_not_served_and_hold_no_thread() -> None:
    enforcer = make(node_limit("requests", 0.01, 1), refusal="wait")
    enforcer.limiter(tenant="acme").charge(requests=2)
    served: list[str] = []

    def note(request: Grpc, _: Grpc) -> Grpc:
        served.append("one")
        return request

    noting = grpc.method_handlers_generic_handler(
        "test.Echo", {"unary_unary": grpc.unary_unary_rpc_method_handler(note)}
    )
    waiting = LimitInterceptor(enforcer, subject=who, longest_wait_s=60.0)
    server, channel = serve(waiting, noting)
    try:
        stub = channel.unary_unary("/test.Echo/unary_unary")
        calls = [stub.future(b"x", metadata=ACME, timeout=0.2) for _ in range(8)]
        assert {c.code() for c in calls} <= {
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        }
        call(channel, "unary_unary", metadata=())  # all four threads are free
        assert served == ["one"]
    finally:
        channel.close()
        server.stop(None)


class Gone:
    """The context of a call whose client is gone."""

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float | None:
        return None

    def abort(self, code: Grpc, details: str) -> None:
        raise RuntimeError(code.name, details)


def test_a_client_that_is_gone_is_charged_nothing() -> None:
    limiter = (enforcer := make(node_limit("requests", 0.01, 1))).limiter(tenant="acme")
    handler = grpc.unary_unary_rpc_method_handler(same)
    details = SimpleNamespace(method="/test.Echo/x", invocation_metadata=ACME)
    limited: Grpc = LimitInterceptor(enforcer, subject=who)

    def find(_: object) -> Grpc:
        return handler

    with pytest.raises(RuntimeError, match="CANCELLED"):
        limited.intercept_service(find, details).unary_unary(b"", Gone())
    decisions = [bool(limiter.try_acquire(requests=1)) for _ in range(3)]
    assert decisions == [True, True, False], "one, and one in debt"


def charged(enforcer: Enforcer) -> float:
    return sum(use.admitted for use in enforcer.usage())


@pytest.mark.parametrize("mode", ["wait", "delay"])
def test_a_call_that_is_cancelled_while_it_is_held_is_charged_nothing(
    mode: RefusalMode,
) -> None:
    enforcer = make(node_limit("requests", 1.0, 1), refusal=mode)
    enforcer.limiter(tenant="acme").charge(requests=3)
    pool = ThreadPoolExecutor(1)
    server, channel = serve(LimitInterceptor(enforcer, subject=who), pool=pool)
    try:
        echo = channel.unary_unary("/test.Echo/unary_unary")
        held = echo.future(b"x", metadata=ACME)
        deadline_s = time.monotonic() + 30.0
        while not enforcer.metrics()["waiting"] and charged(enforcer) < 4.0:
            assert time.monotonic() < deadline_s, "no call"
            time.sleep(0.01)
        assert held.cancel()
        pool.shutdown()  # it has left its thread
        assert charged(enforcer) == 3.0
    finally:
        channel.close()
        server.stop(None)


@pytest.mark.parametrize("mode", ["wait", "delay"])
def test_an_asynchronous_server_charges_no_call_that_is_cancelled_while_it_is_held(
    mode: RefusalMode,
) -> None:
    async def until(done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 30.0
        while not done():
            assert time.monotonic() < deadline_s, f"charged {charged(enforcer)}"
            await asyncio.sleep(0.01)

    async def main() -> None:
        server = aio.server(interceptors=[AsyncLimitInterceptor(enforcer, subject=who)])
        server.add_generic_rpc_handlers([ASYNC_ECHO])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            held = channel.unary_unary("/test.Echo/unary_unary")(b"x", metadata=ACME)
            await until(
                lambda: bool(enforcer.metrics()["waiting"]) or charged(enforcer) == 4.0
            )
            held.cancel()
            await until(
                lambda: not enforcer.metrics()["waiting"] and charged(enforcer) == 3.0
            )
        await server.stop(None)

    enforcer = make(node_limit("requests", 0.01, 1), refusal=mode)
    enforcer.limiter(tenant="acme").charge(requests=3)
    asyncio.run(main())


def test_an_asynchronous_server_refuses_and_waits_alike() -> None:
    async def main() -> None:
        refusing = make(node_limit("requests", 0.01, 1))
        waiting = make(node_limit("requests", 50, 1), refusal="wait")
        for enforcer, waits in ((refusing, False), (waiting, True)):
            interceptor = AsyncLimitInterceptor(enforcer, subject=who)
            server = aio.server(interceptors=[interceptor])
            server.add_generic_rpc_handlers([ASYNC_ECHO])
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                echo = channel.unary_unary("/test.Echo/unary_unary")
                codes: list[Grpc] = []
                for _ in range(4):
                    try:
                        await echo(b"x", metadata=ACME, timeout=10)
                        codes.append(None)
                    except aio.AioRpcError as error:
                        codes.append(error.code())
            await server.stop(None)
            exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
            assert codes == ([None] * 4 if waits else [None] * 2 + [exhausted] * 2)

    asyncio.run(main())


def told_ms(error: Grpc) -> int:
    return int(dict(error.trailing_metadata())["retry-after-ms"])


def forward(_: Grpc, __: Grpc) -> Grpc:
    raise Throttled(Refusal(delay_s=50.0), at_s=time.monotonic() - 20.0)


def forward_some(request: Grpc, _: Grpc) -> Grpc:
    yield request
    raise Throttled(Refusal(delay_s=50.0), at_s=time.monotonic() - 20.0)


async def forward_async(_: Grpc, __: Grpc) -> Grpc:
    raise Throttled(Refusal(delay_s=50.0), at_s=time.monotonic() - 20.0)


FORWARD = grpc.method_handlers_generic_handler(
    "test.Echo",
    {
        "unary_unary": grpc.unary_unary_rpc_method_handler(forward),
        "unary_stream": grpc.unary_stream_rpc_method_handler(forward_some),
    },
)

ASYNC_FORWARD = grpc.method_handlers_generic_handler(
    "test.Echo", {"unary_unary": grpc.unary_unary_rpc_method_handler(forward_async)}
)


@pytest.mark.parametrize("shape", ["unary_unary", "unary_stream"])
def test_kip599_the_trailers_tell_what_a_controller_said_less_what_was_waited(
    shape: str,
) -> None:
    enforcer = make(node_limit("requests", 1000, 1000))
    server, channel = serve(LimitInterceptor(enforcer, subject=who), FORWARD)
    try:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, shape)
        error: Grpc = caught.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 25_000 < told_ms(error) <= 30_000
    finally:
        channel.close()
        server.stop(None).wait()


@pytest.mark.parametrize("pending", [None, 10])
def test_kip599_an_asynchronous_server_tells_what_its_plain_functions_were_told(
    pending: int | None,
) -> None:
    async def main() -> None:
        enforcer = make(node_limit("requests", 1000, 1000))
        interceptor = AsyncLimitInterceptor(
            enforcer, subject=who, max_pending_requests_per_connection=pending
        )
        server = aio.server(interceptors=[interceptor])
        server.add_generic_rpc_handlers([FORWARD])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            unary = channel.unary_unary("/test.Echo/unary_unary")
            with pytest.raises(aio.AioRpcError) as caught:
                await unary(b"x", metadata=ACME, timeout=10)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert 25_000 < told_ms(caught.value) <= 30_000
            stream = channel.unary_stream("/test.Echo/unary_stream")
            responses = stream(b"x", metadata=ACME, timeout=10)
            assert await responses.read() == b"x"
            with pytest.raises(aio.AioRpcError) as caught:
                await responses.read()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert 25_000 < told_ms(caught.value) <= 30_000
        await server.stop(None)

    asyncio.run(main())


def test_kip599_a_caller_that_was_refused_is_muted_for_its_delay() -> None:
    enforcer = make(node_limit("requests", 10, 1))
    interceptor = LimitInterceptor(enforcer, subject=who, mute_refused=True)
    server, channel = serve(interceptor)
    try:
        call(channel, "unary_unary", metadata=())  # to be connected
        enforcer.limiter(tenant="acme").charge(requests=20)
        with pytest.raises(grpc.RpcError):
            call(channel, "unary_unary")
        began_s = time.monotonic()
        call(channel, "unary_unary", metadata=())  # others go on meanwhile
        assert time.monotonic() - began_s < 1.0
        call(channel, "unary_unary")
        assert time.monotonic() - began_s >= 1.0
    finally:
        channel.close()
        server.stop(None).wait()


def test_kip599_an_asynchronous_server_tells_and_mutes_alike() -> None:
    async def main() -> None:
        enforcer = make(node_limit("requests", 10, 1))
        interceptor = AsyncLimitInterceptor(enforcer, subject=who, mute_refused=True)
        server = aio.server(interceptors=[interceptor])
        server.add_generic_rpc_handlers([ASYNC_FORWARD])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            forwarded = channel.unary_unary("/test.Echo/unary_unary")
            with pytest.raises(aio.AioRpcError) as caught:
                await forwarded(b"x", metadata=(("tenant", "other"),), timeout=10)
            assert 25_000 < told_ms(caught.value) <= 30_000
            limiter = enforcer.limiter(tenant="acme")
            limiter.charge(requests=20)
            with pytest.raises(aio.AioRpcError) as caught:
                await forwarded(b"x", metadata=ACME, timeout=10)
            assert 500 < told_ms(caught.value) <= 2_000
            began_s = time.monotonic()
            with pytest.raises(aio.AioRpcError) as caught:
                await forwarded(b"x", metadata=ACME, timeout=10)
            assert time.monotonic() - began_s >= 1.0
            assert 25_000 < told_ms(caught.value) <= 30_000
        await server.stop(None)

    asyncio.run(main())
