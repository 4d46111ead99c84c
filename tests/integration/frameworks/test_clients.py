"""requests and aiohttp clients that come back when a service tells them to."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
import requests
from tests.integration.frameworks.rigs import EXAMPLES, start_server
from tests.integration.limiter.making import make, node_limit, served

from headgate.aiohttp import RetryThrottledMiddleware
from headgate.asgi import LimitMiddleware
from headgate.requests import RetryThrottledAdapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.integration.frameworks.rigs import Quotas

    from headgate.agent.integrations.asgi import Receive, Scope, Send
    from headgate.cli.process.children import Children


def test_the_example_s_clients_get_all_their_answers(
    quotas: Quotas, children: Children, tmp_path: Path
) -> None:
    quotas.put("acme", requests=(20.0, 5.0))
    command = ["uvicorn", "limiter_asgi:app", "--port", "0", "--app-dir", str(EXAMPLES)]
    _, url = start_server(children, "web", command, tmp_path / "web.log")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "limiter_clients.py"), f"{url}/"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    match = re.fullmatch(
        r"requests: 20 of 20, (\d+) retries\naiohttp: 20 of 20, (\d+) retries\n",
        done.stdout,
    )
    assert match is not None, done.stdout
    assert int(match[1]) > 0
    assert int(match[2]) > 0


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    del scope
    body, more = b"", True
    while more:
        message = await receive()
        got, more = message.get("body", b""), bool(message.get("more_body", False))
        assert isinstance(got, bytes)
        body += got
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _service(rate: float, burst: float) -> LimitMiddleware:
    source = make(node_limit("requests", rate, burst))
    return LimitMiddleware(_echo, source=source, subject=lambda _: "acme")


@pytest.fixture
def slow() -> Iterator[str]:
    """The address of a service that admits one request, and the next in an hour."""
    with served(_service(1 / 3_600.0, 1.0)) as url:
        yield url


def _session(adapter: RetryThrottledAdapter) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", adapter)
    return session


def test_what_is_throttled_for_longer_than_the_deadline_is_returned_at_once(
    slow: str,
) -> None:
    adapter = RetryThrottledAdapter(deadline_s=1.0)
    with _session(adapter) as session:
        session.get(slow)
        session.get(slow)
        began = time.monotonic()
        refused = session.get(slow)
    assert refused.status_code == 429
    assert time.monotonic() - began < 30.0  # the service said an hour
    assert refused.json()["throttle_time_ms"] > 60_000
    assert adapter.retried == 0


def test_a_body_of_bytes_is_sent_again_whole() -> None:
    with served(_service(5.0, 1.0)) as url:
        adapter = RetryThrottledAdapter()
        with _session(adapter) as session:
            answers = [session.post(url, data=b"x" * 5_000) for _ in range(4)]
        retry = RetryThrottledMiddleware()

        async def post() -> list[bytes]:
            async with aiohttp.ClientSession(middlewares=(retry,)) as session:
                return [
                    await (await session.post(url, data=b"y" * 5_000)).read()
                    for _ in range(4)
                ]

        assert asyncio.run(post()) == [b"y" * 5_000] * 4
    assert [answer.content for answer in answers] == [b"x" * 5_000] * 4
    assert adapter.retried > 0
    assert retry.retried > 0


def test_a_body_that_was_streamed_is_not_sent_again_empty(slow: str) -> None:
    adapter = RetryThrottledAdapter(deadline_s=7_200.0)
    with _session(adapter) as session:
        session.get(slow)
        session.get(slow)
        refused = session.post(slow, data=io.BytesIO(b"once"))
    assert refused.status_code == 429
    retry = RetryThrottledMiddleware(deadline_s=7_200.0)

    async def post() -> tuple[int, object]:
        async def body() -> AsyncIterator[bytes]:
            yield b"once"

        async with aiohttp.ClientSession(middlewares=(retry,)) as session:
            answer = await session.post(slow, data=body())
            return answer.status, json.loads(await answer.read())["status"]

    assert asyncio.run(post()) == (429, 429)
    assert (adapter.retried, retry.retried) == (0, 0)
