"""An aiohttp client middleware that retries when the server says so.

::

    aiohttp.ClientSession(middlewares=(RetryThrottledMiddleware(),))
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from headgate.agent.integrations.web.throttle_delay import (
    DEADLINE_S,
    THROTTLED,
    delay_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse


class RetryThrottledMiddleware:
    """Retries what was throttled, until its deadline; all else passes untouched.

    Attributes:
        retried: Requests sent again.
    """

    def __init__(
        self,
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            deadline_s: Longest time from the first attempt to the last; 0 sends once.
            clock: Seconds, monotonic.
        """
        self.retried = 0
        self._deadline_s = deadline_s
        self._clock = clock

    async def __call__(
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send a request, again while it is throttled and there is time."""
        end_s = self._clock() + self._deadline_s
        while True:
            response = await handler(request)
            if response.status != THROTTLED or _is_gone(request):
                return response
            said = response.headers.get("retry-after")
            delay_s = delay_of(await response.read(), said)
            if self._clock() + delay_s > end_s:
                return response
            response.release()
            await asyncio.sleep(delay_s)
            self.retried += 1


def _is_gone(request: ClientRequest) -> bool:
    """Return whether the body was streamed, and can't be sent again."""
    return not isinstance(request.body, bytes) and request.body.consumed
