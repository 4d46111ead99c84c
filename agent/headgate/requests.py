"""requests: `RetryThrottledAdapter` comes back when it is told to."""

from headgate.agent.integrations.web.requests_client import (
    RetryThrottledAdapter as RetryThrottledAdapter,
)
