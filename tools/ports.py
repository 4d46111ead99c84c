"""Ports for servers of tests and measurements."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from random import SystemRandom

FIRST, LAST = 20_000, 32_000
"""Below the ports that systems give to clients, because one of those may be taken when
a server restarts."""

LAST_GIVEN = Path(tempfile.gettempdir(), f"headgate-port-{os.getuid()}")
"""Holds the port given last.  A server takes a second until it listens on its port;
meanwhile tests in other processes must not be given the same one."""


def free_port() -> int:
    """Return a port on 127.0.0.1 that nothing listens on and no client is given.

    Each call returns another one, whichever process of this user makes it, until all
    have been given.

    Raises:
        OSError: No port is free.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(LAST_GIVEN, flags, 0o600), "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = file.read()
        last = int(told) if told.isdecimal() else 0
        if not FIRST <= last <= LAST:
            last = SystemRandom().randint(FIRST, LAST)
        count = LAST - FIRST + 1
        following = (FIRST + (last - FIRST + step) % count for step in range(1, count))
        port = next((one for one in following if _is_free(one)), None)
        if port is None:
            raise OSError(f"no port between {FIRST} and {LAST} is free")
        file.seek(0)
        file.truncate()
        file.write(str(port))
    return port


def _is_free(port: int) -> bool:
    """Whether nothing listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
