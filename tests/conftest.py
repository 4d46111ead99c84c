"""A test that is skipped because a tool is absent counts as a failure in CI."""

import os

import pytest
from _pytest.terminal import TerminalReporter


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, TerminalReporter) or exitstatus != 0:
        return
    skipped: list[pytest.TestReport] = reporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        reporter.write_line(f"{len(skipped)} skipped: a failure in CI")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
