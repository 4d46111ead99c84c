"""A real server on a free port, and clients of its two faces."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from headgate.api import Addresses, ServerSettings, running

TIMEOUT_S = 30.0
"""Of a test's request; a hanging server must fail the test, not stop it."""


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    """A server of its own for each test, on free ports."""
    return ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )


@pytest.fixture
def server(settings: ServerSettings) -> Iterator[Addresses]:
    with running(settings) as addresses:
        yield addresses


@pytest.fixture
def rest(server: Addresses) -> Iterator[httpx.Client]:
    """A client of `/api/v1`."""
    with httpx.Client(
        base_url=f"{server.api}/api/v1", timeout=TIMEOUT_S, verify=False
    ) as client:
        yield client


@pytest.fixture
def pulsar(server: Addresses) -> Iterator[httpx.Client]:
    """A client of Pulsar's Admin v2 paths."""
    with httpx.Client(
        base_url=f"{server.api}/admin/v2", timeout=TIMEOUT_S, verify=False
    ) as client:
        yield client


@pytest.fixture
def unchanged(rest: httpx.Client) -> Callable[[], AbstractContextManager[None]]:
    """A context in which the configuration may not change."""

    @contextmanager
    def block() -> Generator[None]:
        before = rest.get("/snapshot").text
        yield
        assert rest.get("/snapshot").text == before

    return block
