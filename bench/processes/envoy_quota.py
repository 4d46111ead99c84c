"""Five real Envoys and a Python agent under one limit, through RLQS.

A threefold Zipf load moves twice.  Printed is what was admitted, as a part of the limit
and, for each caller, of its max-min due, from 6 s after each move on.  ``--burst 10``
gives the limit a burst of ten seconds instead of one.

With ``--killed`` the Python agent is left out, the load stays, and the server is killed
for 20 s.  Envoys have the recommended fallback.  Printed is what they let through
without a server, and how soon the limit holds again.  `make peers` runs both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tools.ports import free_port

import headgate
from headgate.api import ServerSettings, running
from headgate.cli.process.children import Child, Children, termination_as_interrupt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ENVOYS = 5
RATE = 200.0
OVERLOAD = 3.0
SECONDS = 60
MOVE_S = 20
SETTLED_S = 6
START_S = 60.0
KILLED_AT_S = 30
KILLED_S = 20
REPORT_S = 5.0
"""How old a server's knowledge of an Envoy may be."""
EXAMPLES = Path(__file__).parents[2] / "examples" / "envoy"
REQUEST = b"GET / HTTP/1.1\r\nhost: service\r\nx-tenant: acme\r\n\r\n"
WHO = {"tenant": "acme"}


def wanted(caller: int, second: float, callers: int = ENVOYS + 1) -> float:
    """Return what a caller wants, requests/s: Zipf, moved on after each `MOVE_S`.

    With Envoys alone, the load does not move.
    """
    moves = int(second // MOVE_S) if callers > ENVOYS else 0
    place = (caller + 2 * moves) % callers
    return RATE * OVERLOAD / (1 + place) / sum(1 / (1 + k) for k in range(callers))


def dues(second: float) -> list[float]:
    """Return the max-min part of each caller."""
    wants = [wanted(caller, second) for caller in range(ENVOYS + 1)]
    low, high = 0.0, RATE
    for _ in range(60):
        level = (low + high) / 2
        fits = sum(min(want, level) for want in wants) < RATE
        low, high = (level, high) if fits else (low, level)
    return [min(want, low) for want in wants]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as the service: answer every request."""
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        pass
    finally:
        writer.close()


class Load:
    """All callers, and each one's admissions per second."""

    def __init__(self, callers: int, seconds: float) -> None:
        self.admitted = [Counter[int]() for _ in range(callers)]
        self._seconds = seconds
        self._begun_s = time.monotonic()

    def total(self, seconds: range) -> int:
        """Return what was admitted in some seconds."""
        return sum(one[second] for one in self.admitted for second in seconds)

    def second(self) -> float:
        """Return how long the load has been running."""
        return time.monotonic() - self._begun_s

    async def through_envoy(self, caller: int, port: int) -> None:
        """Ask an Envoy."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async for second in self._paced(caller):
            writer.write(REQUEST)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if length is not None:
                await reader.readexactly(int(length[1]))
            self.admitted[caller][second] += head.startswith(b"HTTP/1.1 200")
        writer.close()

    async def in_process(self, caller: int, limiter: headgate.Limiter) -> None:
        """Ask a limiter of this process."""
        async for second in self._paced(caller):
            self.admitted[caller][second] += bool(limiter.try_acquire(requests=1))

    async def _paced(self, caller: int) -> AsyncIterator[int]:
        due_s = 0.0
        while (now_s := time.monotonic() - self._begun_s) < self._seconds:
            due_s += 1.0 / wanted(caller, now_s, len(self.admitted))
            if due_s > now_s:
                await asyncio.sleep(due_s - now_s)
            yield int(time.monotonic() - self._begun_s)


class Stage:
    """The server, the Envoys, and the service behind them.

    Attributes:
        ports: Ports of the Envoys.
    """

    def __init__(self, api: str, home: Path, children: Children) -> None:
        self.ports = [free_port() for _ in range(ENVOYS)]
        self._api = api
        self._home = home
        self._children = children

    async def configure(self, burst_s: float = 1.0) -> None:
        """Give the tenant its limit, with a burst of `burst_s` seconds."""
        burst = RATE * burst_s
        limit = {"dimension": "requests", "rate": RATE, "burst": burst, "period_s": 1}
        body = {
            "groups": {"gold": {"limits": [limit]}},
            "tenants": {"acme": {}},
            "attachments": [{"subject": WHO, "group": "gold"}],
        }
        async with httpx.AsyncClient(base_url=self._api) as client:
            (await client.post("/api/v1/apply", json=body)).raise_for_status()

    def serve(self, port: int) -> tuple[Child, int]:
        """Start `headgate envoy`; return it and its port."""
        ready = self._home / "ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headgate.cli", "envoy"]
        command += [str(EXAMPLES / "limits.yaml"), "--url", self._api]
        command += ["--port", str(port), "--weight", str(ENVOYS), "--agent", "edge"]
        command += ["--ready-file", str(ready)]
        log = self._home / "server.log"
        child = self._children.start("headgate", command, log=log, talks=False)
        address = json.loads(child.file(ready, START_S))["grpc"]
        return child, int(address.rsplit(":", 1)[1])

    async def start_envoys(self, server: int, service: asyncio.Server) -> None:
        """Start them, with the recommended fallback."""
        text = (EXAMPLES / "envoy-quota.yaml").read_text(encoding="utf-8")
        part = RATE / ENVOYS
        text = text.replace("max_tokens: 100", f"max_tokens: {part:.0f}")
        text = text.replace(
            "tokens_per_fill: 1000", f"tokens_per_fill: {10 * part:.0f}"
        )
        behind = service.sockets[0].getsockname()[1]
        for port in self.ports:
            config = text
            for usual, actual in {10002: port, 8000: behind, 8081: server}.items():
                config = config.replace(f"port_value: {usual}", f"port_value: {actual}")
            file = self._home / f"{port}.yaml"
            file.write_text(config, encoding="utf-8")
            envoy = [str(Path(sys.executable).parent / "envoy"), "-c", str(file)]
            envoy += ["--concurrency", "1", "--disable-hot-restart"]
            log = self._home / f"{port}.log"
            self._children.start(f"envoy {port}", envoy, log=log, talks=False)
        for port in self.ports:
            await listening(port)


async def measured(api: str, home: Path, children: Children, burst_s: float) -> Load:
    """Start everything and let the callers call."""
    stage = Stage(api, home, children)
    await stage.configure(burst_s)
    _, port = stage.serve(0)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as service:
        await stage.start_envoys(port, service)
        async with headgate.connect_async(api, keep_snapshot=False) as agent:
            load = Load(ENVOYS + 1, SECONDS)
            await asyncio.gather(
                *(load.through_envoy(n, port) for n, port in enumerate(stage.ports)),
                load.in_process(ENVOYS, agent.limiter(**WHO)),
            )
    return load


async def killed(api: str, home: Path, children: Children) -> tuple[Load, float, float]:
    """Return the load, when the server was killed and when it was back, seconds."""
    stage = Stage(api, home, children)
    await stage.configure()
    server, port = stage.serve(free_port())
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as service:
        await stage.start_envoys(port, service)
        load = Load(ENVOYS, KILLED_AT_S + KILLED_S + 2 * MOVE_S)

        async def kill() -> tuple[float, float]:
            await asyncio.sleep(KILLED_AT_S)
            await asyncio.to_thread(children.forget, server)
            begun_s = load.second()
            await asyncio.sleep(KILLED_S)
            await asyncio.to_thread(stage.serve, port)
            return begun_s, load.second()

        (begun_s, ended_s), *_ = await asyncio.gather(
            kill(),
            *(load.through_envoy(n, port) for n, port in enumerate(stage.ports)),
        )
    return load, begun_s, ended_s


async def listening(port: int) -> None:
    """Wait until something listens."""
    for _ in range(int(START_S / 0.1)):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit(f"nothing listens on {port} after {START_S:g} s")


def main() -> None:
    """Measure once and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--killed", action="store_true")
    parser.add_argument(
        "--burst", type=float, default=1.0, help="burst, in seconds of the limit"
    )
    chosen = parser.parse_args()
    with (
        termination_as_interrupt(),
        tempfile.TemporaryDirectory() as folder,
        Children() as children,
    ):
        home = Path(folder)
        settings = ServerSettings(
            port=0, bus_ports=(0, 0), database=str(home / "headgate.db")
        )
        with running(settings) as addresses:
            if chosen.killed:
                tell_killed(*asyncio.run(killed(addresses.api, home, children)))
            else:
                burst_s = float(chosen.burst)
                load = asyncio.run(measured(addresses.api, home, children, burst_s))
                tell(load, burst_s)


def tell_killed(load: Load, begun_s: float, ended_s: float) -> None:
    """Print what was let through without a server."""
    first, last = int(begun_s), int(ended_s) + 1
    seconds = range(first, last)
    admitted = load.total(seconds)
    allowed = RATE * (len(seconds) + 1 + REPORT_S)
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {ENVOYS} Envoys, {RATE:g}/s,"
        f" {OVERLOAD:g} times as much wanted, the server killed for"
        f" {ended_s - begun_s:.0f} s, load {os.getloadavg()[0]:.1f}"
    )
    before = range(first - 10, first)
    print(f"the 10 s before: {load.total(before) / RATE / 10:.3f} of the limit")
    print(
        f"without a server: {admitted} in {len(seconds)} s,"
        f" {admitted / RATE / len(seconds):.3f} of the limit,"
        f" {admitted / allowed:.3f} of Q W + B + Q age"
    )
    for begun in range(last, last + 30, 5):
        rate = load.total(range(begun, begun + 5)) / RATE / 5
        print(f"from {begun - last:2d} s after the start of another: {rate:.3f}")


def tell(load: Load, burst_s: float) -> None:
    """Print what was admitted after each move."""
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {ENVOYS} Envoys and a Python agent,"
        f" {RATE:g}/s, {OVERLOAD:g} times as much wanted, load {os.getloadavg()[0]:.1f}"
    )
    if burst_s != 1.0:
        print(f"a burst of {burst_s:g} s, which is spent first")
    for begun in range(0, SECONDS, MOVE_S):
        seconds = range(begun + SETTLED_S, min(begun + MOVE_S, SECONDS - 1))
        rates = [sum(one[s] for s in seconds) / len(seconds) for one in load.admitted]
        parts = [rate / due for rate, due in zip(rates, dues(begun), strict=True)]
        print(
            f"from {begun + SETTLED_S:2d} s: {sum(rates) / RATE:.3f} of the limit;"
            f" of their due: Envoys {', '.join(f'{part:.2f}' for part in parts[:-1])};"
            f" Python {parts[-1]:.2f}"
        )
    whole = sum(sum(one.values()) for one in load.admitted)
    central = RATE * (SECONDS + burst_s)
    print(f"over all: {whole / central:.3f} of one central bucket")


if __name__ == "__main__":
    main()
