"""A `requests` adapter that retries when the server says so, until its deadline.

::

    session = requests.Session()
    session.mount("http://", RetryThrottledAdapter())
    session.mount("https://", RetryThrottledAdapter())
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from requests.adapters import HTTPAdapter

from headgate.agent.integrations.web.throttle_delay import (
    DEADLINE_S,
    THROTTLED,
    delay_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from requests import PreparedRequest, Response
    from urllib3.util import Retry

    Timeout = float | tuple[float, float] | tuple[float, None] | None
    Certificate = bytes | str | tuple[bytes | str, bytes | str] | None


class RetryThrottledAdapter(HTTPAdapter):
    """Retries what was throttled; everything else passes untouched.

    Attributes:
        retried: Requests sent again.
    """

    def __init__(
        self,
        *,
        deadline_s: float = DEADLINE_S,
        pool_connections: int = 10,
        pool_maxsize: int = 10,
        max_retries: Retry | int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare.

        Args:
            deadline_s: Longest time from the first attempt to the last; 0 sends once.
            pool_connections: Pools of connections, as in `HTTPAdapter`.
            pool_maxsize: Connections of a pool.
            max_retries: Retries after failures other than 429.
            clock: Seconds, monotonic.
            sleep: Waits seconds.
        """
        super().__init__(
            pool_connections=pool_connections,
            pool_maxsize=pool_maxsize,
            max_retries=max_retries,
        )
        self.retried = 0
        self._deadline_s = deadline_s
        self._clock = clock
        self._sleep = sleep

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Timeout = None,
        verify: bool | str = True,
        cert: Certificate = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request, again while it is throttled and there is time."""
        end_s = self._clock() + self._deadline_s
        while True:
            response = super().send(request, stream, timeout, verify, cert, proxies)
            # A body that was streamed is gone.
            replayable = request.body is None or isinstance(request.body, str | bytes)  # pyright: ignore[reportUnnecessaryIsInstance]  # may be an iterator
            if response.status_code != THROTTLED or not replayable:
                return response
            delay_s = delay_of(response.content, response.headers.get("retry-after"))
            if self._clock() + delay_s > end_s:
                return response
            response.close()
            self._sleep(delay_s)
            self.retried += 1
