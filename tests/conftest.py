"""What all tests share: a cache folder of their own, and no skipped test in CI."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

DOWNLOADED = ("go-build", "headgate/jars")
"""What `tools/fetch_parts.sh` keeps in the user's cache; tests use it from there."""


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


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, TerminalReporter) or exitstatus != 0:
        return
    skipped: list[pytest.TestReport] = reporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        reporter.write_line(f"{len(skipped)} skipped: a failure in CI")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
