"""A real server in a process of its own, and a real Chromium that looks at it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import (
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)
from tests.web.rigs import TIMEOUT_S, Server, at_work

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Nothing of Chromium's own talks to anybody, and nothing needs a display."""


@pytest.fixture
def stopped_server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test starts, such as after it has filled the database."""
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def server(stopped_server: Server) -> Server:
    stopped_server.start()
    return stopped_server


@pytest.fixture(scope="module")
def filled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the group `gold` for tests that change nothing."""
    server = Server(tmp_path_factory.mktemp("filled"))
    try:
        server.start()
        gold = {"limits": [{"dimension": "requests", "rate": 100}]}
        url = f"{server.url}/api/v1/groups/gold"
        httpx.put(url, json=gold, timeout=TIMEOUT_S).raise_for_status()
        yield server
    finally:
        server.stop()


@pytest.fixture
def rest(server: Server) -> Iterator[httpx.Client]:
    """A client of `/api/v1`."""
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Module by module: its event loop would disturb those of other tests."""
    if CHROMIUM is None:
        pytest.fail("no Chromium here; run: sh tools/require_browser.sh")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(
    playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    context = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=CHROMIUM,
        args=list(FLAGS),
        timeout=TIMEOUT_S * 1000,
        color_scheme="light",
        viewport={"width": 1360, "height": 860},
    )
    context.set_default_timeout(TIMEOUT_S * 1000)
    expect.set_options(timeout=TIMEOUT_S * 1000)
    yield context
    context.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A new tab; a script error in it fails the test."""
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    tab.close()
    assert errors == []


@pytest.fixture
def working_agents(
    server: Server,
) -> Callable[..., AbstractContextManager[None]]:
    """Two real agents that attempt so many units a second together."""

    def working(*, tenant: str, per_s: float) -> AbstractContextManager[None]:
        half = {tenant: per_s / 2}
        return at_work(server.url, {"one": half, "two": half})

    return working
