"""A network between processes of this machine that can be taken away from some of them.

`Relay` sits in front of a real broker or proxy and passes bytes on.  It looks up which
process each connection belongs to, and holds those of processes that are cut off: their
bytes wait, as on a network that drops packets, and pass when it has healed.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self

import psutil

HELD_S = 0.05
"""Time between two checks whether a held connection may go on."""

CHUNK = 1 << 16

CLOSE_S = 5.0
"""Time for a connection to end once it is broken."""


class Relay:
    """A port of its own in front of a server's port on loopback.

    Attributes:
        port: Where it listens.
        cut: Ids of the processes that are cut off; may be changed at any time.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.cut: set[int] = set()
        self._open: list[tuple[int, socket.socket]] = []
        self._passing: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut.clear()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends the wait for another
        self._listening.close()
        self.drop()
        for passing in self._passing:
            passing.join(CLOSE_S)

    def drop(self) -> None:
        """Break all connections; clients may connect again."""
        while self._open:
            with suppress(OSError):
                self._open.pop()[1].shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, (_, port, *_) = self._listening.accept()
                passing = threading.Thread(
                    target=self._pass, args=(client, port), daemon=True
                )
                self._passing = [one for one in self._passing if one.is_alive()]
                self._passing.append(passing)
                passing.start()

    def _pass(self, client: socket.socket, port: int) -> None:
        pid = owner_of(port)
        self._hold(pid)
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port))
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append((pid, end))
        back = threading.Thread(
            target=self._pump, args=(pid, server, client), daemon=True
        )
        back.start()
        self._pump(pid, client, server)
        back.join()
        client.close()
        server.close()

    def _pump(self, pid: int, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while got := source.recv(CHUNK):
                self._hold(pid)
                sink.sendall(got)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _hold(self, pid: int) -> None:
        while pid in self.cut:
            time.sleep(HELD_S)


def owner_of(port: int) -> int:
    """Return the process that has the local `port` of a connection, or 0."""
    for found in psutil.net_connections("tcp4"):
        if found.laddr and found.laddr.port == port and found.pid:
            return found.pid
    return 0
