"""Processes that come after others, or come and go, and what they find of a limit.

``.venv/bin/python bench/processes/newcomers.py`` starts a server and lets

- ten jobs, one after another, connect, ask five times and end: of 20 an hour, a bucket
  for all admits 20 and one in debt;
- two agents that are connected begin to use 100 an hour, the second one 50 ms after the
  first: it prints the longest delay that the second one is told, and until when it is
  refused.  More than 90 units are left all the time;
- four agents that are connected begin to use 10/s with a burst of 1,000, each 50 ms
  after the one before, with a request of 400: it prints how far the agents' levels are
  from that of one bucket three seconds later.

It takes two minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.agent import Admin, LimitSpec, connect
from headgate.api import ServerSettings, running

JOBS, REQUESTS = 10, 5
GROUPS, LATER_S, ASKS = 8, 0.05, 20
ROUNDS, GAP_S, RATE, BURST, COST = 20, 0.05, 10.0, 1000.0, 400.0

JOB = """
import sys
from headgate.agent import connect

with connect(sys.argv[1], keep_snapshot=False, wait_s=30) as agent:
    limiter = agent.limiter(tenant="jobs")
    print(sum(bool(limiter.try_acquire(requests=1)) for _ in range(int(sys.argv[2]))))
"""


def jobs(url: str) -> list[int]:
    """Return what each job was admitted."""
    command = [sys.executable, "-c", JOB, url, str(REQUESTS)]
    passed: list[int] = []
    for _ in range(JOBS):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        passed.append(int(done.stdout))
    return passed


def begin_after(url: str) -> list[tuple[float, float]]:
    """Return for each group the longest delay told, and when the last refusal was."""
    first, second = (connect(url, agent=name, keep_snapshot=False) for name in "ab")
    for agent in (first, second):
        agent.limiter(tenant="jobs").try_acquire(requests=0)
    time.sleep(5.0)
    found: list[tuple[float, float]] = []
    for n in range(GROUPS):
        first.limiter(tenant=f"g{n}").try_acquire(requests=1)
        time.sleep(LATER_S)
        limiter, begun_s = second.limiter(tenant=f"g{n}"), time.monotonic()
        longest_s = last_s = 0.0
        for _ in range(ASKS):
            decision = limiter.try_acquire(requests=0.1)
            if not decision:
                longest_s = max(longest_s, decision.delay_s)
                last_s = time.monotonic() - begun_s
            time.sleep(0.05)
        found.append((longest_s, last_s))
    first.close()
    second.close()
    return found


def begin_in_turn(url: str) -> list[float]:
    """Return for each round how far the agents' levels are off, units."""
    agents = [connect(url, agent=name, keep_snapshot=False) for name in "wxyz"]
    for agent in agents:
        agent.limiter(tenant="jobs").try_acquire(requests=0)
    time.sleep(5.0)
    found: list[float] = []
    for n in range(ROUNDS):
        true = BURST
        for agent in agents:
            true -= COST * bool(
                agent.limiter(tenant=f"t{n}").try_acquire(requests=COST)
            )
            begun_s = time.monotonic()
            time.sleep(GAP_S)
        time.sleep(3.0)
        # The bucket is full until the first request, so it earns from then on.
        true += RATE * (time.monotonic() - begun_s + GAP_S * (len(agents) - 1))
        levels = [agent.explain(f"t{n}", "requests").level for agent in agents]
        found.append(max((level - true for level in levels), key=abs))
    for agent in agents:
        agent.close()
    return found


def main() -> None:
    """Print all three."""
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "headgate.db")
        settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
        with running(settings) as addresses, Admin(addresses.api) as admin:
            quotas = {"jobs": 20.0, **{f"g{n}": 100.0 for n in range(GROUPS)}}
            for name, rate in quotas.items():
                admin.put_group(name, [LimitSpec("requests", rate=rate, period_s=3600)])
                admin.put_tenant(name)
                admin.attach(name, tenant=name)
            for n in range(ROUNDS):
                limit = LimitSpec("requests", rate=RATE, burst=BURST)
                admin.put_group(f"t{n}", [limit])
                admin.put_tenant(f"t{n}")
                admin.attach(f"t{n}", tenant=f"t{n}")
            passed = jobs(addresses.api)
            print(f"jobs: {passed}, {sum(passed)} of 20 an hour", flush=True)
            for longest_s, last_s in begin_after(addresses.api):
                print(f"told {longest_s:.2f} s at most, refused until {last_s:.2f} s")
            for off in begin_in_turn(addresses.api):
                print(f"four in turn: off by {off:.0f} units at most", flush=True)


if __name__ == "__main__":
    main()
