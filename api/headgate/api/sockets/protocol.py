"""uvicorn's HTTP protocol with the timeouts that it lacks.

A header must be complete within `HEADER_TIMEOUT_S`, and an answer must be read: a
client that does neither would hold its connection, and what is buffered for it, for
as long as it likes.  The body's time is bounded in `http/body_limits`.
"""

import asyncio
import logging
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.api.sockets.listener import ConnectionTable, Peer

HEADER_TIMEOUT_S = 10.0
"""From the first byte, or the start of the connection, to the end of the header."""

READ_TIMEOUT_S = 30.0
"""Time a client may leave a full send buffer unread, seconds."""

_log = logging.getLogger(__name__)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 on one connection; subclasses name the `table` that it is in."""

    table: ConnectionTable
    _peer: Peer | None = None
    _header: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a header."""
        super().connection_made(cast("asyncio.Transport", transport))
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self._peer = cast("Peer", name[:2])
        self._await_header()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        if self._is_working():
            self._work()
        else:
            self._await_header()

    def on_response_complete(self) -> None:
        """Turn to the next request."""
        super().on_response_complete()
        if self._is_working():  # on a pipelined request
            return
        if self._peer is not None:
            self.table.idle(self._peer)
        if self.conn.trailing_data[0]:
            self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for timer in (self._header, self._reading):
            if timer is not None:
                timer.cancel()
        self._header = self._reading = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read, for a while."""
        super().pause_writing()
        self._reading = self.loop.call_later(READ_TIMEOUT_S, self._unread)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _is_working(self) -> bool:
        cycle = cast("object | None", self.cycle)
        return cycle is not None and not self.cycle.response_complete

    def _work(self) -> None:
        if self._header is not None:
            self._header.cancel()
            self._header = None
        if self._peer is not None:
            self.table.working(self._peer)

    def _await_header(self) -> None:
        if self._header is None and not self.transport.is_closing():
            self._header = self.loop.call_later(HEADER_TIMEOUT_S, self._headless)

    def _headless(self) -> None:
        self._header = None
        _log.warning("connections closed: no request within %g s", HEADER_TIMEOUT_S)
        self.transport.abort()

    def _unread(self) -> None:
        self._reading = None
        _log.warning("connections closed: answer unread for %g s", READ_TIMEOUT_S)
        self.transport.abort()


def protocol_for(table: ConnectionTable) -> type[TimedProtocol]:
    """Return the protocol of a server whose connections are in `table`."""

    class Protocol(TimedProtocol):
        pass

    Protocol.table = table
    return Protocol
