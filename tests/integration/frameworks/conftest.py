"""A real server, and processes that end with the test."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.integration.frameworks.rigs import Quotas, until

from headgate.agent.integrations import process_agents
from headgate.api import Addresses, ServerSettings, running
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A real server on free ports, shared by the tests of one module."""
    home = tmp_path_factory.mktemp("server")
    settings = ServerSettings(
        port=0, bus_ports=(0, 0), database=str(home / "headgate.db")
    )
    with running(settings) as addresses:
        yield addresses
        process_agents.close()
    until(lambda: not left_behind(), "all threads of Headgate to end")


def left_behind() -> list[str]:
    """Return the names of threads that would disturb the tests that follow."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("headgate")]


@pytest.fixture
def quotas(server: Addresses, monkeypatch: pytest.MonkeyPatch) -> Iterator[Quotas]:
    """The server's quotas; examples find it in their environment."""
    monkeypatch.setenv("HEADGATE_URL", server.api)
    one = Quotas(server)
    yield one
    one.close()


@pytest.fixture
def children() -> Iterator[Children]:
    """Processes that end with the test."""
    with Children() as started:
        yield started
