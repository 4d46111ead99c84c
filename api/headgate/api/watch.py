"""Wake requests that wait for the next revision: one loop, no thread or connection."""

import asyncio
from collections.abc import Callable

from headgate.api.values.errors import Busy

MAX_WATCHERS = 10_000
"""Requests that may wait at once; each costs a task and a socket."""

CATCH_UP_S = 2.0
"""Longest time, seconds, that a process may lag behind another on one database."""


class RevisionWatch:
    """The newest revision, and the watchers waiting for a newer one."""

    def __init__(self, revision: int) -> None:
        """Begin at `revision`; `bind` before the first wait."""
        self.revision = revision
        self.waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next = asyncio.Event()
        self._closed = False

    @property
    def closed(self) -> bool:
        """True if the server is about to stop and streams must end now."""
        return self._closed

    def bind(self) -> None:
        """Bind this watch to the running loop."""
        self._loop = asyncio.get_running_loop()

    def announce(self, revision: int) -> None:
        """Wake all who wait for `revision`; callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._advance, revision)
        else:
            self.revision = max(self.revision, revision)

    async def beyond(
        self,
        revision: int,
        *,
        wait_s: float,
        or_when: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait until there is a revision greater than `revision`.

        A caller may know a revision that this process has not seen yet, from another
        process; past `CATCH_UP_S` the database must have been restored to an older
        state instead, and the present revision is news to the caller.

        Args:
            revision: What the caller knows.
            wait_s: How long to wait, at most.
            or_when: Other news, looked for after each `stir`.

        Returns:
            Whether there is news; False when `wait_s` has passed, or on `close`.

        Raises:
            Busy: `MAX_WATCHERS` wait already.
        """
        if self.revision < revision:
            await self._reach(revision, or_when, wait_s=min(wait_s, CATCH_UP_S))
            if self.revision < revision:
                return True
        return await self._reach(revision + 1, or_when, wait_s=wait_s)

    def upcoming(self) -> asyncio.Event:
        """Return an event that the next change or `stir` sets."""
        return self._next

    def stir(self) -> None:
        """Wake all watchers to look for news; call it on the loop."""
        woken, self._next = self._next, asyncio.Event()
        woken.set()
        if self._closed:
            self._next.set()

    def close(self) -> None:
        """Release all watchers and accept no new ones; call it on the loop."""
        self._closed = True
        self._next.set()

    async def _reach(
        self, revision: int, or_when: Callable[[], bool], *, wait_s: float
    ) -> bool:
        def is_news() -> bool:
            return self.revision >= revision or or_when()

        if is_news() or wait_s <= 0 or self._closed:
            return is_news()
        if self.waiting >= MAX_WATCHERS:
            raise Busy(f"{MAX_WATCHERS} watchers are already waiting on this server")
        self.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                while not is_news() and not self._closed:
                    await self._next.wait()
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1
        return is_news()

    def _advance(self, revision: int) -> None:
        if revision > self.revision:
            self.revision = revision
            self.stir()
