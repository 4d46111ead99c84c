"""aiohttp: `RetryThrottledMiddleware` retries when the server says so."""

from headgate.agent.integrations.web.aiohttp_client import (
    RetryThrottledMiddleware as RetryThrottledMiddleware,
)
