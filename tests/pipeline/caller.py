"""A process with a real agent that logs what its callers were told.

``python caller.py AGENT SNAPSHOT LOG SECONDS``: goes by a snapshot on disk, as an
agent does whose API is away, so that nothing but Kafka stands between agents.
"""

from __future__ import annotations

import os
import sys
import time

from headgate.agent import connect

RATE = 300
"""Attempts a second; three callers want more than twice the limit."""


def main(name: str, snapshot: str, log: str, seconds: float) -> None:
    """Call for `seconds`, then stop in an orderly manner."""
    # Port 9 discards: there is no API.
    agent = connect(
        "http://127.0.0.1:9", agent=name, snapshot_path=snapshot, wait_s=5.0
    )
    limiter = agent.limiter(tenant="acme")
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    end_s = time.monotonic() + seconds
    admitted = refused = 0
    while time.monotonic() < end_s:
        if limiter.try_acquire(requests=1):
            admitted += 1
        else:
            refused += 1
        # One write a call: a killed process has told its log everything.
        os.write(out, f"{time.time():.3f} {admitted} {refused}\n".encode())
        time.sleep(1 / RATE)
    agent.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
