"""The gRPC server that Envoy asks; messages become bytes here and nowhere else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.errors import InvalidSetting
from headgate.agent.integrations.envoy.rate_limit_service import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headgate.agent.integrations.envoy.messages import (
        CallContext,
        RateLimitRequest,
        WireMessage,
    )
    from headgate.agent.integrations.envoy.quota_service import QuotaService
    from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService

RATE_LIMIT_SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
QUOTA_SERVICE = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"

LARGEST_MESSAGE = 4 << 20
"""Most bytes of a request: gRPC's own default, which an Envoy never comes near."""

GRACE_S = 1.0
"""How long calls in progress may take when the server stops: an answer takes no time,
and streams are ended."""


class _Server(Protocol):
    def add_generic_rpc_handlers(self, handlers: tuple[object, ...]) -> None: ...
    def add_insecure_port(self, address: str) -> int: ...
    async def start(self) -> None: ...
    async def stop(self, grace: float | None) -> None: ...


class _Aio(Protocol):
    def server(self, *, options: Sequence[tuple[str, int]]) -> _Server: ...


class _Codes(Protocol):
    INVALID_ARGUMENT: object


class _Grpc(Protocol):
    aio: _Aio
    StatusCode: _Codes

    def unary_unary_rpc_method_handler(
        self,
        behavior: object,
        request_deserializer: Callable[[bytes], object],
        response_serializer: Callable[[WireMessage], bytes],
    ) -> object: ...
    def stream_stream_rpc_method_handler(
        self,
        behavior: object,
        request_deserializer: Callable[[bytes], object],
        response_serializer: Callable[[WireMessage], bytes],
    ) -> object: ...
    def method_handlers_generic_handler(
        self, service: str, handlers: Mapping[str, object]
    ) -> object: ...


def load_grpc() -> _Grpc:
    """Return `grpc`.

    Raises:
        ModuleNotFoundError: `grpcio` is not installed.
    """
    import_module("grpc.aio")
    return cast("_Grpc", import_module("grpc"))


class GrpcServer:
    """A `grpc.aio` server with the services of this package."""

    def __init__(self, rate_limits: RateLimitService, quotas: QuotaService) -> None:
        """Make it; to be called in the event loop that it will run in."""
        self._grpc = load_grpc()
        self._rate_limits = rate_limits
        # Two servers on one port would each get a part of the requests.
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
        ]
        self._server = self._grpc.aio.server(options=options)
        self._add(
            RATE_LIMIT_SERVICE,
            "ShouldRateLimit",
            self._grpc.unary_unary_rpc_method_handler(
                self._should_rate_limit,
                rate_limits.messages.request.FromString,
                _serialized,
            ),
        )
        self._add(
            QUOTA_SERVICE,
            "StreamRateLimitQuotas",
            self._grpc.stream_stream_rpc_method_handler(
                quotas.serve, quotas.messages.reports.FromString, _serialized
            ),
        )

    def listen(self, address: str) -> int:
        """Listen on ``HOST:PORT`` or ``unix:PATH``; return the port.

        Raises:
            InvalidSetting: The address can't be listened on.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise InvalidSetting(f"can't listen on {address}: {error}") from None
        if port == 0:
            raise InvalidSetting(f"can't listen on {address}")
        return port

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def stop(self) -> None:
        """End calls in progress and stop."""
        await self._server.stop(GRACE_S)

    def _add(self, service: str, method: str, handler: object) -> None:
        made = self._grpc.method_handlers_generic_handler(service, {method: handler})
        self._server.add_generic_rpc_handlers((made,))

    async def _should_rate_limit(
        self, request: RateLimitRequest, context: CallContext
    ) -> WireMessage:
        try:
            return self._rate_limits.answer(request)
        except InvalidRequest as error:
            await context.abort(self._grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise


def _serialized(message: WireMessage) -> bytes:
    return message.SerializeToString()
