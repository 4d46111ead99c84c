"""A real server, and processes that end with the test."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.integration.frameworks.rigs import Quotas, until

from headgate.agent.integrations import process_agents
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.api import Addresses


@pytest.fixture(scope="module")
def _no_thread_left() -> Iterator[None]:
    """Wait, once the server has stopped, until it has left nothing behind."""
    yield
    until(lambda: not left_behind(), "all threads of Headgate to end")


@pytest.fixture(scope="module")
def server(_no_thread_left: None, server: Addresses) -> Iterator[Addresses]:
    """The server of the module; the agents of this process leave before it stops."""
    yield server
    process_agents.close()


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
