"""What strangers and large configurations cost the REST service.

    .venv/bin/python -m bench.service [hostile|large|watchers]

The server is a process of its own, as `headgate up` is.  CPU is that process's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import statistics
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import psutil
from bench.administration import served
from bench.watchers import Watcher, until_waiting

HALF_OPEN = 5_000
GROUPS = 20_000
ATTACHMENTS = 100_000
LOOKS = 50
"""Number of requests; the slowest one is printed."""
ROUNDS = 7

TIMEOUT_S = 600.0


def cpu_s(process: int) -> float:
    """Return the CPU time that a process has used, seconds."""
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def peak_mb(process: int) -> float:
    """Return the peak memory of a process, MB."""
    with open(f"/proc/{process}/status", encoding="utf-8") as status:
        line = next(each for each in status if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def asked(
    client: httpx.Client,
    process: int,
    what: str,
    method: str,
    path: str,
    **options: object,
) -> httpx.Response:
    """Send one request; print status, CPU and wall time."""
    before, began = cpu_s(process), time.perf_counter()
    answer = client.request(method, path, **options)  # type: ignore[arg-type]
    wall, cpu = time.perf_counter() - began, cpu_s(process) - before
    print(f"{what}: {answer.status_code}, {cpu:.2f} s CPU, {wall:.2f} s", flush=True)
    return answer


def repeated(client: httpx.Client, process: int, what: str, path: str) -> None:
    """Repeat a request; print its CPU and wall time."""
    client.get(path).raise_for_status()
    before, walls = cpu_s(process), list[float]()
    for _ in range(LOOKS):
        began = time.perf_counter()
        client.get(path).raise_for_status()
        walls.append(time.perf_counter() - began)
    cpu_ms = (cpu_s(process) - before) / LOOKS * 1e3
    print(
        f"{what}: {cpu_ms:.1f} ms CPU each, {statistics.median(walls) * 1e3:.1f} ms "
        f"median, {max(walls) * 1e3:.0f} ms at worst",
        flush=True,
    )


def hostile() -> None:
    """Send what a stranger might send."""
    with ExitStack() as stack:
        url, process = served(stack, None)
        client = stack.enter_context(httpx.Client(base_url=url, timeout=TIMEOUT_S))
        for what, raw, kind in (
            ("nested YAML, 60 kB", b"- " * 30_000 + b"a", "yaml"),
            ("20,000 brackets of YAML", b"[" * 20_000, "yaml"),
            ("20,000 brackets of JSON", b"[" * 20_000, "json"),
            ("60 MB of empty lists", b"[" + b"[]," * 20_000_000 + b"[]]", "json"),
            ("30 MB of empty lists", b"[" + b"[]," * 10_000_000 + b"[]]", "json"),
            ("8 MB of YAML lists", b"[" + b"[]," * 2_790_000 + b"[]]", "yaml"),
        ):
            headers = {"Content-Type": f"application/{kind}"}
            path = "/api/v1/apply?dry_run=true"
            asked(client, process, what, "POST", path, content=raw, headers=headers)
        print(f"memory at its peak: {peak_mb(process):.0f} MB", flush=True)
    with ExitStack() as stack:
        url, process = served(stack, None)
        where = urlsplit(url)
        client = stack.enter_context(httpx.Client(base_url=url, timeout=TIMEOUT_S))
        repeated(client, process, "/healthz", "/healthz")
        began = time.perf_counter()
        while_opening: list[float] = []
        for number in range(HALF_OPEN):
            connection = socket.create_connection(
                (str(where.hostname), where.port or 0)
            )
            stack.callback(connection.close)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
            if number % 100 == 0:
                asking = time.perf_counter()
                client.get("/healthz").raise_for_status()
                while_opening.append(time.perf_counter() - asking)
        took = time.perf_counter() - began
        print(
            f"{HALF_OPEN} half-open connections in {took:.1f} s; /healthz meanwhile: "
            f"{statistics.median(while_opening) * 1e3:.1f} ms median, "
            f"{max(while_opening) * 1e3:.0f} ms at worst",
            flush=True,
        )
        repeated(client, process, f"/healthz beside {HALF_OPEN} half-open", "/healthz")


def large() -> None:
    """Apply a large configuration, and read it in several ways."""
    quotas = {
        "groups": {
            f"g{n}": {"limits": [{"dimension": "requests", "rate": 100}]}
            for n in range(GROUPS)
        },
        "attachments": [
            {"subject": {"user": f"u{n}"}, "group": f"g{n % GROUPS}"}
            for n in range(ATTACHMENTS)
        ],
    }
    raw = json.dumps(quotas).encode()
    headers = {"Content-Type": "application/json"}
    with ExitStack() as stack:
        url, process = served(stack, None)
        client = stack.enter_context(
            httpx.Client(base_url=f"{url}/api/v1", timeout=TIMEOUT_S)
        )
        for what in ("apply", "the same again"):
            asked(client, process, what, "POST", "/apply", content=raw, headers=headers)
        print(f"memory at its peak: {peak_mb(process):.0f} MB", flush=True)
        for what, path in (
            ("snapshot?at=0", "/snapshot?at=0"),
            ("snapshot?at=1, first page", "/snapshot?at=1"),
            ("audit?limit=50", "/audit?limit=50"),
            ("audit of one group", "/audit?kind=group&key=g7"),
            ("revisions/1, first page", "/revisions/1"),
        ):
            repeated(client, process, what, path)


async def wake(number: int) -> None:
    """Make `number` requests wait, wake them, and return when they were answered."""
    with ExitStack() as stack:
        url, process = served(stack, None)
        where = urlsplit(url)
        watchers = [
            Watcher(str(where.hostname), where.port or 0, n) for n in range(number)
        ]
        took: list[float] = []
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            for watcher in watchers:
                await watcher.open()
            revision, cpu = 0, 0.0
            for turn in range(ROUNDS):
                for watcher in watchers:
                    watcher.ask(revision)
                await until_waiting(client, number)
                await asyncio.sleep(1.0)  # answers to requests that came meanwhile
                pending = [asyncio.create_task(each.answered()) for each in watchers]
                before, began = cpu_s(process), time.perf_counter()
                answer = await client.put(f"/api/v1/groups/g{turn}", json={})
                revision = int(answer.headers["Headgate-Revision"])
                took += [(await each)[0] - began for each in pending]
                cpu += cpu_s(process) - before
            for watcher in watchers:
                watcher.close()
        cuts = statistics.quantiles(took, n=100)
        print(
            f"{number} watchers: woken in {cuts[49]:.2f} s median, {cuts[98]:.2f} s "
            f"p99; {cpu / ROUNDS:.2f} s CPU a change",
            flush=True,
        )


def main() -> None:
    """Measure all, or one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", nargs="?", choices=("hostile", "large", "watchers"))
    part = parser.parse_args().part
    if part in (None, "hostile"):
        hostile()
    if part in (None, "large"):
        large()
    if part in (None, "watchers"):
        for number in (1_000, 2_000):
            asyncio.run(wake(number))


if __name__ == "__main__":
    main()
