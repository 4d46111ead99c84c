"""Server-sent events that tell receivers what was refused to senders (Ably).

The sender learns of each refusal from its decision.  Those who would have received
what it sent learn of it here, at most once a second for each subject::

    notices = NoticeStream(sees=lambda scope, notice: is_member(scope, notice.subject))
    app.add_middleware(LimitMiddleware, source=agent, subject=who, notices=notices)
    app.mount("/notices", notices)

Each event is named ``refused`` and has JSON as its data: `subject`, `group`,
`dimension`, `requests`, `units` and `within_s`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING

from headgate.agent.limiter.notices import EVERY_S, Notice, NoticeBoard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.decision import Decision
    from headgate.agent.limiter.limiter import Limiter

Scope = MutableMapping[str, object]
Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_SUBJECTS = 10_000
"""Most subjects with refusals that are yet to be sent; beyond it, none are added."""

MOST_LISTENERS = 1_000
"""Streams at a time; more are answered 503."""

MOST_WAITING = 100
"""Notices that wait for one slow listener; it misses further ones."""

KEEP_ALIVE_S = 15.0
"""Time after which a comment is sent, so that proxies keep a quiet stream open."""


class NoticeStream:
    """An ASGI application that streams notices; belongs to one event loop.

    Attributes:
        missed: Notices that a slow listener did not get.
    """

    def __init__(
        self,
        *,
        sees: Callable[[Scope, Notice], bool],
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without listeners.

        Args:
            sees: Says whether the listener of a connection may hear about a subject.
            every_s: Shortest time between two notices about one subject.
            clock: Seconds, monotonic.
        """
        self.missed = 0
        self._sees = sees
        self._every_s = every_s
        self._clock = clock
        self._boards: dict[str, NoticeBoard] = {}
        self._swept_s = clock()
        self._listeners: list[tuple[Scope, asyncio.Queue[Notice]]] = []

    @property
    def listeners(self) -> int:
        """How many streams are open."""
        return len(self._listeners)

    def note(
        self, limiter: Limiter, decision: Decision, costs: Mapping[str, float]
    ) -> None:
        """Count an attempt; does nothing while nobody listens."""
        if not self._listeners:
            return
        subject = str(limiter.subject)
        board = self._boards.get(subject)
        if board is None:
            if len(self._boards) >= MOST_SUBJECTS:
                return
            board = NoticeBoard(
                limiter, self._publish, clock=self._clock, every_s=self._every_s
            )
            self._boards[subject] = board
        board.note(decision, costs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one listener until it hangs up."""
        if scope["type"] == "websocket":  # before it is accepted: it is answered 403
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http" or len(self._listeners) >= MOST_LISTENERS:
            await _answer(send, 503)
            return
        queue: asyncio.Queue[Notice] = asyncio.Queue(MOST_WAITING)
        listener = (scope, queue)
        self._listeners.append(listener)
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            await _start(send, 200)
            await self._tell(queue, send, gone)
        finally:
            self._listeners.remove(listener)
            if not self._listeners:
                self._boards.clear()
            gone.cancel()

    async def _tell(
        self, queue: asyncio.Queue[Notice], send: Send, gone: asyncio.Future[None]
    ) -> None:
        quiet_s = 0.0
        await _send(send, ": listening\n\n")
        while not gone.done():
            self._sweep()
            try:
                notice = await asyncio.wait_for(queue.get(), self._every_s)
            except TimeoutError:
                quiet_s += self._every_s
                if quiet_s < KEEP_ALIVE_S:
                    continue
                await _send(send, ": quiet\n\n")
            else:
                await _send(send, f"event: refused\ndata: {notice.to_json()}\n\n")
            quiet_s = 0.0

    def _sweep(self) -> None:
        """Publish the last refusals without waiting for another attempt.

        Forgets subjects with nothing left to be sent.  All listeners call it; one of
        them is enough.
        """
        now = self._clock()
        if now - self._swept_s < self._every_s:
            return
        self._swept_s = now
        for subject, board in list(self._boards.items()):
            board.tell_due(now)
            if board.idle(now):
                del self._boards[subject]

    def _publish(self, notice: Notice) -> None:
        for scope, queue in self._listeners:
            if self._sees(scope, notice):
                try:
                    queue.put_nowait(notice)
                except asyncio.QueueFull:
                    self.missed += 1


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send(send: Send, text: str) -> None:
    body = text.encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _answer(send: Send, status: int) -> None:
    await _start(send, status)
    await send({"type": "http.response.body", "body": b""})
