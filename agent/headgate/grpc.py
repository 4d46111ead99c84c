"""Limits for gRPC servers, threaded or on asyncio.

See `headgate.agent.integrations.grpc_server`.
"""

from headgate.agent.integrations.grpc_server import (
    AsyncLimitInterceptor as AsyncLimitInterceptor,
)
from headgate.agent.integrations.grpc_server import Call as Call
from headgate.agent.integrations.grpc_server import LimitInterceptor as LimitInterceptor
