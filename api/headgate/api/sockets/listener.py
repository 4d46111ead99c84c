"""A listening socket that keeps a place free for the next client.

asyncio accepts whatever the kernel has, and when the descriptors run out it logs an
error and stops accepting for a second, again and again.  So the number of connections
is bounded below the descriptor limit, in all and for each address.  At a bound, the
connection that has waited longest without a complete request is closed, as a kernel
drops the oldest half-open one under a SYN flood: a client that sends its request at
once is always served, even beside thousands that never finish theirs.
"""

import logging
import socket
import sys
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

MAX_CONNECTIONS = 16_384
"""Connections in all: every agent keeps one, and the watch takes 10,000."""

RESERVED_DESCRIPTORS = 256
"""For the database, files and the embedded bus's own sockets."""

ACCEPTED_AT_ONCE = 32
"""Connections taken before the loop turns to requests: about 3 ms."""

Peer = tuple[str, int]
"""Address and port of the other side."""

_log = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open descriptors to the maximum."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS + RESERVED_DESCRIPTORS
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections() -> int:
    """Return how many connections the descriptor limit allows.

    Two thirds of it: agents also hold a connection to the embedded bus.
    """
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, (soft - RESERVED_DESCRIPTORS) * 2 // 3))


@dataclass(slots=True)
class _OfAddress:
    """Connections of one address: all, and those without a request, oldest first."""

    all: set[Peer] = field(default_factory=set[Peer])
    idle: OrderedDict[Peer, None] = field(default_factory=OrderedDict[Peer, None])


class ConnectionTable:
    """Every open connection.  All methods belong to the event loop's thread.

    Args:
        most: Connections in all.
        most_of_address: Most connections of one IPv4 address or one IPv6 /64 network.
        proxies: Addresses and networks that only `most` bounds.

    Invariant: an idle connection is an open one, and is in both idle orders.
    """

    def __init__(
        self, most: int, most_of_address: int, proxies: Sequence[str] = ()
    ) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._proxies = tuple(ip_network(proxy, strict=False) for proxy in proxies)
        self._open: dict[Peer, socket.socket] = {}
        self._idle: OrderedDict[Peer, None] = OrderedDict()
        self._of: dict[str, _OfAddress] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, peer: Peer, connection: socket.socket) -> bool:
        """Admit a new connection, which is idle; return False to have it closed."""
        place = self._place(peer)
        of = self._of.get(place)
        if of is not None and len(of.all) >= self._bound(peer[0]):
            if not self._evict(of.idle):
                _log.warning("connections refused: too many from one address")
                return False
            _log.warning("idle connections closed: too many from one address")
        elif len(self._open) >= self._most:
            if not self._evict(self._idle):
                _log.warning("connections refused: %d are open", self._most)
                return False
            _log.warning("idle connections closed: %d are open", self._most)
        self._open[peer] = connection
        self._idle[peer] = None
        of = self._of.setdefault(place, _OfAddress())
        of.all.add(peer)
        of.idle[peer] = None
        return True

    def remove(self, peer: Peer, connection: socket.socket) -> None:
        """Forget a connection that is closed or about to be."""
        if self._open.get(peer) is not connection:
            return  # it was evicted earlier
        del self._open[peer]
        self._idle.pop(peer, None)
        place = self._place(peer)
        of = self._of[place]
        of.all.discard(peer)
        of.idle.pop(peer, None)
        if not of.all:
            del self._of[place]

    def working(self, peer: Peer) -> None:
        """The connection's request is under way: it can't be evicted."""
        if peer in self._open:
            self._idle.pop(peer, None)
            self._of[self._place(peer)].idle.pop(peer, None)

    def idle(self, peer: Peer) -> None:
        """The connection's request has been answered."""
        if peer in self._open:
            self._idle[peer] = None
            self._of[self._place(peer)].idle[peer] = None

    def _evict(self, idle: OrderedDict[Peer, None]) -> bool:
        """Close the oldest idle connection; return whether there was one."""
        oldest = next(iter(idle), None)
        if oldest is None:
            return False
        connection = self._open[oldest]
        self.remove(oldest, connection)
        with suppress(OSError):  # the loop sees its end and closes it
            connection.shutdown(socket.SHUT_RDWR)
        return True

    def _bound(self, host: str) -> int:
        if self._proxies:
            address = ip_address(host)
            if any(address in network for network in self._proxies):
                return self._most
        return self._most_of_address

    @staticmethod
    def _place(peer: Peer) -> str:
        """Return the address or network that the connection is counted under."""
        host = peer[0].partition("%")[0]
        if ":" not in host:
            return host
        address = IPv6Address(host)
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(int(address) >> 64)


class BoundedListener(socket.socket):
    """A listening socket whose connections are in a `ConnectionTable`."""

    table: ConnectionTable
    _accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection that the table admits.

        Raises:
            BlockingIOError: There is none, or the loop has other work to do first.
        """
        while True:
            self._accepted += 1
            if self._accepted > ACCEPTED_AT_ONCE:
                self._accepted = 0
                raise BlockingIOError("other work first")
            try:
                plain, address = super().accept()
            except OSError:
                self._accepted = 0
                raise
            peer = (str(address[0]), int(address[1]))
            accepted = _Accepted(
                self.family, self.type, self.proto, fileno=plain.detach()
            )
            if self.table.admit(peer, accepted):
                accepted.counted(self.table, peer)
                return accepted, address
            accepted.close()


class _Accepted(socket.socket):
    """A connection that leaves the table when it is closed."""

    _leave: tuple[ConnectionTable, Peer] | None = None

    def counted(self, table: ConnectionTable, peer: Peer) -> None:
        """Leave `table` when closed."""
        self._leave = table, peer

    def close(self) -> None:
        """Close the connection."""
        if self._leave is not None:
            table, peer = self._leave
            self._leave = None
            table.remove(peer, self)
        super().close()
