"""What a request as large as the burst leaves, as two agents on a quick bus see it.

``.venv/bin/python bench/processes/large_request.py`` starts a server and two agents,
and for each of ten groups of 10/s with a burst of 1,000 lets one agent take 1,100 at
once.  It prints how far the agents' levels are from that of one bucket two seconds
later.  It takes two minutes.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.agent import Admin, Agent, LimitSpec, connect
from headgate.api import ServerSettings, running

GROUPS = 10
RATE, BURST, COST = 10.0, 1000.0, 1100.0
NEAR = 25.0
"""Units by which views of one level may differ."""


def levels(first: Agent, second: Agent, name: str) -> list[float]:
    """Let the first agent take `COST`; return the error of both views later, units."""
    both = [each.limiter(tenant=name) for each in (first, second)]
    for limiter in both:
        limiter.try_acquire(requests=1)
    time.sleep(6.0)
    both[0].try_acquire(requests=COST)
    time.sleep(2.0)
    true = BURST - COST + 2.0 * RATE
    return [each.explain(name, "requests").level - true for each in (first, second)]


def main() -> None:
    """Print the errors, and how many are large."""
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "headgate.db")
        settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
        with running(settings) as addresses, Admin(addresses.api) as admin:
            for n in range(GROUPS):
                limit = LimitSpec("requests", rate=RATE, burst=BURST)
                admin.put_group(f"g{n}", [limit])
                admin.put_tenant(f"g{n}")
                admin.attach(f"g{n}", tenant=f"g{n}")
            both = [connect(addresses.api, agent=n, keep_snapshot=False) for n in "ab"]
            wrong = 0
            for n in range(GROUPS):
                off = levels(both[0], both[1], f"g{n}")
                wrong += max(map(abs, off)) > NEAR
                print(f"g{n}: off by {off[0]:.0f} and {off[1]:.0f} units", flush=True)
            print(f"{wrong} of {GROUPS} off by more than {NEAR:.0f} units")
            for each in both:
                each.close()


if __name__ == "__main__":
    main()
