"""A process with a real agent that logs what its callers were told.

``python caller.py URL AGENT SNAPSHOT LOG``: calls until its standard input is closed,
then stops in an orderly manner.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from headgate.agent import connect

RATE = 100
"""Attempts a second; three callers want more than the limit."""

PATIENCE_S = 60.0
"""For the API and the bus, on a busy machine."""


def main(url: str, name: str, snapshot: str, log: str) -> None:
    """Call until told to stop."""
    told = threading.Event()
    threading.Thread(target=_until_closed, args=(told,), daemon=True).start()
    agent = connect(url, agent=name, snapshot_path=snapshot, wait_s=PATIENCE_S)
    limiter = agent.limiter(tenant="acme")
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    admitted = refused = 0
    while not told.wait(1 / RATE):
        if limiter.try_acquire(requests=1):
            admitted += 1
        else:
            refused += 1
        # One write a call: a killed process has told its log everything.
        os.write(out, f"{time.time():.3f} {admitted} {refused}\n".encode())
    agent.close()


def _until_closed(told: threading.Event) -> None:
    sys.stdin.read()
    told.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
