"""LangChain's limiter, and OpenAI's client on a transport that slows down in time."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI, Response
from openai import AsyncOpenAI, OpenAI
from tests.integration.limiter.making import make, node_limit, served

from headgate.agent.errors import Throttled
from headgate.agent.integrations.llm.openai_transport import (
    duration_s,
    exhausted_for_s,
)
from headgate.api import ServerSettings, running
from headgate.langchain import HeadgateRateLimiter
from headgate.openai import AsyncPacedTransport, PacedTransport, Pacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionMessageParam

    from headgate.coordinator.config.configuration import Refusal as RefusalMode

EXAMPLES = Path(__file__).parents[3] / "examples" / "llm"

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


def _provider() -> FastAPI:
    """A service that speaks OpenAI's protocol under a real limit of 2/s."""
    limiter = make(node_limit("requests", 2.0, 1.0)).limiter(tenant="acme")
    app = FastAPI()

    @app.post("/v1/chat/completions")
    def complete(response: Response) -> dict[str, object]:
        decision = limiter.try_acquire(requests=1)
        if not decision:
            response.status_code = 429
            response.headers["retry-after-ms"] = str(decision.throttle_time_ms)
            return {"error": {"message": str(decision), "type": "requests"}}
        after = limiter.validate(requests=1)
        left = 1 if after else 0
        response.headers["x-ratelimit-remaining-requests"] = str(left)
        reset = f"{after.throttle_time_ms}ms"
        response.headers["x-ratelimit-reset-requests"] = reset
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "canal",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "hi"},
                }
            ],
        }

    return app


def _any(client: object) -> Any:
    """Return a client of httpx, which openai 3.57 takes but does not declare."""
    return client


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of an OpenAI-style service."""
    with served(_provider()) as url:
        yield f"{url}/v1"


def test_openai_s_client_is_held_before_it_is_refused(provider: str) -> None:
    transport = PacedTransport(httpx.HTTPTransport())
    with httpx.Client(transport=transport) as http:
        client = OpenAI(
            base_url=provider, api_key="none", http_client=_any(http), max_retries=0
        )
        for _ in range(5):
            answer = client.chat.completions.create(model="canal", messages=MESSAGES)
            assert answer.choices[0].message.content == "hi"
    assert transport.pacing.held > 0
    assert transport.pacing.retried <= 1  # alone it knows what is left


def test_the_example_is_held_until_the_service_has_room(provider: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "limiter_openai.py"), provider],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    match = re.fullmatch(
        r"6 answers in [\d.]+ s, held (\d+) times, (\d+) retries\n", done.stdout
    )
    assert match is not None, done.stderr
    assert int(match[1]) > 0


def test_many_at_once_are_retried_until_they_are_served(provider: str) -> None:
    async def ask() -> Pacing:
        transport = AsyncPacedTransport(httpx.AsyncHTTPTransport())
        async with httpx.AsyncClient(transport=transport) as http:
            client = AsyncOpenAI(
                base_url=provider, api_key="none", http_client=_any(http), max_retries=0
            )
            create = client.chat.completions.create
            calls = [create(model="canal", messages=MESSAGES) for _ in range(6)]
            await asyncio.gather(*calls)
        return transport.pacing

    assert asyncio.run(ask()).retried > 0


def test_what_is_held_is_held_on_if_nothing_is_left_meanwhile() -> None:
    app = FastAPI()

    @app.get("/{after_s}/{left}/{reset}")
    async def answer(
        after_s: float, left: str, reset: str, response: Response
    ) -> dict[str, str]:
        await asyncio.sleep(after_s)
        response.headers["x-ratelimit-remaining-requests"] = left
        response.headers["x-ratelimit-reset-requests"] = reset
        return {}

    async def ask(url: str) -> float:
        transport = AsyncPacedTransport(httpx.AsyncHTTPTransport())
        async with httpx.AsyncClient(transport=transport, timeout=60.0) as client:
            await client.get(f"{url}/0/9/0s")  # to be connected
            began_s = time.monotonic()
            later = asyncio.create_task(client.get(f"{url}/0.3/0/1500ms"))
            await client.get(f"{url}/0/0/600ms")
            await client.get(f"{url}/0/9/0s")
            asked_s = time.monotonic() - began_s
            await later
        assert transport.pacing.held == 1
        return asked_s

    transport = PacedTransport(httpx.HTTPTransport())
    with (
        served(app) as url,
        httpx.Client(transport=transport, timeout=60.0) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        assert asyncio.run(ask(url)) >= 1.5
        client.get(f"{url}/0/9/0s")
        began_s = time.monotonic()
        later = pool.submit(client.get, f"{url}/0.3/0/1500ms")
        time.sleep(0.1)
        client.get(f"{url}/0/0/600ms")
        client.get(f"{url}/0/9/0s")
        assert time.monotonic() - began_s >= 1.5
        later.result()
    assert transport.pacing.held == 1


def test_a_hold_beyond_the_deadline_is_not_waited_for() -> None:
    def exhausted(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={"retry-after": "3600"})

    pacing = Pacing(deadline_s=0.2)
    transport = PacedTransport(httpx.MockTransport(exhausted), pacing=pacing)
    with httpx.Client(transport=transport) as http:
        assert http.get("http://provider").status_code == 429
    assert pacing.retried == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("1.5s", 1.5),
        ("1h2m3s", 3_723.0),
        ("2", 2.0),
        ("", None),
        ("soon", None),
        ("-1s", None),
    ],
)
def test_durations_of_providers_are_read(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"x-ratelimit-remaining-tokens": "5"}, 0.0),
        ({"x-ratelimit-remaining-tokens": "0"}, 0.0),  # until when is not said
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
            },
            2.0,
        ),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "99h0m0s",
            },
            60.0,
        ),
        (
            {
                "x-ratelimit-remaining-tokens": "none",
                "x-ratelimit-reset-tokens": "never",
            },
            0.0,
        ),
        ({"x-ratelimit-remaining-tokens": "²"}, 0.0),
    ],
)
def test_odd_headers_never_hold_for_long(
    headers: dict[str, str], seconds: float
) -> None:
    assert exhausted_for_s(headers) == seconds


def test_langchain_waits_for_the_quota_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServerSettings(
        port=0, bus_ports=(0, 0), database=str(tmp_path / "headgate.db")
    )
    with running(settings) as server:
        limit = {"dimension": "requests", "rate": 10.0, "burst": 5.0}
        body: dict[str, object] = {
            "tenants": {"acme": {}},
            "groups": {"acme": {"limits": [limit]}},
            "attachments": [{"subject": {"tenant": "acme"}, "group": "acme"}],
        }
        httpx.post(f"{server.api}/api/v1/apply", json=body).raise_for_status()
        monkeypatch.setenv("HEADGATE_URL", server.api)
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "limiter_langchain.py")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 answers in "), done.stdout
    assert float(done.stdout.split()[3]) > 1.0  # 20 at 10/s, with a burst of 5


@pytest.mark.parametrize("mode", ["reject", "delay", "wait"])
def test_langchain_s_limiter_does_not_block_where_it_must_not(
    mode: RefusalMode,
) -> None:
    source = make(node_limit("requests", 0.01, 1.0), refusal=mode)
    limiter = HeadgateRateLimiter(source.limiter(tenant="acme"), timeout_s=0.05)
    began = time.monotonic()
    answers = [limiter.acquire(blocking=False) for _ in range(4)]
    assert answers[0]
    assert not answers[-1]
    assert not asyncio.run(limiter.aacquire(blocking=False))
    with pytest.raises(Throttled, match="deadline"):
        limiter.acquire()
    with pytest.raises(Throttled, match="deadline"):
        asyncio.run(limiter.aacquire())
    assert time.monotonic() - began < 30.0
