"""Places for connections, and log lines, without a server."""

import logging
import socket
from collections.abc import Iterator

import pytest

from headgate.api.sockets.listener import ConnectionTable, Peer
from headgate.api.sockets.quiet_log import OncePerMinute


class Ends:
    """Connections whose other ends say whether they were closed."""

    def __init__(self) -> None:
        self._other: dict[Peer, socket.socket] = {}
        self._all: list[socket.socket] = []

    def made(self, peer: Peer) -> socket.socket:
        ours, self._other[peer] = socket.socketpair()
        self._all += (ours, self._other[peer])
        return ours

    def is_open(self, peer: Peer) -> bool:
        other = self._other[peer]
        other.setblocking(False)
        try:
            return other.recv(1) != b""
        except BlockingIOError:
            return True

    def close(self) -> None:
        for end in self._all:
            end.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def peers(address: str, count: int) -> list[Peer]:
    return [(address, port) for port in range(1, count + 1)]


def test_the_oldest_without_a_request_makes_place(ends: Ends) -> None:
    table = ConnectionTable(10, 3)
    first, second, third, fourth = peers("10.0.0.1", 4)
    for peer in (first, second, third):
        assert table.admit(peer, ends.made(peer))
    table.working(first)
    assert table.admit(fourth, ends.made(fourth))
    assert [ends.is_open(peer) for peer in (first, second, third, fourth)] == [
        True,
        False,
        True,
        True,
    ]
    assert len(table) == 3


def test_nobody_makes_place_while_all_work(ends: Ends) -> None:
    table = ConnectionTable(10, 2)
    first, second, third = peers("10.0.0.1", 3)
    for peer in (first, second):
        table.admit(peer, ends.made(peer))
        table.working(peer)
    assert not table.admit(third, ends.made(third))
    table.idle(first)
    assert table.admit(third, ends.made(third))
    assert not ends.is_open(first)


def test_one_address_does_not_take_the_places_of_others(ends: Ends) -> None:
    table = ConnectionTable(4, 2)
    for peer in peers("10.0.0.1", 9):
        table.admit(peer, ends.made(peer))
    other = ("10.0.0.2", 1)
    assert table.admit(other, ends.made(other))
    assert len(table) == 3


def test_one_ipv6_network_counts_as_one_address(ends: Ends) -> None:
    table = ConnectionTable(9, 1)
    for peer in (("2001:db8::1", 1), ("2001:db8::2", 2), ("2001:db8:0:1::1", 3)):
        assert table.admit(peer, ends.made(peer))
    assert len(table) == 2


def test_a_trusted_proxy_has_the_bound_of_all(ends: Ends) -> None:
    table = ConnectionTable(4, 1, ["10.0.0.0/8"])
    for peer in peers("10.0.0.1", 4):
        assert table.admit(peer, ends.made(peer))
    assert len(table) == 4


def test_a_closed_connection_leaves_nothing_behind(ends: Ends) -> None:
    table = ConnectionTable(4, 1)
    peer = ("10.0.0.1", 1)
    for _ in range(3):
        connection = ends.made(peer)
        assert table.admit(peer, connection)
        table.working(peer)
        table.remove(peer, connection)
        connection.close()
    assert len(table) == 0


def test_a_log_line_is_told_once_a_minute_and_cause() -> None:
    once = OncePerMinute()

    def told(at_s: float, text: str, *values: object) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, values, None)
        record.created = at_s
        return record.getMessage() if once.filter(record) else None

    assert told(0.0, "closed %d", 1) == "closed 1"
    assert told(1.0, "refused %d", 1) == "refused 1"
    assert [told(float(second), "closed %d", second) for second in range(2, 60)] == [
        None
    ] * 58
    assert told(60.0, "closed %d", 7) == "closed 7 (58 more since the last line)"
    assert told(61.0, "closed %d", 8) is None
