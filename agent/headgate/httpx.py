"""An httpx transport that retries when a throttling server says so.

See `headgate.agent.integrations.http_client`.
"""

from headgate.agent.integrations.http_client import (
    AsyncRetryThrottled as AsyncRetryThrottled,
)
from headgate.agent.integrations.http_client import RetryThrottled as RetryThrottled
from headgate.agent.integrations.http_client import throttle_delay_s as throttle_delay_s
