"""The process behind `headgate envoy`: an agent, a gRPC server, an HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import uvicorn

from headgate.agent.errors import InvalidSetting
from headgate.agent.integrations.envoy.grpc_services import GrpcServer
from headgate.agent.integrations.envoy.http_endpoints import endpoints
from headgate.agent.integrations.envoy.limits import DescriptorLimits
from headgate.agent.integrations.envoy.quota_service import QuotaService
from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping
    from pathlib import Path

    from starlette.applications import Starlette

    from headgate.agent.integrations.envoy.descriptors import LimitDomain
    from headgate.agent.integrations.envoy.quota_service import QuotaAgent
    from headgate.agent.integrations.web.key_groups import KeyGroups

BACKLOG = 2048
"""Connections that the kernel keeps while the loop is busy."""

LONGEST_SOCKET = 100
"""Longest path of a Unix socket that every kernel accepts, characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyServerSettings:
    """Where the server listens.

    Attributes:
        host: Address of both ports.
        port: Of gRPC; 0 for a free one.
        http_port: Of HTTP; 0 for a free one, None for no HTTP.
        socket: Path of a Unix socket for gRPC in addition to the port, or None.
        weight: Of the agent; the data planes of RLQS together get the part of this many
            processes.
    """

    host: str = "127.0.0.1"
    port: int = 0
    http_port: int | None = None
    socket: Path | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAddresses:
    """Where the server is reached.

    Attributes:
        grpc: ``HOST:PORT``.
        http: ``http://HOST:PORT``, or None.
        socket: Path of the Unix socket, or None.
    """

    grpc: str
    http: str | None
    socket: str | None


@contextlib.asynccontextmanager
async def serving(
    settings: ProxyServerSettings,
    domains: Mapping[str, LimitDomain],
    agent: QuotaAgent,
    keys: KeyGroups,
) -> AsyncGenerator[ProxyAddresses]:
    """Serve until the end of the block.

    Args:
        settings: Where to listen.
        domains: What to decide by, by name.
        agent: The agent.
        keys: Makes the groups of rules.

    Raises:
        InvalidSetting: An address can't be listened on.
        ModuleNotFoundError: A package of ``headgate[envoy]`` is missing.
    """
    limits = DescriptorLimits(domains, agent, keys)
    service = RateLimitService(limits)
    quotas = QuotaService(limits, agent, keys, weight=settings.weight, clock=monotonic)
    server = GrpcServer(service, quotas)
    port = server.listen(f"{_bracketed(settings.host)}:{settings.port}")
    if settings.socket is not None:
        server.listen(f"unix:{_fresh(settings.socket)}")
    async with contextlib.AsyncExitStack() as stack:
        http = None
        if settings.http_port is not None:
            app = endpoints(service, limits)
            http = await stack.enter_async_context(
                _http(app, settings.host, settings.http_port)
            )
        await server.start()
        stack.push_async_callback(server.stop)
        turns = asyncio.create_task(quotas.run())
        stack.callback(turns.cancel)
        stack.callback(quotas.close)
        yield ProxyAddresses(
            grpc=f"{_bracketed(settings.host)}:{port}",
            http=http,
            socket=None if settings.socket is None else str(settings.socket),
        )


class _HttpServer(uvicorn.Server):
    """uvicorn, but it leaves signals to its starter and says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # An answer takes no time, so what is open waits for the rest of a request.
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def _http(app: Starlette, host: str, port: int) -> AsyncGenerator[str]:
    with _listening(host, port) as listener:
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", backlog=BACKLOG
        )
        http = _HttpServer(config)
        task = asyncio.create_task(http.serve(sockets=[listener]))
        await http.listens.wait()
        try:
            yield f"http://{_bracketed(host)}:{listener.getsockname()[1]}"
        finally:
            http.should_exit = True
            await task


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidSetting(
            f"can't listen on {host}:{port}: {error.strerror}"
        ) from None
    return listener


def _fresh(path: Path) -> Path:
    """Return the path of a socket, after removing one that nobody listens on.

    Raises:
        InvalidSetting: It is too long, in use, or not a socket.
    """
    if len(str(path)) > LONGEST_SOCKET:
        raise InvalidSetting(
            f"socket: expected at most {LONGEST_SOCKET} characters, got {path}"
        )
    if not path.exists():
        return path
    if not path.is_socket():
        raise InvalidSetting(f"socket: {path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return path
    raise InvalidSetting(f"socket: another process listens on {path}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
