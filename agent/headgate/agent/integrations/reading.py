"""When servers stop reading: pending requests of a connection, and buffered bytes.

Pulsar's broker stops reading from a connection while too many of its requests await an
answer, and from all connections while the buffers of what they published are too full
(PIP-322).  Each connection has one `ThrottleTracker`: its first cause stops the reading
and the end of its last one resumes it.

Only what has arrived whole counts, as in Pulsar.  Whatever counts needs no further
reading, so it always ends and lets the others read: there is no deadlock, and a client
that never finishes its upload holds nobody up.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headgate.agent.limiter.throttle import (
    PendingRequests,
    PublishMemory,
    ThrottleTracker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable

ACTIVE_S = 0.5
"""How often a thread that may not read checks whether its call was cancelled."""


class ReadConnection:
    """One connection: whether it may be read, and what it holds.

    Threads and tasks may share it.
    """

    def __init__(self, most_pending: int | None, memory: PublishMemory | None) -> None:
        """Read until a limit is reached; see `ReadingLimits`."""
        self.tracker = ThrottleTracker(pause=self._pause, resume=self._resume)
        self.users = 0
        self._memory = memory
        self._pending = (
            None
            if most_pending is None
            else PendingRequests(self.tracker, most=most_pending)
        )
        self._readable = threading.Event()
        self._readable.set()
        self._tasks: set[asyncio.Future[None]] = set()

    def ask(self) -> None:
        """Count a request that has arrived whole as pending."""
        if self._pending is not None:
            self._pending.begin()

    def answer(self) -> None:
        """Count one less, because it is answered."""
        if self._pending is not None:
            self._pending.end()

    def hold(self, size: int) -> None:
        """Count the bytes of what has arrived whole."""
        if self._memory is not None:
            self._memory.take(size)

    def free(self, size: int) -> None:
        """Stop counting them."""
        if self._memory is not None:
            self._memory.free(size)

    async def readable(self) -> None:
        """Suspend the calling task while the connection is paused."""
        while self.tracker.count:
            future = asyncio.get_running_loop().create_future()
            self._tasks.add(future)
            try:
                if self.tracker.count:  # else it was resumed before `add`
                    await future
            finally:
                self._tasks.discard(future)

    def wait_readable(self, active: Callable[[], bool]) -> None:
        """Block the calling thread while the connection is paused and `active`."""
        while self.tracker.count and active():
            self._readable.wait(ACTIVE_S)

    def _pause(self) -> None:
        self._readable.clear()

    def _resume(self) -> None:
        self._readable.set()
        for future in tuple(self._tasks):
            with suppress(RuntimeError):  # its loop is closed, so nobody waits
                future.get_loop().call_soon_threadsafe(_wake, future)


class ReadingLimits:
    """The connections of one server."""

    def __init__(self, most_pending: int | None, most_bytes: int | None) -> None:
        """Begin without connections.

        Args:
            most_pending: Unanswered requests at which a connection is paused, until
                half of them are answered; None for any number.
            most_bytes: Bytes of unanswered requests, of all connections together, at
                which all are paused, until half of them are free; None for any number.

        Raises:
            ValueError: One of them is below 1.
        """
        for name, most in (
            ("max_pending_requests_per_connection", most_pending),
            ("max_buffered_bytes", most_bytes),
        ):
            if most is not None and most < 1:
                raise ValueError(f"{name}: expected at least 1, or None, got {most}")
        self._most_pending = most_pending
        self._memory = (
            None if most_bytes is None else PublishMemory(most_bytes=most_bytes)
        )
        self._connections: dict[Hashable, ReadConnection] = {}
        self._lock = threading.Lock()

    @contextmanager
    def connection(self, address: Hashable) -> Generator[ReadConnection]:
        """Hold the connection with a client's address while a request uses it.

        Args:
            address: Such as host and port; None if the server does not know it, which
                makes the request a connection of its own.
        """
        key = object() if address is None else address
        with self._lock:
            connection = self._connections.get(key)
            if connection is None:
                connection = ReadConnection(self._most_pending, self._memory)
                self._connections[key] = connection
                if self._memory is not None:
                    self._memory.watch(connection.tracker)
            connection.users += 1
        try:
            yield connection
        finally:
            with self._lock:
                connection.users -= 1
                if not connection.users:
                    del self._connections[key]
                    if self._memory is not None:
                        self._memory.forget(connection.tracker)


def reading_limits(
    most_pending: int | None, most_bytes: int | None
) -> ReadingLimits | None:
    """Return limits on reading, None if neither is set; see `ReadingLimits`."""
    if most_pending is None and most_bytes is None:
        return None
    return ReadingLimits(most_pending, most_bytes)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
