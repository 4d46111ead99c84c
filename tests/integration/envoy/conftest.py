"""Headgate's server, `headgate envoy` beside it, and a service behind proxies."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

import httpx
import pytest
from tests.integration.frameworks.rigs import PATIENCE_S, Quotas, until

from headgate.cli.process.children import Child, Children

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.api import Addresses

START_S = 300.0
"""Longest start of the command: a busy machine imports slowly."""

EXAMPLES = Path(__file__).parents[3] / "examples" / "envoy"


class Upstream(ThreadingHTTPServer):
    """A service that answers everything, and counts it by path."""

    daemon_threads = True

    def __init__(self) -> None:
        served = self.served = Counter[str]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served[self.path] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *_: object) -> None:
                del format

        super().__init__(("127.0.0.1", 0), Handler)


@dataclass(frozen=True)
class Limited:
    """Where `headgate envoy` is reached.

    Attributes:
        grpc: ``HOST:PORT``.
        http: ``http://HOST:PORT``.
        socket: Path of its Unix socket.
    """

    grpc: str
    http: str
    socket: str


@pytest.fixture(scope="module")
def quotas(server: Addresses) -> Iterator[Quotas]:
    """The server's quotas."""
    one = Quotas(server)
    yield one
    one.close()


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    """Processes that end with the module."""
    with Children() as started:
        yield started


@pytest.fixture(scope="module")
def limited(
    server: Addresses, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Limited:
    """The command, with the limits of the example."""
    home = tmp_path_factory.mktemp("envoy")
    return headgate_envoy(children, server, home)[1]


def headgate_envoy(
    children: Children, server: Addresses, home: Path, *, port: int = 0
) -> tuple[Child, Limited]:
    """Start the command with the limits of the example; return it once it answers."""
    ready = home / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "headgate.cli", "envoy"]
    command += [str(EXAMPLES / "limits.yaml"), "--url", server.api]
    command += ["--port", str(port), "--http-port", "0", "--ready-file", str(ready)]
    command += ["--socket", str(home / "s")]
    log = home / "headgate-envoy.log"
    child = children.start("headgate envoy", command, log=log, talks=False)
    return child, Limited(**json.loads(child.file(ready, START_S)))


def start_envoy(
    children: Children,
    folder: Path,
    name: str,
    ports: dict[int, str | int],
    lines: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Start Envoy with an example's configuration, on other ports.

    Args:
        children: Ends it.
        folder: Of its files.
        name: Of the example.
        ports: The ports to use, by those of the example.
        lines: What stands there instead of other lines.
    """
    folder.mkdir(exist_ok=True)
    config = configured(name, folder, ports)
    text = config.read_text(encoding="utf-8")
    for usual, actual in lines.items():
        assert usual in text, f"{name} has no {usual}"
        text = text.replace(usual, actual)
    config.write_text(text, encoding="utf-8")
    command = [program("envoy"), "-c", str(config)]
    command += ["--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]
    children.start("envoy", command, log=folder / "envoy.log", talks=False)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A service for one test."""
    with Upstream() as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        yield service
        service.shutdown()
        thread.join()


def program(name: str) -> str:
    """Return the path of a program of the environment or the system."""
    places = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin"
    found = shutil.which(name, path=places)
    assert found is not None, f"{name} is missing: make parts"
    return found


def configured(name: str, folder: Path, ports: dict[int, str | int]) -> Path:
    """Return a copy of an example with other ports, and time to answer.

    Both proxies let a request pass whose limit nobody told in a tenth of a second: a
    busy machine may take longer.
    """
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    text = re.sub(r"\btimeout: 0\.1s|\b100ms\b", _patient, text)
    for usual, actual in ports.items():
        assert re.search(rf"[: ]{usual}\b", text), f"{name} does not name {usual}"
        text = re.sub(rf"([: ]){usual}\b", rf"\g<1>{actual}", text)
    made = folder / name
    made.write_text(text, encoding="utf-8")
    return made


def _patient(found: re.Match[str]) -> str:
    return "20s" if found[0] == "100ms" else "timeout: 20s"


def listening(client: httpx.Client, url: str) -> None:
    def answers() -> bool:
        try:
            return client.get(url).is_success
        except httpx.TransportError:
            return False

    until(answers, f"{url} to answer")


class _Stub(Protocol):
    def ShouldRateLimit(self, request: object, timeout: float) -> object: ...


class _Rls(Protocol):
    def RateLimitServiceStub(self, channel: object) -> _Stub: ...
    def RateLimitRequest(self, **fields: object) -> object: ...


class _Channel(Protocol):
    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...


class _Grpc(Protocol):
    RpcError: type[Exception]

    def insecure_channel(self, address: str) -> _Channel: ...


class RlsClient:
    """A client of RLS at one address; a context manager.

    Attributes:
        error: What a call that failed raises.
    """

    def __init__(self, address: str) -> None:
        service = "envoy.service.ratelimit.v3"
        self._stubs = cast("_Rls", import_module(f"{service}.rls_pb2_grpc"))
        self._messages = cast("_Rls", import_module(f"{service}.rls_pb2"))
        grpc = cast("_Grpc", import_module("grpc"))
        self.error = grpc.RpcError
        self._channel = grpc.insecure_channel(address)
        self._stub = self._stubs.RateLimitServiceStub(self._channel)

    def admits(self, *entries: tuple[str, str], domain: str = "apis") -> bool:
        """Ask for one hit of one descriptor."""
        pairs = [{"key": key, "value": value} for key, value in entries]
        request = self._messages.RateLimitRequest(
            domain=domain, descriptors=[{"entries": pairs}]
        )
        answer = self._stub.ShouldRateLimit(request, timeout=PATIENCE_S)
        return bool(getattr(answer, "overall_code") == 1)  # noqa: B009

    def __enter__(self) -> RlsClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.__exit__(*error)
