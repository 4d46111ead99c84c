"""What holds for all tests: who runs where, and what a skipped test means.

With several workers (``--dist loadgroup``) a file's tests stay together, so that its
fixtures are made once, and all tests on Spark share one session.  Most of these tests
wait for something, which is why more workers than cores pay.  Tests whose promise is
about time on all cores are marked ``alone`` and run by themselves afterwards.
"""

import os

import pytest
from _pytest.terminal import TerminalReporter


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = "spark" if file.startswith("tests/pipeline/") else file
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, TerminalReporter) or exitstatus != 0:
        return
    skipped: list[pytest.TestReport] = reporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        reporter.write_line(f"{len(skipped)} skipped: a failure in CI")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
