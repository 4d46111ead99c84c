"""Server CPU of RLQS: a thousand simulated Envoys with a hundred buckets each.

Streams report every bucket each 5 s, as Envoy does, to a real `headgate envoy` whose
tenants have a group each.  It prints the CPU of that process, in cores, and per request
at 50,000 requests/s.  Messages are prepared beforehand, because this process's CPU
doesn't count.  The CPU depends on reports: requests are only counts in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from headgate.api import ServerSettings, running
from headgate.cli.process.children import Child, Children, termination_as_interrupt

sys.path[:0] = [str(Path(__file__).parents[2])]

from tools.ratelimit import cpu_s  # noqa: E402  # path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Module = Any
"""Envoy's messages have no type hints."""

LOADS = ((5, 1), (100, 100), (1_000, 100))
"""Pairs of streams and buckets."""

REQUESTS_PER_S = 50_000
"""Of all Envoys together.  A request takes an Envoy some 7 us: two cores carry more."""

REPORT_S = 5.0
WARM_S, MEASURED_S = 15.0, 30.0
START_S = 300.0
CONNECTIONS = 20
METHOD = (
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas"
)
EXAMPLES = Path(__file__).parents[2] / "examples" / "envoy"


def report(buckets: int, requests: int) -> bytes:
    """Return the report of a stream, as bytes."""
    say: Module = import_module("envoy.service.rate_limit_quota.v3.rlqs_pb2")
    usages = [
        {
            "bucket_id": {"bucket": {"tenant": f"t{number}"}},
            "time_elapsed": {"seconds": int(REPORT_S)},
            "num_requests_allowed": requests // 2,
            "num_requests_denied": requests - requests // 2,
        }
        for number in range(buckets)
    ]
    made = say.RateLimitQuotaUsageReports(domain="apis", bucket_quota_usages=usages)
    return bytes(made.SerializeToString())


async def measured(address: str, server: Child, streams: int, buckets: int) -> float:
    """Return the CPU seconds that the server uses in a second."""
    requests = round(REQUESTS_PER_S * REPORT_S / streams / buckets)
    message = report(buckets, requests)
    grpc: Module = import_module("grpc.aio")
    options = [("grpc.use_local_subchannel_pool", 1)]
    ended = asyncio.Event()

    async def reports(number: int) -> AsyncIterator[bytes]:
        await asyncio.sleep(REPORT_S * number / streams)
        while not ended.is_set():
            yield message
            await asyncio.sleep(REPORT_S)

    async def stream(number: int) -> None:
        channel = channels[number % CONNECTIONS]
        async for _ in channel.stream_stream(METHOD)(reports(number)):
            pass

    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.insecure_channel(address, options))
            for _ in range(CONNECTIONS)
        ]
        tasks = [asyncio.create_task(stream(number)) for number in range(streams)]
        await asyncio.sleep(WARM_S)
        begun_s, used_s = time.monotonic(), cpu_s(server)
        await asyncio.sleep(MEASURED_S)
        used_s = cpu_s(server) - used_s
        elapsed_s = time.monotonic() - begun_s
        ended.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return used_s / elapsed_s


def main() -> None:
    """Measure once and print it."""
    tenants = [f"t{number}" for number in range(max(b for _, b in LOADS))]
    limit = {"dimension": "requests", "rate": 1_000, "burst": 1_000}
    body = {
        "groups": {name: {"limits": [limit]} for name in tenants},
        "tenants": {name: {} for name in tenants},
        "attachments": [{"subject": {"tenant": n}, "group": n} for n in tenants],
    }
    for streams, buckets in LOADS:
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
                url = f"{addresses.api}/api/v1/apply"
                httpx.post(url, json=body, timeout=60.0).raise_for_status()
                ready = home / "ready.json"
                command = [sys.executable, "-m", "headgate.cli", "envoy"]
                command += [str(EXAMPLES / "limits.yaml"), "--url", addresses.api]
                command += ["--port", "0", "--ready-file", str(ready)]
                log = home / "server.log"
                server = children.start("headgate", command, log=log, talks=False)
                address = json.loads(server.file(ready, START_S))["grpc"]
                cores = asyncio.run(measured(address, server, streams, buckets))
        print(
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {streams:,} streams with"
            f" {buckets} buckets: {cores:.3f} cores,"
            f" {cores / REQUESTS_PER_S * 1e6:.2f} us a request at"
            f" {REQUESTS_PER_S:,}/s, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
