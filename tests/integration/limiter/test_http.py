"""The middleware in front of real applications, the transport behind real servers."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ceil, inf
from typing import TYPE_CHECKING, cast

import httpx
import pytest
from fastapi import FastAPI
from fastapi.middleware import Middleware
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from tests.integration.agent.rigs import PATIENCE_S
from tests.integration.limiter.making import configure, make, node_limit, served
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headgate.agent.decision import LimitName, Refusal
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import Throttled
from headgate.agent.integrations import notice_stream
from headgate.agent.integrations.asgi import (
    LimitMiddleware,
    Receive,
    Scope,
    Send,
    header,
)
from headgate.agent.integrations.http_client import (
    AsyncRetryThrottled,
    RetryThrottled,
    throttle_delay_s,
)
from headgate.agent.integrations.notice_stream import NoticeStream
from headgate.coordinator import Attachment, Configuration, Group, SetSlots

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from starlette.requests import Request

    from headgate.coordinator.config.configuration import Limit
    from headgate.coordinator.config.configuration import Refusal as RefusalMode


def who(scope: Scope) -> dict[str, str | None] | None:
    tenant, client = header(scope, b"x-tenant"), header(scope, b"x-client")
    return None if tenant is None else {"tenant": tenant, "client": client}


ACME = {"x-tenant": "acme"}


def fastapi(**options: object) -> FastAPI:
    app = FastAPI(middleware=[Middleware(LimitMiddleware, subject=who, **options)])  # type: ignore[arg-type]  # options by name

    @app.get("/")
    def root() -> dict[str, str]:
        return {"hello": "world"}

    return app


def test_fastapi_answers_429_with_exact_retry_after_and_ratelimit_headers() -> None:
    enforcer = make(node_limit("requests", 0.02, 3))
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        answers = [client.get(url, headers=ACME) for _ in range(6)]
        assert [a.status_code for a in answers] == [200] * 4 + [429] * 2
        assert answers[0].headers["ratelimit-policy"] == '"gold.requests";q=1;w=50'
        assert answers[0].headers["ratelimit"] == '"gold.requests";r=2;t=50'
        refused = answers[-1]
        assert refused.headers["content-type"] == "application/problem+json"
        body = refused.json()
        assert body["status"] == 429
        assert 0 < body["throttle_time_ms"] <= 50_000
        seconds = ceil(body["throttle_time_ms"] / 1_000)
        assert refused.headers["retry-after"] == str(seconds)
        assert "gold" in body["detail"]


@pytest.mark.parametrize("tenant", ["", "acme/orders", "x" * 5_000])
@pytest.mark.parametrize("named", [True, False])
def test_a_tenant_that_can_t_be_one_is_answered_400(tenant: str, named: bool) -> None:
    def asker(scope: Scope) -> dict[str, str | None] | str | None:
        return who(scope) if named else header(scope, b"x-tenant")

    enforcer = make(node_limit("requests", 1, 1))
    app = Starlette(
        middleware=[Middleware(LimitMiddleware, source=enforcer, subject=asker)]
    )
    with served(app) as url, httpx.Client(timeout=PATIENCE_S) as client:
        answer = client.get(url, headers={"x-tenant": tenant})
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"].startswith("the caller can't be determined: ")


def test_a_request_holds_a_slot_until_its_response_has_ended() -> None:
    source = Enforcer(clock=time.monotonic)
    gold = Group(id=1, name="gold", limits=(), slots=1)
    attached = (Attachment((("tenant", "acme"),), 1),)
    source.configure(
        Configuration(revision=1, groups=(gold,), attachments=attached),
        time.monotonic(),
    )
    limiter = source.limiter(tenant="acme")
    assert limiter.has_slots
    source.hold(SetSlots({1: 1}, inf))
    inside: list[bool] = []

    async def root(_: object) -> PlainTextResponse:
        inside.append(bool(limiter.try_slot()))
        return PlainTextResponse("hello")

    app = Starlette(
        routes=[Route("/", root)],
        middleware=[
            Middleware(LimitMiddleware, source=source, subject=who, slots=True)
        ],
    )
    with served(app) as url, httpx.Client(timeout=PATIENCE_S) as client:
        assert client.get(url, headers=ACME).status_code == 200
        assert inside == [False], "it is this request's"
        deadline_s = time.monotonic() + PATIENCE_S
        # The response is here a moment before its request has ended.
        while not (held := limiter.try_slot()):
            assert time.monotonic() < deadline_s, "the slot comes back"
            time.sleep(0.001)
        refused = client.get(url, headers=ACME)
        assert refused.status_code == 429
        assert "slots_in_flight of group 'gold'" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        held.release()
        assert client.get(url, headers=ACME).status_code == 200


def one_slot(
    *limits: Limit,
    clock: Callable[[], float] = time.monotonic,
    refusal: RefusalMode = "reject",
) -> Enforcer:
    """Return a source whose tenant acme has one slot in flight."""
    source = Enforcer(clock=clock)
    gold = Group(id=1, name="gold", limits=limits, slots=1, refusal=refusal)
    attached = (Attachment((("tenant", "acme"),), 1),)
    source.configure(
        Configuration(revision=1, groups=(gold,), attachments=attached), clock()
    )
    assert source.limiter(tenant="acme").has_slots
    source.hold(SetSlots({1: 1}, inf))
    return source


def test_a_caller_that_is_refused_and_muted_holds_no_slot() -> None:
    source = one_slot(node_limit("requests", 1, 1))
    limiter = source.limiter(tenant="acme")
    limiter.charge(requests=6)
    app = fastapi(source=source, slots=True, mute_refused=True)
    with served(app) as url, httpx.Client(timeout=PATIENCE_S) as client:
        refused = client.get(url, headers=ACME)
        assert refused.status_code == 429
        # It is muted for five seconds, and others may work meanwhile.
        assert limiter.try_slot()


@pytest.mark.parametrize("refusal", ["reject", "delay"])
def test_a_caller_that_is_muted_after_its_answer_holds_no_slot(
    refusal: RefusalMode,
) -> None:
    """A controller refused its application, or it was admitted with a delay."""
    source = one_slot(node_limit("requests", 1, 1), refusal=refusal)
    limiter = source.limiter(tenant="acme")
    delays = refusal == "delay"
    limiter.charge(requests=6 * delays)

    async def root(_: object) -> PlainTextResponse:
        if not delays:
            raise Throttled(Refusal(delay_s=5.0))
        return PlainTextResponse("hello")

    options = {"subject": who, "slots": True, "mute_refused": True}
    limited = Middleware(LimitMiddleware, source=source, **options)  # type: ignore[arg-type]  # options by name
    app = Starlette(routes=[Route("/", root)], middleware=[limited])
    with (
        served(app) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("GET", url, headers=ACME) as answer,
    ):
        assert answer.status_code == (200 if delays else 429)
        deadline_s = time.monotonic() + 2.0
        while not limiter.try_slot():
            assert time.monotonic() < deadline_s, "muted for five seconds"
            time.sleep(0.01)


def test_a_caller_that_found_no_slot_is_muted_alike() -> None:
    source = one_slot()
    held = source.limiter(tenant="acme").try_slot()
    app = fastapi(source=source, slots=True, mute_refused=True)
    with served(app) as url, httpx.Client(timeout=PATIENCE_S) as client:
        refused = client.get(url, headers=ACME)
        assert refused.status_code == 429
        held.release()
        began_s = time.monotonic()
        assert client.get(url, headers=ACME).status_code == 200
        told_s = refused.json()["throttle_time_ms"] / 1e3
        # It began when the server had sent the answer, before it was read here.
        assert time.monotonic() - began_s >= 0.5 * told_s


def test_a_websocket_holds_its_slot_for_as_long_as_it_lasts() -> None:
    passed_s = 0.0
    source = one_slot(clock=lambda: time.monotonic() + passed_s)

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    app = LimitMiddleware(echo, source=source, subject=who, slots=True)
    with served(app) as url:
        address = url.replace("http", "ws", 1)
        with connect(address, additional_headers=ACME, proxy=None) as socket:
            passed_s = 7_200.0  # longer than the usual lease
            source.counts(source.clock())
            assert source.metrics()["slots_in_use"] == 1.0
            socket.send("still here")
            assert socket.recv() == "still here"
        deadline_s = time.monotonic() + PATIENCE_S
        while source.metrics()["slots_in_use"]:
            assert time.monotonic() < deadline_s, "the slot comes back"
            time.sleep(0.01)


def test_a_websocket_whose_application_was_refused_is_closed_with_a_reason() -> None:
    long_name = LimitName("zoë" * 100, "requests", "tenant")

    async def forward(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        raise Throttled(Refusal(delay_s=5.0, limit=long_name))

    source = make(node_limit("requests", 1000, 1000))
    app = LimitMiddleware(forward, source=source, subject=who)
    with served(app) as url:
        address = url.replace("http", "ws", 1)
        with connect(address, additional_headers=ACME, proxy=None) as socket:
            with pytest.raises(ConnectionClosed):
                socket.recv()
            assert socket.close_code == 1013
            assert socket.close_reason is not None
            assert socket.close_reason.startswith("refused by requests of group 'zoë")


def test_a_group_that_says_so_has_its_callers_wait_for_a_slot() -> None:
    source = Enforcer(clock=time.monotonic)
    gold = Group(id=1, name="gold", limits=(), slots=1, refusal="wait")
    attached = (Attachment((("tenant", "acme"),), 1),)
    source.configure(
        Configuration(revision=1, groups=(gold,), attachments=attached),
        time.monotonic(),
    )
    limiter = source.limiter(tenant="acme")
    source.hold(SetSlots({1: 1}, inf))
    at_work: list[object] = []

    async def root(request: Request) -> PlainTextResponse:
        at_work.append(request)
        await asyncio.sleep(0.05)
        assert len(at_work) == 1
        at_work.remove(request)
        return PlainTextResponse("hello")

    app = Starlette(
        routes=[Route("/", root)],
        middleware=[
            Middleware(LimitMiddleware, source=source, subject=who, slots=True)
        ],
    )

    async def main(url: str) -> list[int]:
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=ACME) as client:
            answers = await asyncio.gather(*(client.get(url) for _ in range(4)))
            return [answer.status_code for answer in answers]

    with served(app) as url:
        assert asyncio.run(main(url)) == [200] * 4
    assert limiter.waits_for_slots


def test_a_request_without_a_subject_passes_unlimited_and_unmarked() -> None:
    enforcer = make(node_limit("requests", 1, 1))
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        for _ in range(20):
            answer = client.get(url)
            assert answer.status_code == 200
            assert "ratelimit" not in answer.headers


def test_starlette_waits_in_the_fair_queue_where_the_group_says_so() -> None:
    async def root(_: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    enforcer = make(node_limit("requests", 50, 1), refusal="wait")
    app = Starlette(
        routes=[Route("/", root)],
        middleware=[Middleware(LimitMiddleware, source=enforcer, subject=who)],
    )

    async def main(url: str) -> list[int]:
        async with httpx.AsyncClient(headers=ACME, timeout=PATIENCE_S) as client:
            answers = await asyncio.gather(*(client.get(url) for _ in range(12)))
        return [answer.status_code for answer in answers]

    with served(app) as url:
        began = time.monotonic()
        assert asyncio.run(main(url)) == [200] * 12
        assert time.monotonic() - began >= 10 / 50


def test_a_group_that_delays_answers_and_then_holds_the_connection() -> None:
    enforcer = make(node_limit("requests", 10, 1), refusal="delay")
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        # Else a machine that sleeps between two requests gives back what was used.
        enforcer.limiter(tenant="acme").charge(requests=20)
        answers = [client.get(url, headers=ACME) for _ in range(4)]
        assert [a.status_code for a in answers] == [200] * 4
        assert 1 <= int(answers[0].headers["retry-after"]) <= 2


@pytest.mark.parametrize(("mode", "status"), [("delay", 200), ("reject", 429)])
def test_kip599_a_connection_is_muted_for_the_delay_that_it_was_told(
    mode: RefusalMode, status: int
) -> None:
    enforcer = make(node_limit("requests", 10, 1), refusal=mode)
    with (
        served(fastapi(source=enforcer, mute_refused=True)) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
        httpx.Client(timeout=PATIENCE_S) as other,
    ):
        client.get(url)  # without a tenant, to be connected
        other.get(url)
        # Two seconds of debt: a machine that sleeps a little leaves most of it.
        enforcer.limiter(tenant="acme").charge(requests=20)
        assert client.get(url, headers=ACME).status_code == status
        began_s = time.monotonic()
        other.get(url)  # another connection goes on meanwhile
        assert time.monotonic() - began_s < 1.0
        client.get(url)
        assert time.monotonic() - began_s >= 1.0


def test_the_mode_is_followed_live() -> None:
    enforcer = make(node_limit("requests", 0.01, 1))
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
    ):
        codes = [client.get(url, headers=ACME).status_code for _ in range(3)]
        assert codes[-1] == 429
        configure(enforcer, node_limit("requests", 0.01, 1), refusal="shadow")
        codes = [client.get(url, headers=ACME).status_code for _ in range(5)]
        assert codes == [200] * 5


def test_a_subject_may_be_a_tenants_name_and_shares_its_quota() -> None:
    enforcer = make(node_limit("requests", 1e-9, 3))
    by_name = FastAPI(
        middleware=[
            Middleware(
                LimitMiddleware,
                source=enforcer,
                subject=lambda scope: header(scope, b"x-tenant"),
            )
        ]
    )
    with (
        served(by_name) as one,
        served(fastapi(source=enforcer)) as two,
        httpx.Client(headers=ACME, timeout=PATIENCE_S) as client,
    ):
        codes = [client.get(url).status_code for url in (one, two) * 3]
        assert codes == [404, 200, 404, 200, 429, 429]
        assert client.get(one, headers={"x-tenant": "other"}).status_code == 404


WEBSOCKET = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "bm90IGEgc2VjcmV0ISEhIQ==",
}
"""Headers that ask for a WebSocket."""


def test_a_stream_of_notices_refuses_websockets() -> None:
    with served(NoticeStream(sees=lambda _, __: True)) as url:
        assert httpx.get(url, headers=WEBSOCKET).status_code == 403


def test_the_applications_own_headers_are_not_changed() -> None:
    own = [(b"content-length", b"0"), (b"x-app", b"1")]

    async def app(scope: Scope, _: object, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body"})

    enforcer = make(node_limit("requests", 1e-6, 5_000))
    limited = LimitMiddleware(app, source=enforcer, subject=who)
    with (
        served(limited) as url,
        httpx.Client(headers=ACME, timeout=PATIENCE_S) as client,
    ):
        answers = [client.get(url) for _ in range(5)]
    left = [int(a.headers["ratelimit"].split("r=")[1].split(";")[0]) for a in answers]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 5_000
    assert all(answer.headers["x-app"] == "1" for answer in answers)
    assert len(own) == 2


def test_costs_are_what_the_application_says() -> None:
    enforcer = make(node_limit("publish_bytes", 1, 100))

    def costs(scope: Scope) -> dict[str, float]:
        return {"publish_bytes": float(header(scope, b"content-length") or 0)}

    with (
        served(fastapi(source=enforcer, costs=costs)) as url,
        httpx.Client(headers=ACME, timeout=PATIENCE_S) as client,
    ):
        assert client.request("GET", url, content=b"x" * 60).status_code == 200
        assert client.request("GET", url, content=b"x" * 60).status_code == 200
        assert client.request("GET", url, content=b"x" * 60).status_code == 429
        assert client.get(url).status_code == 200  # nothing asked, nothing refused


def test_kip599_the_client_retries_until_it_is_admitted() -> None:
    enforcer = make(node_limit("requests", 2, 1))
    transport = RetryThrottled(httpx.HTTPTransport())
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(transport=transport, headers=ACME, timeout=PATIENCE_S) as client,
    ):
        # In debt for two seconds, should this thread sleep meanwhile.
        enforcer.limiter(tenant="acme").charge(requests=5)
        answers = [client.get(url) for _ in range(4)]
        assert [a.status_code for a in answers] == [200] * 4
        assert transport.retried >= 1


def test_kip599_the_client_gives_up_at_its_deadline_and_says_what_it_was_told() -> None:
    enforcer = make(node_limit("requests", 0.01, 1))
    transport = RetryThrottled(httpx.HTTPTransport(), deadline_s=0.2)
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(transport=transport, headers=ACME, timeout=PATIENCE_S) as client,
    ):
        codes = [client.get(url).status_code for _ in range(3)]
        assert codes[-1] == 429
        assert transport.retried == 0


def test_kip599_a_caller_may_opt_out_of_retries() -> None:
    enforcer = make(node_limit("requests", 0.01, 1))
    transport = RetryThrottled(httpx.HTTPTransport())
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(transport=transport, headers=ACME, timeout=PATIENCE_S) as client,
    ):
        extensions = {"retry_throttled": False}
        codes = [client.get(url, extensions=extensions).status_code for _ in range(4)]
        assert 429 in codes
        assert transport.retried == 0


def test_kip599_the_asynchronous_client_retries_too() -> None:
    enforcer = make(node_limit("requests", 20, 1))

    async def main(url: str) -> list[int]:
        transport = AsyncRetryThrottled(httpx.AsyncHTTPTransport())
        async with httpx.AsyncClient(
            transport=transport, headers=ACME, timeout=PATIENCE_S
        ) as client:
            return [(await client.get(url)).status_code for _ in range(6)]

    with served(fastapi(source=enforcer)) as url:
        assert asyncio.run(main(url)) == [200] * 6


@pytest.mark.parametrize(
    ("headers", "content", "delay_s"),
    [
        ({}, b"", 1.0),
        ({"retry-after": "7"}, b"not json", 7.0),
        ({"retry-after": "7"}, b'{"throttle_time_ms": 250}', 0.25),
        ({"retry-after": "7"}, b'{"throttle_time_ms": -5}', 7.0),
        ({"retry-after": "soon"}, b"[]", 1.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, b"", 0.001),
        ({"retry-after": "0"}, b"", 0.001),
        ({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, b"", 1.0),
        ({"retry-after": "7"}, b"[" * 100_000, 7.0),
        ({}, b'{"throttle_time_ms": 1' + b"0" * 400 + b"}", 2_147_483.647),
    ],
)
def test_what_a_stranger_answers_gives_a_sane_delay(
    headers: dict[str, str], content: bytes, delay_s: float
) -> None:
    response = httpx.Response(429, headers=headers, content=content)
    assert throttle_delay_s(response) == delay_s


def test_a_digit_that_is_no_number_is_no_delay() -> None:
    response = httpx.Response(429, headers=[(b"retry-after", "²".encode("latin-1"))])
    assert throttle_delay_s(response) == 1.0


@pytest.mark.parametrize(
    ("own_debt", "controller_s", "waited_s", "told_ms"),
    [(0, 50.0, 20.0, 30_000), (0, 50.0, 60.0, 0), (40, 2.0, 1.0, 4_000)],
)
def test_kip599_what_a_controller_said_is_told_if_it_is_longer_less_what_was_waited(
    own_debt: int, controller_s: float, waited_s: float, told_ms: int
) -> None:
    enforcer = make(node_limit("requests", 10, 1), refusal="delay")
    app = Starlette(
        routes=[Route("/", _forward(controller_s, waited_s))],
        middleware=[Middleware(LimitMiddleware, source=enforcer, subject=who)],
    )
    with served(app) as url, httpx.Client(timeout=PATIENCE_S) as client:
        client.get(f"{url}/nowhere")  # without a tenant, to be connected
        enforcer.limiter(tenant="acme").charge(requests=own_debt)
        # The end of a delayed response is held back, its bytes are not.
        with client.stream("GET", url, headers=ACME) as answer:
            body = next(answer.iter_bytes())
        assert answer.status_code == 429
        told: dict[str, int] = json.loads(body)
        assert told_ms / 2 <= told["throttle_time_ms"] <= told_ms + 200
        assert int(answer.headers["retry-after"]) <= told_ms / 1e3 + 1


def _forward(controller_s: float, waited_s: float) -> Callable[[Request], object]:
    def forward(_: Request) -> object:
        refused = Refusal(delay_s=controller_s)
        raise Throttled(refused, at_s=time.monotonic() - waited_s)

    return forward


def test_kip599_a_client_that_was_refused_is_mute_until_its_delay_is_over() -> None:
    enforcer = make(node_limit("requests", 10, 1))
    transport = RetryThrottled(httpx.HTTPTransport(), retry=False, mute=True)
    with (
        served(fastapi(source=enforcer)) as url,
        httpx.Client(transport=transport, timeout=PATIENCE_S) as client,
    ):
        client.get(url)  # without a tenant, to be connected
        enforcer.limiter(tenant="acme").charge(requests=20)
        refused = client.get(url, headers=ACME)
        assert refused.status_code == 429
        began_s = time.monotonic()
        assert client.get(url, headers=ACME).status_code == 200
        assert time.monotonic() - began_s >= 1.0
        assert transport.retried == 0


def test_kip599_an_asynchronous_client_is_mute_for_all_its_requests() -> None:
    enforcer = make(node_limit("requests", 10, 1))

    async def main(url: str) -> float:
        transport = AsyncRetryThrottled(
            httpx.AsyncHTTPTransport(), retry=False, mute=True
        )
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE_S) as client:
            await client.get(url)
            enforcer.limiter(tenant="acme").charge(requests=20)
            assert (await client.get(url, headers=ACME)).status_code == 429
            began_s = time.monotonic()
            await asyncio.gather(*(client.get(url) for _ in range(3)))
            return time.monotonic() - began_s

    with served(fastapi(source=enforcer)) as url:
        assert asyncio.run(main(url)) >= 1.0


@contextmanager
def throttling() -> Generator[str]:
    """Serve refusals: /A/B is refused after A ms for B ms; / is welcome."""

    async def refuse(request: Request) -> JSONResponse:
        await asyncio.sleep(request.path_params["after_ms"] / 1e3)
        return JSONResponse({"throttle_time_ms": request.path_params["for_ms"]}, 429)

    async def welcome(_: Request) -> PlainTextResponse:
        return PlainTextResponse("welcome")

    refusals = Route("/{after_ms:int}/{for_ms:int}", refuse)
    with served(Starlette(routes=[Route("/", welcome), refusals])) as url:
        yield url


async def muted_for_s(url: str, first: str, second: str, *, both: bool) -> float:
    """Return how long a request is held by two refusals of requests sent at once.

    Args:
        url: Of `throttling`.
        first: What is refused first.
        second: What is refused later.
        both: Send the request that is held after both, else in between.
    """
    transport = AsyncRetryThrottled(httpx.AsyncHTTPTransport(), retry=False, mute=True)
    async with httpx.AsyncClient(transport=transport, timeout=PATIENCE_S) as client:
        await client.get(url)  # to be connected
        began_s = time.monotonic()
        later = asyncio.create_task(client.get(url + second))
        await client.get(url + first)
        if both:
            await later
        assert (await client.get(url)).status_code == 200
        held_s = time.monotonic() - began_s
        assert (await later).status_code == 429
    return held_s


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [("/0/1500", "/500/1", True), ("/0/600", "/300/1500", False)],
    ids=["a shorter delay later", "a longer delay meanwhile"],
)
def test_a_client_is_mute_until_the_last_of_its_delays_is_over(
    first: str, second: str, both: bool
) -> None:
    mute = RetryThrottled(httpx.HTTPTransport(), retry=False, mute=True)
    with (
        throttling() as url,
        httpx.Client(transport=mute, timeout=PATIENCE_S) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        assert asyncio.run(muted_for_s(url, first, second, both=both)) >= 1.5
        client.get(url)
        began_s = time.monotonic()
        later = pool.submit(client.get, url + second)
        time.sleep(0.1)
        client.get(url + first)
        if both:
            later.result()
        assert client.get(url).status_code == 200
        assert time.monotonic() - began_s >= 1.5


def test_a_retry_is_not_held_beyond_its_deadline_by_what_others_were_told() -> None:
    given_up = {"retry_throttled": False}
    mute = RetryThrottled(httpx.HTTPTransport(), deadline_s=1.0, mute=True)

    async def main(url: str) -> float:
        transport = AsyncRetryThrottled(
            httpx.AsyncHTTPTransport(), deadline_s=1.0, mute=True
        )
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE_S) as client:
            await client.get(url)
            later = asyncio.create_task(
                client.get(f"{url}/300/20000", extensions=given_up)
            )
            began_s = time.monotonic()
            refused = await client.get(f"{url}/0/600")
            assert refused.json() == {"throttle_time_ms": 600}
            assert transport.retried == 0
            await later
            return time.monotonic() - began_s

    with (
        throttling() as url,
        httpx.Client(transport=mute, timeout=PATIENCE_S) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        assert asyncio.run(main(url)) < 10.0
        client.get(url)
        later = pool.submit(client.get, f"{url}/300/20000", extensions=given_up)
        time.sleep(0.1)
        began_s = time.monotonic()
        assert client.get(f"{url}/0/600").json() == {"throttle_time_ms": 600}
        assert time.monotonic() - began_s < 10.0
        assert mute.retried == 0
        later.result()


def test_ably_receivers_hear_over_server_sent_events_what_was_refused() -> None:
    enforcer = make(node_limit("requests", 0.01, 1))
    notices = NoticeStream(
        sees=lambda scope, notice: header(scope, b"x-hears") == notice.subject,
        every_s=0.2,
    )
    app = fastapi(source=enforcer, notices=notices)
    app.mount("/notices", notices)
    subject, another = (
        str(enforcer.limiter(tenant="acme", client=client).subject)
        for client in (None, "etl")
    )
    with (
        served(app) as url,
        httpx.Client(timeout=PATIENCE_S) as sender,
        httpx.Client(timeout=PATIENCE_S) as receiver,
        receiver.stream("GET", f"{url}/notices/", headers={"x-hears": subject}) as it,
        receiver.stream(
            "GET", f"{url}/notices/", headers={"x-hears": another}
        ) as other,
    ):
        lines, others = it.iter_lines(), other.iter_lines()
        assert next(lines) == ": listening"  # from now on
        assert next(others) == ": listening"
        codes = [sender.get(url, headers=ACME).status_code for _ in range(9)]
        refused = codes.count(429)
        assert refused >= 6
        told: list[dict[str, object]] = []
        while sum(cast("int", one["requests"]) for one in told) < refused:
            line = next(lines)
            assert line != ": quiet", told
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
        assert {one["subject"] for one in told} == {subject}
        assert told[0]["group"] == "gold"
        assert sum(cast("float", one["units"]) for one in told) == refused
        assert notices.listeners == 2
        # A listener without the right to a subject hears nothing before its own.
        while sender.get(url, headers={**ACME, "x-client": "etl"}).status_code != 429:
            pass
        first = next(line for line in others if line.startswith("data: "))
        assert json.loads(first.removeprefix("data: "))["subject"] == another


@pytest.mark.parametrize("by", ["slots", "controller"])
def test_ably_receivers_hear_what_was_refused_for_want_of_a_slot_or_by_a_controller(
    by: str,
) -> None:
    source = one_slot()
    limiter = source.limiter(tenant="acme")
    held = limiter.try_slot() if by == "slots" else None
    notices = NoticeStream(sees=lambda _, __: True, every_s=0.1)

    async def root(_: object) -> PlainTextResponse:
        raise Throttled(Refusal(delay_s=5.0))

    options = {"subject": who, "slots": True, "notices": notices}
    limited = Middleware(LimitMiddleware, source=source, **options)  # type: ignore[arg-type]  # options by name
    app = Starlette(
        routes=[Route("/", root), Mount("/notices", notices)], middleware=[limited]
    )
    with (
        served(app) as url,
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("GET", f"{url}/notices/") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": listening"
        assert client.get(url, headers=ACME).status_code == 429
        line = next(line for line in lines if line.startswith((": quiet", "data: ")))
        assert line != ": quiet", "nothing was told"
        told = json.loads(line.removeprefix("data: "))
    assert told["subject"] == str(limiter.subject)
    assert (told["requests"], told["units"]) == (1, 1.0)
    assert told["dimension"] == ("slots_in_flight" if held else None)


def test_ably_subjects_that_were_told_of_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notice_stream, "MOST_SUBJECTS", 1)
    enforcer = make(node_limit("requests", 0.01, 1))
    enforcer.limiter(tenant="acme").charge(requests=10)
    notices = NoticeStream(sees=lambda _, __: True, every_s=0.1)
    app = fastapi(source=enforcer, notices=notices)
    app.mount("/notices", notices)
    told: list[str] = []
    with (
        served(app) as url,
        httpx.Client(timeout=PATIENCE_S) as sender,
        httpx.Client(timeout=PATIENCE_S) as receiver,
        receiver.stream("GET", f"{url}/notices/") as stream,
        ThreadPoolExecutor(1) as pool,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": listening"
        names = ("etl", "web", "app")
        reading = pool.submit(_read_until, lines, "client app", told)
        for client in names:
            end_s = time.monotonic() + 5.0
            while not any(f"client {client}" in line for line in told):
                assert time.monotonic() < end_s, f"nothing of {client}: {told}"
                sender.get(url, headers={**ACME, "x-client": client})
        reading.result()


def _read_until(lines: Iterator[str], last: str, told: list[str]) -> None:
    end_s = time.monotonic() + PATIENCE_S / 2
    for line in lines:  # a quiet stream has one every 15 s
        told.append(line)
        if last in line or time.monotonic() > end_s:
            return
