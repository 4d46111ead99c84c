"""requests: `RetryThrottledAdapter` retries when the server says so."""

from headgate.agent.integrations.web.requests_client import (
    RetryThrottledAdapter as RetryThrottledAdapter,
)
