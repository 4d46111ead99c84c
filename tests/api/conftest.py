"""A real server on a free port, and clients of its two faces."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.api import Addresses, ServerSettings, running

TIMEOUT_S = 30.0
"""Of a test's request; a hanging server must fail the test, not stop it."""


NOT_WOKEN_S = 60.0
"""Timeout of a watch that a change must end: one that is not woken waits longer than
`TIMEOUT_S`, and its request fails."""


START_S = 60.0
"""Longest start of a process on a busy machine."""

SERVE = """
import sys
from pathlib import Path
from headgate.api import ServerSettings, run
run(ServerSettings(database=sys.argv[1], port=0, bus_ports=(0, 0),
                   ready_file=Path(sys.argv[2])))
"""


@contextmanager
def process(
    folder: Path,
) -> Generator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A server in a process of its own, and its addresses."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-c", SERVE, str(folder / "x.db"), str(ready)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + START_S
        while not ready.exists() or not ready.read_text().endswith("\n"):
            assert server.poll() is None, server.communicate()[1].decode()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield server, json.loads(ready.read_text())
    finally:
        server.kill()
        server.communicate()


def until_watched(api: str, *, watchers: int = 1) -> None:
    """Wait until so many requests wait for a revision at the server at `api`."""
    deadline = time.monotonic() + TIMEOUT_S
    with httpx.Client(verify=False, timeout=TIMEOUT_S) as client:
        while f"\nheadgate_watchers {watchers}.0\n" not in (
            text := client.get(f"{api}/metrics").text
        ):
            assert time.monotonic() < deadline, text
            time.sleep(0.02)


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

    def configuration() -> dict[str, object]:
        found: dict[str, object] = rest.get("/snapshot").json()
        found.pop("levels", None)  # with their ages
        return found

    @contextmanager
    def block() -> Generator[None]:
        before = configuration()
        yield
        assert configuration() == before

    return block
