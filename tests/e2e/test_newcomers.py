"""What a process knows of a limit that others used before it, and are gone."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from headgate.agent import Admin, Agent, LimitSpec, connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone

GONE_S = 4.0
"""After which the API knows that a process was killed, and others can learn it."""

SPENDING = """
import sys, time
import headgate

agent = headgate.connect(sys.argv[1], agent="spending", keep_snapshot=False, wait_s=30)
hourly, quick = agent.limiter(tenant="hourly"), agent.limiter(tenant="quick")
hourly.try_acquire(requests=1)
quick.try_acquire(requests=1)
time.sleep(3)
while not hourly.try_acquire(requests=99) or not quick.try_acquire(requests=300):
    time.sleep(0.1)
time.sleep(0.5)
print("spent", flush=True)
time.sleep(600)
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with 100 an hour, and 10/s with a burst of 10."""
    database = str(tmp_path / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses, Admin(addresses.api) as admin:
        admin.put_group("hourly", [LimitSpec("requests", rate=100, period_s=3600)])
        admin.put_group("quick", [LimitSpec("requests", rate=10)])
        for name in ("hourly", "quick"):
            admin.put_tenant(name)
            admin.attach(name, tenant=name)
        yield addresses.api


def admitted(agent: Agent, name: str, for_s: float) -> int:
    """Return how many of ten requests a second pass."""
    limiter, passed = agent.limiter(tenant=name), 0
    for _ in range(round(10 * for_s)):
        passed += bool(limiter.try_acquire(requests=1))
        time.sleep(0.1)
    return passed


def test_what_a_killed_process_spent_is_spent_for_one_that_begins_later(
    url: str, tmp_path: Path
) -> None:
    """It has been connected since before, and was told then that nobody had."""
    earlier = connect(
        url, agent="earlier", snapshot_path=tmp_path / "earlier.json", wait_s=30
    )
    process = subprocess.Popen(
        [sys.executable, "-c", SPENDING, url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "spent\n"
        process.kill()
        process.wait()
        time.sleep(GONE_S)
        assert admitted(earlier, "hourly", 2.0) <= 2
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        earlier.close()
