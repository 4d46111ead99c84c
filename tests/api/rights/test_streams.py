"""Streams and blocked requests end with their token; how many there may be."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)
from headgate.api.events import routes as events


@pytest.fixture
def guarded(tmp_path: Path) -> ServerSettings:
    return ServerSettings(
        database=str(tmp_path / "x.db"),
        port=0,
        bus_ports=(0, 0),
        rights=RightsSettings(required=True),
    )


@pytest.fixture
def admin(guarded: ServerSettings) -> str:
    return create_token(guarded, "ada", "admin")


@pytest.fixture
def server(guarded: ServerSettings, admin: str) -> Iterator[Addresses]:
    with running(guarded) as addresses:
        yield addresses


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("ending", ["deleted", "past its time"])
def test_a_stream_ends_with_its_token(
    server: Addresses, admin: str, ending: str
) -> None:
    with httpx.Client(base_url=server.api, timeout=TIMEOUT_S) as client:
        body: dict[str, Any] = {"name": "eve", "role": "viewer"}
        if ending == "past its time":
            body["life_s"] = 2.0
        made = client.post("/api/v1/tokens", json=body, headers=bearer(admin)).json()
        headers = bearer(made["token"])
        with client.stream("GET", "/api/v1/events", headers=headers) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            if ending == "deleted":
                path = f"/api/v1/tokens/{made['id']}"
                httpx.delete(f"{server.api}{path}", headers=bearer(admin))
            deadline = time.monotonic() + TIMEOUT_S
            for _ in lines:
                assert time.monotonic() < deadline
        assert client.get("/api/v1/whoami", headers=headers).status_code == 401


def test_a_watch_is_not_answered_when_its_token_has_ended(
    server: Addresses, admin: str
) -> None:
    with httpx.Client(base_url=server.api, timeout=TIMEOUT_S) as client:
        body = {"name": "agent-1", "role": "agent", "life_s": 1.0}
        made = client.post("/api/v1/tokens", json=body, headers=bearer(admin)).json()
        answer = client.get(
            "/api/v1/snapshot",
            params={"revision": 99, "wait_s": 1.5, "agent": "agent-1"},
            headers=bearer(made["token"]),
        )
    assert answer.status_code == 401


def test_no_more_streams_than_are_allowed_even_at_once(
    settings: ServerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 3)
    with (
        running(settings) as addresses,
        httpx.Client(base_url=addresses.api, timeout=TIMEOUT_S) as client,
    ):
        with ExitStack() as streams:
            for expected in (200, 200, 200, 429, 429):
                stream = client.stream("GET", "/api/v1/events")
                assert streams.enter_context(stream).status_code == expected
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:  # until the server has seen them go
            with client.stream("GET", "/api/v1/events") as stream_again:
                if stream_again.status_code == 200:
                    return
            time.sleep(0.05)
        pytest.fail("places are not given back")


def present(client: httpx.Client, token: str) -> list[dict[str, Any]]:
    query = {"revision": 0, "alive": 999}
    answer = client.get("/api/v1/snapshot", params=query, headers=bearer(token))
    found: list[dict[str, Any]] = answer.json()["alive"]["present"]
    return found


def test_only_an_agents_own_token_says_that_it_lives(
    guarded: ServerSettings, server: Addresses, admin: str
) -> None:
    tokens = {
        "viewer": create_token(guarded, "vera", "viewer"),
        "one": create_token(guarded, "one", "agent"),
        "two": create_token(guarded, "two", "agent"),
    }
    with httpx.Client(base_url=server.api, timeout=TIMEOUT_S) as client:

        def says(who: str, incarnation: int) -> None:
            query: dict[str, str | int] = {
                "revision": 99,
                "agent": "agent-1",
                "incarnation": incarnation,
                "wait_s": 0,
            }
            client.get("/api/v1/snapshot", params=query, headers=bearer(tokens[who]))

        says("viewer", 1)
        assert present(client, admin) == []
        says("one", 1)
        says("two", 7)
        assert present(client, admin) == [{"agent": "agent-1", "incarnation": 1}]
        says("one", 2)
        assert present(client, admin) == [{"agent": "agent-1", "incarnation": 2}]


def test_a_stream_of_a_group_that_does_not_exist_is_refused(
    settings: ServerSettings,
) -> None:
    with (
        running(settings) as addresses,
        httpx.Client(base_url=addresses.api, timeout=TIMEOUT_S) as client,
    ):
        query = {"group": "nosuch"}
        with client.stream("GET", "/api/v1/events", params=query) as stream:
            assert stream.status_code == 404
            stream.read()
            assert stream.json()["detail"] == "group 'nosuch' does not exist"


def test_a_stream_of_a_group_says_when_that_is_deleted_and_ends(
    settings: ServerSettings,
) -> None:
    with (
        running(settings) as addresses,
        httpx.Client(base_url=addresses.api, timeout=TIMEOUT_S) as client,
    ):
        assert client.put("/api/v1/groups/gold", json={}).is_success
        query = {"group": "gold"}
        with client.stream("GET", "/api/v1/events", params=query) as stream:
            lines = stream.iter_lines()
            assert "event: group" in lines
            assert client.delete("/api/v1/groups/gold").is_success
            deadline = time.monotonic() + TIMEOUT_S
            rest: list[str] = []
            for line in lines:
                rest.append(line)
                assert time.monotonic() < deadline
        assert "event: gone" in rest
