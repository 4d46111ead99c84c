"""Half-sent requests, unread answers, junk: the server goes on answering others."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import Addresses, ServerSettings, running, server
from headgate.api.sockets import protocol

PLACES = 40


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "most_connections", lambda: PLACES)


@pytest.fixture
def served(
    few_places: None, settings: ServerSettings, caplog: pytest.LogCaptureFixture
) -> Iterator[Addresses]:
    with running(settings) as addresses:
        yield addresses


def connected(addresses: Addresses) -> socket.socket:
    url = httpx.URL(addresses.api)
    return socket.create_connection((url.host, url.port or 80), timeout=TIMEOUT_S)


def test_half_sent_requests_keep_nobody_from_being_answered(
    served: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as open_connections:
        for _ in range(5 * PLACES):
            connection = open_connections.enter_context(connected(served))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        for _ in range(5):
            assert httpx.get(f"{served.api}/healthz", timeout=TIMEOUT_S).is_success
    told = [record.getMessage() for record in caplog.records]
    assert told.count("idle connections closed: too many from one address") == 1


def test_a_stream_keeps_its_place_beside_half_sent_requests(served: Addresses) -> None:
    with (
        httpx.Client(base_url=served.api, timeout=TIMEOUT_S) as client,
        client.stream("GET", "/api/v1/events") as stream,
        ExitStack() as open_connections,
    ):
        lines = stream.iter_lines()
        next(lines)
        for _ in range(2 * PLACES):
            open_connections.enter_context(connected(served))
        deadline = time.monotonic() + TIMEOUT_S
        seen = 0
        while seen < 2:
            seen += next(lines).startswith("event: overview")
            assert time.monotonic() < deadline


@pytest.mark.parametrize("drip", [b"", b"x"])
def test_a_header_that_does_not_come_in_time_closes_its_connection(
    settings: ServerSettings, monkeypatch: pytest.MonkeyPatch, drip: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEADER_TIMEOUT_S", 0.3)
    with running(settings) as addresses, connected(addresses) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        connection.settimeout(0.05)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                connection.sendall(drip)
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


def test_an_answer_that_nobody_reads_closes_its_connection(
    settings: ServerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "READ_TIMEOUT_S", 0.3)
    with running(settings) as addresses, connected(addresses) as connection:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.settimeout(0.05)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                connection.sendall(request)
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


def test_a_flood_of_junk_writes_one_line(
    served: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(30):
        with connected(served) as connection:
            connection.sendall(b"\x16\x03\x01 junk\r\n\r\n")
            assert b"400" in connection.recv(100)
    told = [record for record in caplog.records if "Invalid HTTP" in record.msg]
    assert len(told) == 1
