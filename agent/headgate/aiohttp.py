"""aiohttp: `RetryThrottledMiddleware` comes back when it is told to."""

from headgate.agent.integrations.web.aiohttp_client import (
    RetryThrottledMiddleware as RetryThrottledMiddleware,
)
