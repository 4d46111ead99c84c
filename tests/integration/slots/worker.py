"""A process that holds slots, and tells a counter outside while it does.

``python -m tests.integration.slots.worker URL COUNTER_PORT AGENT THREADS HOLD_S``

Each thread takes a slot, says so to the counter, works, says that it is about to give
it back, and gives it back.  With a time of 0 it holds what it got until it is killed.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from headgate.agent import connect

if TYPE_CHECKING:
    from headgate.agent import Limiter

FOREVER_S = 3600.0


def work(limiter: Limiter, port: int, hold_s: float) -> None:
    """Take slots, one after the other."""
    with socket.create_connection(("127.0.0.1", port)) as counter:
        while True:
            with limiter.slot():
                counter.sendall(b"+")
                counter.recv(1)  # it counts now
                time.sleep(hold_s or FOREVER_S)
                counter.sendall(b"-")
                counter.recv(1)  # it counts no more


def main(url: str, port: str, name: str, threads: str, hold_s: str) -> None:
    """Hold slots until the process ends."""
    agent = connect(url, agent=name, keep_snapshot=False, wait_s=60.0)
    limiter = agent.limiter(tenant="acme")
    started = [
        threading.Thread(target=work, args=(limiter, int(port), float(hold_s)))
        for _ in range(int(threads))
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
