"""The guard before all routes: no address may keep it busy for the others."""

import asyncio
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headgate.api import RightsSettings
from headgate.api.http.guard import Guard
from headgate.api.store import Store


def test_many_requests_of_one_address_are_slowed_by_our_own_limiter(
    tmp_path: Path,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("ok")(scope, receive, send)

    async def ask(guard: Guard, address: str) -> tuple[int, str | None]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await guard({**scope, "client": (address, 1)}, receive, send)
        headers = dict(sent[0]["headers"])
        after = headers.get(b"retry-after")
        return sent[0]["status"], None if after is None else after.decode()

    async def flood() -> None:
        store = Store(f"sqlite:///{tmp_path}/x.db")
        guard = Guard(app, store, RightsSettings())
        for _ in range(100_000):
            if await ask(guard, "10.0.0.1") == (429, "1"):
                break
        else:
            pytest.fail("a hundred thousand at once were let through")
        assert await ask(guard, "10.0.0.2") == (200, None)
        store.close()

    asyncio.run(flood())
