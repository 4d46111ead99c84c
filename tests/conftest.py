"""What all tests share: a cache folder, a server; and no skipped test in CI."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.api import Addresses

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")

SKIPPED_IN_CI = 6
"""The exit code for it: none of pytest's own, least of all 1, after which `make test`
tries again what failed."""

# A shell that starts a command in the background lets it ignore Ctrl-C, and with it all
# that it starts; here are tests of what Ctrl-C does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DOWNLOADED = ("go-build", "headgate/jars")
"""What `tools/fetch_parts.sh` keeps in the user's cache; tests use it from there."""


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was imported, which is no garbage.

    Looking at it again and again took a fifth of the CPU of the API's tests.
    """
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the snapshots of agents, here and in other processes, out of the user's."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = tmp_path_factory.mktemp("cache")
    for name in DOWNLOADED:
        if (users / name).exists():
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            (cache / name).symlink_to(users / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A real server on free ports, shared by the tests of one module."""
    from headgate.api import ServerSettings, running  # most tests need no server

    database = str(tmp_path_factory.mktemp("server") / "headgate.db")
    settings = ServerSettings(port=0, bus_ports=(0, 0), database=database)
    with running(settings) as addresses:
        yield addresses


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, TerminalReporter) or exitstatus not in {0, 1}:
        return
    skipped: list[pytest.TestReport] = reporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        reporter.write_line(f"{len(skipped)} skipped: a failure in CI")
        session.exitstatus = SKIPPED_IN_CI
