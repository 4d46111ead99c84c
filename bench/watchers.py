"""A thousand agents that wait for a change: memory of the server, time to wake them.

    .venv/bin/python -m bench.watchers [watchers]

They are bare connections from one process, so that the clients cost little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from bench.administration import served

WATCHERS = 1_000
ROUNDS = 7
"""Changes that wake all watchers; medians are printed."""


def resident_mb(process: int) -> float:
    """Return the memory that a process has, MB."""
    text = Path(f"/proc/{process}/status").read_text()
    line = next(each for each in text.splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Watcher:
    """One connection that asks, waits, is answered, asks again."""

    def __init__(self, host: str, port: int, number: int) -> None:
        """Prepare a connection to a server; nothing is opened yet."""
        self._where = (host, port)
        self._number = number
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> None:
        """Open the connection."""
        self._reader, self._writer = await asyncio.open_connection(*self._where)

    def ask(self, revision: int) -> None:
        """Ask for what is newer than `revision`."""
        query = (
            f"revision={revision}&wait_s=60&changes=true"
            f"&agent=a{self._number}&incarnation=1"
        )
        self._writer.write(
            f"GET /api/v1/snapshot?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )

    async def answered(self) -> tuple[float, int]:
        """Return when the answer arrived, and its size."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await self._reader.readexactly(length)
        return time.perf_counter(), len(head) + length

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def until_waiting(client: httpx.AsyncClient, number: int) -> None:
    """Return once this many requests wait at the server."""
    wanted = f"\nheadgate_watchers {number}.0\n"
    while wanted not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.1)


async def measure(url: str, process: int, number: int) -> None:
    """Make watchers wait, wake them, and print how long it took."""
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    async with httpx.AsyncClient(base_url=url, timeout=60.0) as client:
        await client.get("/metrics")
        before = resident_mb(process)
        watchers = [Watcher(where.hostname, where.port, n) for n in range(number)]
        for watcher in watchers:
            await watcher.open()
        first: list[float] = []
        last: list[float] = []
        size = revision = 0
        for turn in range(ROUNDS):
            for watcher in watchers:
                watcher.ask(revision)
            await until_waiting(client, number)
            if turn == 0:
                grown = resident_mb(process) - before
                print(f"{number} watchers wait: {before:.0f} MB before,", end=" ")
                print(f"{grown:.1f} MB more, {grown * 1024 / number:.0f} kB each")
            pending = [asyncio.create_task(each.answered()) for each in watchers]
            began = time.perf_counter()
            answer = await client.put(f"/api/v1/groups/g{turn}", json={})
            revision = int(answer.headers["Headgate-Revision"])
            done = [await each for each in pending]
            first.append(min(at for at, _ in done) - began)
            last.append(max(at for at, _ in done) - began)
            size = max(bytes_ for _, bytes_ in done)
        print(f"PUT until the first is answered: {statistics.median(first):.3f} s")
        print(f"PUT until all are answered:      {statistics.median(last):.3f} s")
        print(f"bytes of an answer: {size}")
        for watcher in watchers:
            watcher.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("watchers", nargs="?", type=int, default=WATCHERS)
    number = parser.parse_args().watchers
    if number < 1:
        parser.error(f"watchers: expected a number ≥ 1, got {number}")
    with ExitStack() as stack:
        url, process = served(stack, None)
        asyncio.run(measure(url, process, number))


if __name__ == "__main__":
    main()
