"""RLS while new keys come: the latency of decisions, and what a new key costs.

A real `headgate up`, a real `headgate envoy` and two callers over gRPC: one asks about
known keys at an even pace, the other brings new ones.  Printed is the latency of the
first caller without new keys and with them, and how many keys the server governs over
all processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import httpx

sys.path[:0] = [str(Path(__file__).parents[2])]

from tools.ports import free_port  # noqa: E402  # path

from headgate.cli.process.children import Children  # noqa: E402  # path

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = """
domain: bench
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 600}
"""
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
START_S = 120.0
GATHER_S = 1.0


async def measured(
    ask: Callable[[str], Any], names: Callable[[], str], per_s: float, seconds: float
) -> list[float]:
    """Return the latencies, seconds, of requests at an even pace."""
    latencies, failed = list[float](), list[str]()
    running = set[asyncio.Task[None]]()

    async def one() -> None:
        begun_s = time.perf_counter()
        try:
            await ask(names())
        except grpc.aio.AioRpcError as error:
            failed.append(f"{error.code()}: {error.details()}")
        else:
            latencies.append(time.perf_counter() - begun_s)

    begins_s, sent = time.monotonic(), 0
    while (now := time.monotonic()) < begins_s + seconds:
        while sent < (now - begins_s) * per_s:
            task = asyncio.create_task(one())
            running.add(task)
            task.add_done_callback(running.discard)
            sent += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*running)
    if failed:
        print(f"{len(failed)} failed, such as {failed[0]}")
    return sorted(latencies)


def said(name: str, latencies: list[float]) -> str:
    """Return one line about some latencies."""
    p50, p99 = (latencies[int(part * (len(latencies) - 1))] for part in (0.5, 0.99))
    return (
        f"{name}: {len(latencies)} decisions, p50 {p50 * 1e3:.1f} ms, p99"
        f" {p99 * 1e3:.1f} ms, worst {latencies[-1] * 1e3:.0f} ms"
    )


async def load(address: str, chosen: argparse.Namespace) -> None:
    """Create the known keys, then measure without and with new ones."""
    request: Any = import_module("envoy.service.ratelimit.v3.rls_pb2").RateLimitRequest
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)

        async def ask(user: str) -> None:
            entries = [{"key": "user", "value": user}]
            message = request(domain="bench", descriptors=[{"entries": entries}])
            await call(message.SerializeToString(), wait_for_ready=True)

        begun_s = time.monotonic()
        for first in range(0, chosen.known, 100):
            last = min(first + 100, chosen.known)
            await asyncio.gather(*(ask(f"known-{n}") for n in range(first, last)))
        print(f"{chosen.known} keys known after {time.monotonic() - begun_s:.1f} s")
        await asyncio.sleep(chosen.rest)
        draw = random.Random(1)
        new = iter(range(10**9))

        def known() -> str:
            return f"known-{draw.randrange(chosen.known)}"

        alone = await measured(ask, known, chosen.rate, chosen.seconds)
        print(said("without new keys", alone), flush=True)
        both = await asyncio.gather(
            measured(ask, known, chosen.rate, chosen.seconds),
            measured(ask, lambda: f"new-{next(new)}", chosen.new, chosen.seconds),
        )
        print(said(f"with {chosen.new:g} new keys/s", both[0]))
        print(said("the new keys", both[1]), flush=True)


def main() -> None:
    """Run once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--known", type=int, default=10_000)
    parser.add_argument("--new", type=float, default=300.0, help="new keys per second")
    parser.add_argument(
        "--rate", type=float, default=300.0, help="requests for known keys per second"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--rest", type=float, default=5.0, help="seconds of rest beforehand"
    )
    chosen = parser.parse_args()
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {chosen.known} known keys,"
        f" load {os.getloadavg()[0]:.1f}"
    )
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children = stack.enter_context(Children())
        port, bus, envoy = free_port(), [free_port(), free_port()], free_port()
        api = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "headgate.cli"]
        up = [*command, "up", "--port", str(port), "--database", str(home / "db")]
        up += ["--bus-ports", f"{bus[0]},{bus[1]}"]
        children.start("headgate up", up, log=home / "up.log", talks=False)
        ends_s = time.monotonic() + START_S
        while time.monotonic() < ends_s:
            try:
                httpx.get(f"{api}/healthz", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        rules, ready = home / "rules.yaml", home / "ready.json"
        rules.write_text(RULES, encoding="utf-8")
        serve = [*command, "envoy", str(rules), "--url", api, "--port", str(envoy)]
        serve += ["--ready-file", str(ready)]
        log = home / "envoy.log"
        server = children.start("headgate envoy", serve, log=log, talks=False)
        address = json.loads(server.file(ready, START_S))["grpc"]
        try:
            asyncio.run(load(address, chosen))
        finally:
            print(log.read_text(encoding="utf-8")[-1_000:])
        shown = httpx.get(f"{api}/api/v1/snapshot", trust_env=False, timeout=60).json()
        groups = shown["groups"]
        print(
            f"{len(groups)} groups in the configuration, revision {shown['revision']}"
        )


if __name__ == "__main__":
    main()
