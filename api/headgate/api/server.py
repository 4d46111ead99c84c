"""The server: the application under uvicorn, the embedded bus, a clean end."""

import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from errno import EADDRINUSE
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Literal, TextIO, cast

import uvicorn
from fastapi import FastAPI

from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import BusUnavailable
from headgate.agent.follow.snapshot import Snapshot, snapshot_to_json
from headgate.api.app import make_app, make_service
from headgate.api.embedded_bus import embedded_bus
from headgate.api.http.dependencies import Service
from headgate.api.opening import one_bus_for, opened_store
from headgate.api.rights.jwts import check_key_set
from headgate.api.rights.tokens import list_tokens
from headgate.api.settings import (
    ANY_PORT,
    USUAL_PORT,
    Addresses,
    CannotStart,
    ServerSettings,
)
from headgate.api.sockets.listener import (
    BoundedListener,
    ConnectionTable,
    most_connections,
    raise_descriptor_limit,
)
from headgate.api.sockets.protocol import protocol_for
from headgate.api.sockets.quiet_log import quiet_log
from headgate.api.store import Store
from headgate.api.store.listening import hearing_changes
from headgate.api.watch import RevisionWatch
from headgate.coordinator.config.configuration import Configuration

BACKLOG = 2048
"""Connections that the kernel keeps while the loop is busy."""

KEEP_ALIVE_S = 75
"""Idle time of a connection, seconds: longer than clients and proxies keep one (a
minute), so that they close it first, and no request meets a closing one."""

DRAIN_S = 5
"""Time that requests in progress have to finish when the server stops, seconds."""

START_TIMEOUT_S = 30.0
"""Time that a server in a thread has to start; it may migrate a large database."""

_log = logging.getLogger(__name__)


def run(
    settings: ServerSettings, on_ready: Callable[[Addresses], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM.

    The process is the server's: the garbage collector leaves alone what exists by then.

    Args:
        settings: What to serve, and where.
        on_ready: Called once the server listens, with where that is.

    Raises:
        CannotStart: A port is taken, or the database can't be opened.
    """
    gc.freeze()  # what was imported stays
    raise_descriptor_limit()
    with _prepared(settings, on_ready) as server:
        server.run()


@contextmanager
def running(settings: ServerSettings) -> Generator[Addresses]:
    """Serve from a thread of this process until the end of the block."""
    ready = threading.Event()
    told: list[Addresses] = []

    def on_ready(addresses: Addresses) -> None:
        told.append(addresses)
        ready.set()

    with _prepared(settings, on_ready) as server:
        thread = threading.Thread(target=server.run, name="headgate-api")
        thread.start()
        try:
            if not ready.wait(START_TIMEOUT_S):
                raise CannotStart(f"not ready after {START_TIMEOUT_S:g} s")
            yield told[0]
        finally:
            server.should_exit = True
            thread.join()


class _Server(uvicorn.Server):
    """uvicorn, but it releases the watchers first and doesn't raise signals again."""

    def __init__(
        self,
        config: uvicorn.Config,
        watch: RevisionWatch,
        listening: socket.socket,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._watch = watch
        self._listening = listening
        self._on_ready = on_ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until stopped."""
        super().run(sockets or [self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wake the requests that wait for a revision, then wait for all to end."""
        self._watch.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on SIGINT and SIGTERM, without raising them again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _prepared(
    settings: ServerSettings, on_ready: Callable[[Addresses], None] | None
) -> Generator[_Server]:
    """Open everything that a server needs; close it in reverse order."""
    with ExitStack() as stack:
        _check_rights(settings)
        _check_tls(settings)
        _check_proxies(settings)
        stack.enter_context(quiet_log())
        listening = stack.enter_context(_listening_socket(settings))
        store = opened_store(settings)
        stack.callback(store.close)
        _check_tokens(settings, store)
        stack.enter_context(one_bus_for(settings))
        _check_ready_file(settings)
        bus = settings.bus or stack.enter_context(_opened_bus(settings))
        fixed = _fixed_members(bus, settings.report_interval_s)
        service = make_service(store, fixed)
        stack.enter_context(hearing_changes(store, service.watch.announce))
        addresses = _addresses(settings, listening, fixed)

        def tell() -> None:
            if settings.ready_file is not None:
                with _opened_private(settings.ready_file, "w") as file:
                    file.write(json.dumps(asdict(addresses)) + "\n")
            if on_ready is not None:
                on_ready(addresses)

        config = uvicorn.Config(
            _made_app(service, fixed, settings),
            # The bounds on connections are those of asyncio's accept and of h11.
            loop="asyncio",
            http=protocol_for(listening.table),
            ws="none",
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
            server_header=False,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        yield _Server(config, service.watch, listening, tell)


@contextmanager
def _opened_bus(settings: ServerSettings) -> Generator[BusSettings]:
    try:
        bus = embedded_bus(
            host=settings.host, ports=settings.bus_ports, keys=settings.bus_keys
        )
        with bus as opened:
            yield opened
    except BusUnavailable as error:
        raise CannotStart(f"bus: {error}") from error


def _check_rights(settings: ServerSettings) -> None:
    """Refuse to serve a network on which everybody may change everything."""
    if not settings.host:
        raise CannotStart("host: expected an address such as 127.0.0.1")
    rights = settings.rights
    if rights.required:
        return
    if rights.key_set or rights.issuer or rights.audience:
        raise CannotStart(
            "a key set, issuer or audience decides which tokens are valid, but rights "
            "are off, so no token is required: turn rights on"
        )
    if not _is_loopback(settings.host):
        if not rights.trust_network:
            raise CannotStart(
                f"rights are off, so anyone who can reach {settings.host} could change "
                "everything: turn rights on, listen on 127.0.0.1, or pass "
                "--trust-network"
            )
        _log.warning(
            "rights are off: anyone who can reach %s can change everything",
            settings.host,
        )


def _check_proxies(settings: ServerSettings) -> None:
    """Refuse a proxy that is not an address."""
    for proxy in settings.trusted_proxies:
        try:
            ip_network(proxy, strict=False)
        except ValueError as error:
            raise CannotStart(
                f"trusted proxy {proxy}: expected an address such as 10.0.0.7, or a "
                "network such as 10.0.0.0/8"
            ) from error


def _check_tls(settings: ServerSettings) -> None:
    """Refuse a certificate that no agent could trust, before anything is opened."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise CannotStart("TLS: expected both a certificate and its key")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(
            certificate, key, password=""
        )  # never prompt on a terminal
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotStart(f"TLS: {certificate} and {key}: {reason}") from error


def _check_ready_file(settings: ServerSettings) -> None:
    """Refuse to start where nothing could report that it has started."""
    if settings.ready_file is None:
        return
    try:
        _opened_private(settings.ready_file, "a").close()
    except OSError as error:
        raise CannotStart(
            f"can't write {settings.ready_file}: {error.strerror}"
        ) from error


def _opened_private(path: Path, mode: Literal["a", "w"]) -> TextIO:
    """Open a file; if it is created now, only its owner may read it.

    The bus URL may hold a password.  An existing file keeps its creator's mode.
    """

    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, mode, encoding="utf-8", opener=private)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_tokens(settings: ServerSettings, store: Store) -> None:
    """Refuse to start if no token could ever be valid."""
    if not settings.rights.required or settings.rights.key_set is not None:
        return
    with store.reading() as session:
        if not list_tokens(session, limit=1).items:
            raise CannotStart(
                "rights are on, but there is neither a token nor a key set: create "
                "a token with `headgate token create NAME --role admin`"
            )


def _made_app(
    service: Service, fixed: Mapping[str, object], settings: ServerSettings
) -> FastAPI:
    try:
        check_key_set(settings.rights)
    except (OSError, ValueError) as error:
        raise CannotStart(f"key set: {error}") from error
    tls = settings.tls_certificate is not None
    return make_app(
        service, fixed, settings.rights, tls=tls, invoices=settings.invoices
    )


def _listening_socket(settings: ServerSettings) -> BoundedListener:
    """Bind the API's port, or a free one if the usual one is taken."""
    listening = _bound_socket(settings)
    bounded = BoundedListener(
        listening.family, listening.type, listening.proto, fileno=listening.detach()
    )
    most = most_connections()
    # Half of all, so that one address never crowds out everybody else.
    bounded.table = ConnectionTable(most, max(1, most // 2), settings.trusted_proxies)
    return bounded


def _bound_socket(settings: ServerSettings) -> socket.socket:
    wanted = USUAL_PORT if settings.port is None else settings.port
    try:
        try:
            return bound(settings.host, wanted)
        except OSError as error:
            if settings.port is not None or error.errno != EADDRINUSE:
                raise
            return bound(settings.host, ANY_PORT)
    except (OSError, TypeError) as error:  # the latter for a name that can't be one
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = f"{settings.host}:{wanted}"
        raise CannotStart(f"can't listen on {where}: {reason}") from error


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        OSError: The address can't be listened on.
        TypeError: The host can't be a name.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol is named; otherwise
    # each answer waits 40 ms for a delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # At once: two sockets may be bound to a port as long as neither listens.
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _fixed_members(bus: BusSettings, interval_s: float) -> dict[str, object]:
    """Return the part of each snapshot about bus and reports."""
    document = snapshot_to_json(
        Snapshot(configuration=Configuration(), bus=bus, report_interval_s=interval_s)
    )
    return {"bus": document["bus"], "report": document["report"]}


def _addresses(
    settings: ServerSettings, listening: socket.socket, fixed: dict[str, object]
) -> Addresses:
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.tls_certificate is None else "https"
    api = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    bus = cast("dict[str, object]", fixed["bus"])
    return Addresses(
        api=api,
        docs=f"{api}/docs",
        bus=bus,
        pid=os.getpid(),
        rights=settings.rights.required,
    )
