"""A process with an embedded limiter under a steady load; told what to do on stdin.

``rate 300`` sets its attempts per second; the end of stdin ends it in good order.
Each attempt is logged with its time on the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import sys
import time
from pathlib import Path

from headgate.agent import connect
from headgate.cli.demo.callerlog import CallerLog
from headgate.cli.process.children import hold_to_parent

TICK_S = 0.002
CAPACITY = 1_000_000

START_S = 60.0
"""For the first configuration, without which all is admitted."""


def main() -> None:
    hold_to_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--log", required=True, type=Path)
    parser.add_argument("--home", required=True, type=Path)
    options = parser.parse_args()
    log = CallerLog(options.log, capacity=CAPACITY)
    with connect(
        options.url,
        agent=options.agent,
        snapshot_path=options.home / "snapshot.json",
        wait_s=START_S,
    ) as agent:
        limiter = agent.limiter(tenant=options.tenant)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        rate, due_s = 0.0, time.monotonic()
        while (told := _told()) != "":
            if told is not None:
                rate, due_s = float(told.removeprefix("rate ")), time.monotonic()
            now_s = time.monotonic()
            while rate > 0 and due_s <= now_s:
                due_s += random.expovariate(rate)
                begun_ns = time.monotonic_ns()
                decision = limiter.try_acquire(requests=1)
                spent_ns = time.monotonic_ns() - begun_ns
                log.record(begun_ns, spent_ns, bool(decision))
    log.close()


def _told() -> str | None:
    """Return the next line of stdin, empty at its end, None if there is none yet."""
    if not select.select([sys.stdin], [], [], TICK_S)[0]:
        return None
    return os.read(sys.stdin.fileno(), 4096).decode()


if __name__ == "__main__":
    main()
