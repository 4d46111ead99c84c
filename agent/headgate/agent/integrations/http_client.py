"""An httpx transport that retries throttled requests when the server says so.

It is KIP-599's client: a throttled request is retried after the delay given by the
server, until a deadline.  A caller that would rather get the refusal at once can opt
out, for the client or for one request::

    client = httpx.Client(transport=RetryThrottled(httpx.HTTPTransport()))
    client.get(url, extensions={"retry_throttled": False})

With ``mute=True`` a client that was given a delay sends nothing more to that server
until it is over, whichever caller asks: no retry, no other request (KIP-219).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx

from headgate.agent.integrations.mutes import Mutes
from headgate.agent.integrations.web.throttle_delay import (
    DEADLINE_S,
    THROTTLED,
    delay_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class RetryThrottled(httpx.BaseTransport):
    """Retries throttled requests; everything else passes through unchanged.

    Attributes:
        retried: Number of requests sent again.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport,
        *,
        deadline_s: float = DEADLINE_S,
        retry: bool = True,
        mute: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wrap a transport.

        Args:
            transport: Sends the requests.
            deadline_s: Longest time from the first attempt to the last.
            retry: Whether to retry by default; a request can choose otherwise.
            mute: Hold all requests to a server until the delay that it gave is over.
            clock: Seconds, monotonic.
            sleep: Waits seconds.
        """
        self.retried = 0
        self._transport = transport
        self._deadline_s = deadline_s
        self._retry = retry
        self._clock = clock
        self._sleep = sleep
        self._mutes = Mutes(clock) if mute else None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; retry while it is throttled and there is time."""
        while (held_s := _held_s(self._mutes, request)) > 0.0:
            self._sleep(held_s)
        end_s = self._clock() + self._deadline_s
        while True:
            response = self._transport.handle_request(request)
            if self._mutes is not None and response.status_code == THROTTLED:
                response.read()
                self._mutes.mute(_server(request), throttle_delay_s(response))
            if not _to_retry(request, response, retry=self._retry):
                return response
            response.read()
            delay_s = throttle_delay_s(response)
            if self._clock() + delay_s > end_s:
                return response
            response.close()
            self._sleep(delay_s)
            # Another caller may have been given a longer delay meanwhile.
            while (held_s := _held_s(self._mutes, request)) > 0.0:
                if self._clock() + held_s > end_s:
                    return response
                self._sleep(held_s)
            self.retried += 1

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()


class AsyncRetryThrottled(httpx.AsyncBaseTransport):
    """`RetryThrottled` for an `httpx.AsyncClient`.

    Attributes:
        retried: Requests sent again.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        deadline_s: float = DEADLINE_S,
        retry: bool = True,
        mute: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap a transport; the arguments are those of `RetryThrottled`."""
        self.retried = 0
        self._transport = transport
        self._deadline_s = deadline_s
        self._retry = retry
        self._clock = clock
        self._mutes = Mutes(clock) if mute else None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; retry while it is throttled and there is time."""
        while (held_s := _held_s(self._mutes, request)) > 0.0:  # noqa: ASYNC110 RUF100  # it is known for how long
            await asyncio.sleep(held_s)
        end_s = self._clock() + self._deadline_s
        while True:
            response = await self._transport.handle_async_request(request)
            if self._mutes is not None and response.status_code == THROTTLED:
                await response.aread()
                self._mutes.mute(_server(request), throttle_delay_s(response))
            if not _to_retry(request, response, retry=self._retry):
                return response
            await response.aread()
            delay_s = throttle_delay_s(response)
            if self._clock() + delay_s > end_s:
                return response
            await response.aclose()
            await asyncio.sleep(delay_s)
            while (held_s := _held_s(self._mutes, request)) > 0.0:
                if self._clock() + held_s > end_s:
                    return response
                await asyncio.sleep(held_s)
            self.retried += 1

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def _held_s(mutes: Mutes | None, request: httpx.Request) -> float:
    return 0.0 if mutes is None else mutes.left_s(_server(request))


def _server(request: httpx.Request) -> tuple[str, str, int | None]:
    url = request.url
    return url.scheme, url.host, url.port


def throttle_delay_s(response: httpx.Response) -> float:
    """Return how long a throttled response, already read, says to wait."""
    return delay_of(response.content, response.headers.get("retry-after"))


def _to_retry(request: httpx.Request, response: httpx.Response, *, retry: bool) -> bool:
    if response.status_code != THROTTLED:
        return False
    if not isinstance(request.stream, httpx.ByteStream):
        return False  # a body that was streamed is gone
    return bool(request.extensions.get("retry_throttled", retry))
