"""Limits for kafka-python's producers and consumers, and KIP-599's figures.

See `headgate.agent.integrations.kafka` and `headgate.agent.limiter.kafka_quota`.
"""

from headgate.agent.integrations.kafka import ThrottledConsumer as ThrottledConsumer
from headgate.agent.integrations.kafka import ThrottledProducer as ThrottledProducer
from headgate.agent.limiter.kafka_quota import NONE as NONE
from headgate.agent.limiter.kafka_quota import (
    THROTTLING_QUOTA_EXCEEDED as THROTTLING_QUOTA_EXCEEDED,
)
from headgate.agent.limiter.kafka_quota import burst_units as burst_units
from headgate.agent.limiter.kafka_quota import error_code as error_code
from headgate.agent.limiter.kafka_quota import throttle_time_ms as throttle_time_ms
