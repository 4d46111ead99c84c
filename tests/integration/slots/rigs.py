"""A counter outside of those who hold slots, and the processes that do."""

from __future__ import annotations

import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]

PATIENCE_S = 60.0
"""How long a test waits for what must come; the machine may be busy."""


def until(condition: Callable[[], bool], what: str) -> float:
    """Wait until `condition` holds; return for how long, in seconds."""
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        assert waited_s < PATIENCE_S, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.01)
    return time.monotonic() - began_s


class InFlight:
    """Counts who is at work, over connections: one that breaks is at work no more.

    Attributes:
        port: Where it listens.
        most: The most that were at work at a time.
        begun: How often work began, by connection.
    """

    def __init__(self) -> None:
        self.most = 0
        self.begun: Counter[object] = Counter()
        self._at_work: set[object] = set()
        self._lock = threading.Lock()
        counter = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    while word := self.request.recv(1):
                        counter.note(self, begins=word == b"+")
                        self.request.sendall(b".")
                except ConnectionError:
                    pass
                counter.note(self, begins=False)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def note(self, who: object, *, begins: bool) -> None:
        """Count one in or out."""
        with self._lock:
            if begins:
                self._at_work.add(who)
                self.begun[who] += 1
                self.most = max(self.most, len(self._at_work))
            else:
                self._at_work.discard(who)

    @property
    def now(self) -> int:
        """How many are at work."""
        with self._lock:
            return len(self._at_work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def start_worker(
    url: str, counter: InFlight, name: str, *, threads: int, hold_s: float
) -> subprocess.Popen[bytes]:
    """Start a process that holds slots."""
    command = [sys.executable, "-m", "tests.integration.slots.worker", url]
    arguments = [str(counter.port), name, str(threads), str(hold_s)]
    return subprocess.Popen([*command, *arguments], cwd=ROOT)
