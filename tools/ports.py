"""Ports for servers of tests and measurements."""

from __future__ import annotations

import socket
from random import SystemRandom

FIRST, LAST = 20_000, 32_000
"""Below the ports that systems give to clients: a server that stops for a moment would
find one of those taken when it starts again."""


def free_port() -> int:
    """Return a port on 127.0.0.1 that nothing listens on, and no client is given."""
    random = SystemRandom()
    while True:
        port = random.randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
