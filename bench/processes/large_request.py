"""What a request as large as the burst leaves, as two agents on a quick bus see it.

``.venv/bin/python bench/processes/large_request.py`` starts a server and two agents,
one half a minute after the other.  In ten groups of 10/s with a burst of 1,000 the
older one takes 1,100 at once after both have used the group; in ten more that is its
first request; and in ten it is the first one of the younger agent.  In ninety more it
is the first request of either, and the other agent begins up to 0.2 s later.  It prints
how far the agents' levels are from that of one bucket two seconds later.  It takes
eight minutes.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.agent import Admin, Agent, LimitSpec, connect
from headgate.api import ServerSettings, running

RATE, BURST, COST = 10.0, 1000.0, 1100.0
APART_S = 30.0
NEAR = 25.0
"""Units by which views of one level may differ."""

USED, OLDER, YOUNGER, TOGETHER = (
    "used by both",
    "the older one's first",
    "the younger one's first",
    "both begin",
)
GROUPS = {USED: 10, OLDER: 10, YOUNGER: 10, TOGETHER: 90}
TOGETHER_S = 0.2


def levels(taking: Agent, other: Agent, name: str, kind: str) -> list[float]:
    """Let an agent take `COST`; return both errors, units."""
    if kind != TOGETHER:
        other.limiter(tenant=name).try_acquire(requests=1)
    if kind == USED:
        taking.limiter(tenant=name).try_acquire(requests=1)
    time.sleep(1.0 if kind == TOGETHER else 6.0)
    taking.limiter(tenant=name).try_acquire(requests=COST)
    if kind == TOGETHER:
        time.sleep(random.uniform(0.0, TOGETHER_S))
        other.limiter(tenant=name).try_acquire(requests=1)
    time.sleep(2.0)
    true = BURST - COST + 2.0 * RATE
    both = taking, other
    return [each.explain(name, "requests").level - true for each in both]


def main() -> None:
    """Print the errors, and how many are large."""
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "headgate.db")
        settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
        with running(settings) as addresses, Admin(addresses.api) as admin:
            kinds = [kind for kind, number in GROUPS.items() for _ in range(number)]
            for n in range(len(kinds)):
                limit = LimitSpec("requests", rate=RATE, burst=BURST)
                admin.put_group(f"g{n}", [limit])
                admin.put_tenant(f"g{n}")
                admin.attach(f"g{n}", tenant=f"g{n}")
            older = connect(addresses.api, agent="a", keep_snapshot=False)
            older.limiter(tenant="g0").try_acquire(requests=1)
            time.sleep(APART_S)
            younger = connect(addresses.api, agent="b", keep_snapshot=False)
            wrong = dict.fromkeys(GROUPS, 0)
            for n, kind in enumerate(kinds):
                pair = (younger, older) if kind == YOUNGER else (older, younger)
                off = levels(*pair, f"g{n}", kind)
                wrong[kind] += max(map(abs, off)) > NEAR
                print(f"{kind}: off by {off[0]:.0f} and {off[1]:.0f} units", flush=True)
            for kind, count in wrong.items():
                groups = GROUPS[kind]
                print(f"{kind}: {count} of {groups} off by more than {NEAR:.0f} units")
            for each in (younger, older):
                each.close()


if __name__ == "__main__":
    main()
