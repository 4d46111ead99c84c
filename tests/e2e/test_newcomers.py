"""What a process knows of a limit that others used before it, and are gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headgate.agent import Admin, Agent, LimitSpec, connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone

GONE_S = 4.0
"""After which the API knows that a process was killed, and others can learn it."""

JOB = """
import sys
import headgate

with headgate.connect(sys.argv[1], keep_snapshot=False, wait_s=30) as agent:
    limiter = agent.limiter(tenant="hourly")
    print(sum(bool(limiter.try_acquire(requests=9)) for _ in range(4)))
"""

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


FORKING = """
import multiprocessing, sys, time
import headgate

HOURS = int(sys.argv[2])

def child(limiter, life_s, passed):
    passed.put(bool(limiter.try_acquire(requests=1)))
    time.sleep(life_s)

fork = multiprocessing.get_context("fork")
agent = headgate.connect(sys.argv[1], keep_snapshot=False, wait_s=30)
with headgate.Admin(sys.argv[1]) as admin:
    for n in range(HOURS):
        name, life_s = f"hours-{n}", 0.4 * (n % 2)
        admin.put_group(name, [headgate.LimitSpec("requests", rate=20, period_s=3600)])
        admin.put_tenant(name)
        admin.attach(name, tenant=name)
        time.sleep(1.0)
        limiter, passed = agent.limiter(tenant=name), fork.Queue()
        each = limiter, life_s, passed
        children = [fork.Process(target=child, args=each) for _ in range(4)]
        for one in children:
            one.start()
        left = 20 - sum(passed.get(timeout=30) for _ in children)
        for one in children:
            one.join(30)
        time.sleep(1.5)
        print(left, agent.explain(name, "requests").level)
agent.close()
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


def admitted(agent: Agent, name: str, for_s: float) -> tuple[int, float]:
    """Return how many of ten requests a second pass, and the longest delay told."""
    limiter = agent.limiter(tenant=name)
    passed, longest_s = 0, 0.0
    for _ in range(round(10 * for_s)):
        decision = limiter.try_acquire(requests=1)
        passed += bool(decision)
        longest_s = max(longest_s, decision.delay_s)
        time.sleep(0.1)
    return passed, longest_s


@contextmanager
def spending(url: str) -> Generator[subprocess.Popen[str]]:
    """A process that has spent all and is there until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", SPENDING, url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "spent\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_a_killed_process_spent_is_spent_for_those_that_begin_later(
    url: str, tmp_path: Path
) -> None:
    """One has been connected since before, one connects after it was killed."""
    earlier = connect(
        url, agent="earlier", snapshot_path=tmp_path / "earlier.json", wait_s=30
    )
    with earlier, spending(url) as process:
        spent_s = time.monotonic()
        process.kill()
        process.wait()
        time.sleep(GONE_S)
        assert admitted(earlier, "hourly", 2.0)[0] <= 2
        later = connect(
            url, agent="later", snapshot_path=tmp_path / "later.json", wait_s=30
        )
        with later:
            passed, delay_s = admitted(later, "quick", 3.0)
            assert passed <= 1
            # It owes at least 285 units for 30 s.
            owed_s = 29.0 - (time.monotonic() - spent_s)
            assert delay_s == pytest.approx(owed_s, abs=6.0)


def test_a_process_that_begins_just_after_another_was_killed_knows_its_debt(
    url: str,
) -> None:
    """The API has not noticed yet that it is gone, but has seen what it spent."""
    with spending(url) as process:
        spent_s = time.monotonic()
        time.sleep(1.0)  # the API looks each second
        process.kill()
        with connect(url, agent="later", keep_snapshot=False, wait_s=30) as later:
            first = later.limiter(tenant="quick").try_acquire(requests=1)
            owed_s = 29.5 - (time.monotonic() - spent_s)
            assert not first
            assert first.delay_s == pytest.approx(owed_s, abs=3.0)
            assert admitted(later, "hourly", 2.0)[0] <= 1


@pytest.mark.parametrize("made_after_s", [0.0, 6.0])
def test_jobs_that_come_and_go_one_after_another_share_one_quota(
    url: str, made_after_s: float
) -> None:
    """Each is there for less time than passes between two looks of the API."""
    if made_after_s:
        # A limit that is made when the API has been running for a while.
        time.sleep(made_after_s)
        with Admin(url) as admin:
            admin.put_group("later", [LimitSpec("requests", rate=100, period_s=3600)])
            admin.attach("later", tenant="hourly")
    passed: list[int] = []
    for _ in range(6):
        job = subprocess.run(
            [sys.executable, "-c", JOB, url], capture_output=True, text=True, timeout=60
        )
        assert job.returncode == 0, job.stderr
        passed.append(int(job.stdout))
    assert sum(passed) == 12, passed  # 9 units each, of 100 and a debt


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_what_forked_children_used_is_what_their_parent_misses(url: str) -> None:
    """It has not used the limits, and they end at once or after some tenths.

    Where they begin at the same time, one request may be forgotten, and each of the
    four charged twice; before, all was forgotten, or the whole burst charged.
    """
    forking = subprocess.run(
        [sys.executable, "-c", FORKING, url, "10"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert forking.returncode == 0, forking.stderr
    lines = [line.split() for line in forking.stdout.splitlines()]
    missing = [float(left) - float(level) for left, level in lines]
    assert all(-1.5 <= units <= 4.0 for units in missing), forking.stdout
    assert sum(abs(units) <= 0.5 for units in missing) >= 6, "of ten"


@pytest.mark.parametrize("cost", [300.0, 6000.0])
def test_the_first_request_of_an_older_process_binds_a_younger_one(
    url: str, cost: float
) -> None:
    older = connect(url, agent="older", keep_snapshot=False, wait_s=30)
    admitted(older, "hourly", 3.0)  # dozens of reports before the other one comes
    younger = connect(url, agent="younger", keep_snapshot=False, wait_s=30)
    assert younger.limiter(tenant="quick").try_acquire(requests=1)
    time.sleep(3.0)
    assert older.limiter(tenant="quick").try_acquire(requests=cost)
    time.sleep(0.5)
    passed, delay_s = admitted(younger, "quick", 2.0)
    assert passed == 0
    assert delay_s == pytest.approx((cost - 10.0) / 10.0 - 0.5, abs=2.0)
    assert admitted(older, "quick", 0.5)[0] == 0
    older.close()
    younger.close()


def test_a_maximum_is_kept_by_processes_that_come_and_go(url: str) -> None:
    """Each wants more than is left, and leaves what it owes behind."""
    with Admin(url) as admin:
        admin.put_group("above", [LimitSpec("requests", rate=1000)])
        capped = LimitSpec("requests", rate=1000, maximum=100)
        admin.put_group("capped", [capped], parent="above")
        admin.put_tenant("capped")
        admin.attach("capped", tenant="capped")
    time.sleep(1.0)
    began_s, taken = time.monotonic(), 0
    for n in range(8):
        name = f"n{n}"
        with connect(url, agent=name, keep_snapshot=False, wait_s=30) as agent:
            limiter = agent.limiter(tenant="capped")
            for _ in range(4):
                taken += 600 * bool(limiter.try_acquire(requests=600))
                time.sleep(0.1)
    assert taken >= 1200
    assert taken <= 1000 + 100 * (time.monotonic() - began_s) + 2 * 600
