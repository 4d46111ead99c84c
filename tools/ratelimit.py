"""Build envoyproxy/ratelimit, which Headgate is compared with, and start it with Redis.

``python -m tools.ratelimit`` builds it into ``.headgate``: seven minutes of CPU, once.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.helm import install
from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.cli.process.children import Child, Children

VERSION = "v1.4.1-0.20260122083618-3fb702589d36"
"""It has no releases; any commit would do."""

PACKAGE = "github.com/envoyproxy/ratelimit/src/service_cmd"

PROGRAM = (
    Path(__file__).parents[1]
    / ".headgate"
    / "go"
    / f"ratelimit-{VERSION.rpartition('-')[2]}"
    / "service_cmd"
)
"""The program."""

START_S = 60.0
"""For Redis and the service to listen; a busy machine needs some seconds."""


@dataclass(frozen=True)
class Peer:
    """A running envoyproxy/ratelimit.

    Attributes:
        grpc: ``HOST:PORT``.
        redis: Its store.
        service: The service itself.
        redis_port: Where the store listens.
    """

    grpc: str
    redis: Child
    service: Child
    redis_port: int


def build() -> None:
    """Build it unless it exists.

    Raises:
        SystemExit: It can't be fetched or compiled; says why.
    """
    if not PROGRAM.exists():
        sys.stderr.write("headgate: building envoyproxy/ratelimit, once; minutes\n")
        install(f"{PACKAGE}@{VERSION}", PROGRAM.parent.absolute())


def start(children: Children, home: Path, files: Mapping[str, str]) -> Peer:
    """Start it with files of limits, by name, and a Redis of its own."""
    build()
    config = home / "ratelimit" / "limits" / "config"
    config.mkdir(parents=True)
    for name, text in files.items():
        (config / f"{name}.yaml").write_text(text, encoding="utf-8")
    redis_port, grpc, http, debug = (free_port() for _ in range(4))
    redis = start_redis(children, home, redis_port)
    settings = {
        "HOST": "127.0.0.1",
        "PORT": str(http),
        "GRPC_HOST": "127.0.0.1",
        "GRPC_PORT": str(grpc),
        "DEBUG_HOST": "127.0.0.1",
        "DEBUG_PORT": str(debug),
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"127.0.0.1:{redis_port}",
        "RUNTIME_ROOT": str(home / "ratelimit"),
        "RUNTIME_SUBDIRECTORY": "limits",
        "RUNTIME_WATCH_ROOT": "false",
        "USE_STATSD": "false",
    }
    command = ["env", *(f"{name}={value}" for name, value in settings.items())]
    log = home / "ratelimit.log"
    service = children.start(
        "ratelimit", [*command, str(PROGRAM)], log=log, talks=False
    )
    _listening(grpc, service)
    return Peer(f"127.0.0.1:{grpc}", redis, service, redis_port)


def start_redis(children: Children, home: Path, port: int) -> Child:
    """Start a Redis that keeps nothing on disk; return it once it listens."""
    server = shutil.which("redis-server")
    if server is None:
        sys.exit("redis-server is needed here: sh tools/require.sh redis")
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    redis = children.start("redis", command, log=home / "redis.log", talks=False)
    _listening(port, redis)
    return redis


def _listening(port: int, child: Child) -> None:
    ends_s = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if child.returncode is not None or time.monotonic() > ends_s:
                sys.exit(
                    f"{child.name} does not listen: {child.log.read_text()[-500:]}"
                )
            time.sleep(0.05)
        else:
            return


def cpu_s(*children: Child) -> float:
    """Return the CPU seconds that processes have used."""
    ticks = 0
    for child in children:
        stat = Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    build()
