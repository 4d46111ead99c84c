"""OpenAI-style clients that slow down before they are refused.

A provider says with every answer what is left (``x-ratelimit-remaining-requests``,
``x-ratelimit-reset-tokens`` …) and after a 429 when to come back.  These httpx
transports hold requests until then, for `openai` and every client like it::

    transport = PacedTransport(httpx.HTTPTransport())
    OpenAI(http_client=httpx.Client(transport=transport), max_retries=0)

One transport is one account: all requests through it are held together, so give each
key of a provider a transport of its own.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING

import httpx

from headgate.agent.integrations.web.throttle_delay import (
    DEADLINE_S,
    LEAST_DELAY_S,
    THROTTLED,
    delay_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST_HOLD_S = 60.0
"""Longest time that an answer's ``reset`` may hold others: quotas are per minute."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


class Pacing:
    """What one account may do next, as the last answers said; thread-safe.

    Attributes:
        held: Requests that were held before they were sent.
        retried: Requests sent again after a 429.
    """

    def __init__(
        self,
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hold nothing yet.

        Args:
            deadline_s: Longest that one request is held and retried.
            clock: Seconds, monotonic.
        """
        self.held = 0
        self.retried = 0
        self.clock = clock
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self._not_before_s = float("-inf")

    def hold_s(self, end_s: float, *, again: bool = False) -> float:
        """Return the seconds to wait before sending, at most until `end_s`.

        Args:
            end_s: When the request is held no longer.
            again: It was held already, and is counted.
        """
        now = self.clock()
        with self._lock:
            wait_s = min(self._not_before_s, end_s) - now
            if wait_s <= 0.0:
                return 0.0
            self.held += not again
            return wait_s

    def note(self, response: httpx.Response) -> None:
        """Note how much an answer says is left."""
        until_s = self.clock() + exhausted_for_s(response.headers)
        with self._lock:
            self._not_before_s = max(self._not_before_s, until_s)

    def retry_in_s(self, response: httpx.Response, end_s: float) -> float | None:
        """Return the delay of a throttled request, already read; None to give up."""
        delay_s = _told_s(response)
        if self.clock() + delay_s > end_s:
            return None
        with self._lock:
            self.retried += 1
            self._not_before_s = max(self._not_before_s, self.clock() + delay_s)
        return delay_s


class PacedTransport(httpx.BaseTransport):
    """Holds requests while their account has nothing left, and retries on 429."""

    def __init__(
        self,
        transport: httpx.BaseTransport,
        *,
        pacing: Pacing | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wrap a transport.

        Args:
            transport: Sends the requests.
            pacing: Shared by transports of one account; one of its own by default.
            sleep: Waits seconds.
        """
        self.pacing = pacing or Pacing()
        self._transport = transport
        self._sleep = sleep

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when there is something left."""
        pacing = self.pacing
        end_s = pacing.clock() + pacing.deadline_s
        while True:
            wait_s = pacing.hold_s(end_s)
            while wait_s > 0.0:
                self._sleep(wait_s)  # meanwhile others may hear that nothing is left
                wait_s = pacing.hold_s(end_s, again=True)
            response = self._transport.handle_request(request)
            pacing.note(response)
            if not _to_retry(request, response):
                return response
            response.read()
            delay_s = pacing.retry_in_s(response, end_s)
            if delay_s is None:
                return response
            response.close()
            self._sleep(delay_s)

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()


class AsyncPacedTransport(httpx.AsyncBaseTransport):
    """`PacedTransport` for an `httpx.AsyncClient`."""

    def __init__(
        self, transport: httpx.AsyncBaseTransport, *, pacing: Pacing | None = None
    ) -> None:
        """Wrap a transport; the arguments are those of `PacedTransport`."""
        self.pacing = pacing or Pacing()
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when there is something left."""
        pacing = self.pacing
        end_s = pacing.clock() + pacing.deadline_s
        while True:
            wait_s = pacing.hold_s(end_s)
            while wait_s > 0.0:
                await asyncio.sleep(wait_s)
                wait_s = pacing.hold_s(end_s, again=True)
            response = await self._transport.handle_async_request(request)
            pacing.note(response)
            if not _to_retry(request, response):
                return response
            await response.aread()
            delay_s = pacing.retry_in_s(response, end_s)
            if delay_s is None:
                return response
            await response.aclose()
            await asyncio.sleep(delay_s)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def exhausted_for_s(headers: Mapping[str, str]) -> float:
    """Return how long an account has no request or no token left; 0 while it has."""
    longest_s = 0.0
    for what in ("requests", "tokens"):
        left = headers.get(f"x-ratelimit-remaining-{what}", "").strip()
        if left.isdecimal() and left.strip("0") == "":
            reset_s = duration_s(headers.get(f"x-ratelimit-reset-{what}", ""))
            longest_s = max(longest_s, reset_s or 0.0)
    return min(longest_s, LONGEST_HOLD_S)


def duration_s(text: str) -> float | None:
    """Return the seconds of ``6m0s``, ``120ms``, ``1.5s`` or ``2``; None for others."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    hours, minutes, seconds, milliseconds = (
        float(part or 0) for part in match.groups()
    )
    return hours * 3_600.0 + minutes * 60.0 + seconds + milliseconds / 1e3


def _told_s(response: httpx.Response) -> float:
    """Return the delay in a 429: ``retry-after-ms``, body, Retry-After or reset."""
    exact = response.headers.get("retry-after-ms", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", exact):
        return max(float(exact) / 1e3, LEAST_DELAY_S)
    after = response.headers.get("retry-after")
    if after is None:
        reset_s = exhausted_for_s(response.headers)
        if reset_s > 0.0:
            return reset_s
    elif (seconds := duration_s(after)) is not None:
        return max(seconds, LEAST_DELAY_S)
    return delay_of(response.content, after)


def _to_retry(request: httpx.Request, response: httpx.Response) -> bool:
    # A body that was streamed is gone.
    replayable = isinstance(request.stream, httpx.ByteStream)
    return response.status_code == THROTTLED and replayable
