"""One caller of `bench/league.py`: asks one limiter and records the answers.

It is a process of its own, in the environment of its limiter: nothing of Headgate is
imported unless Headgate is the limiter.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Module = Any
"""The peers have few type hints."""

MOST_LATENCIES = 200_000


class Task(Protocol):
    """What a caller should do.

    Attributes:
        limiter: Name of the limiter.
        address: Where it or its store is.
        rate: Rate of the limit, and its burst.
        header: Header of requests through Envoy that says who asks.
        demands: Pairs of a second and the rate from then on.
        seconds: How long to call.
        begins_s: When to begin, on the monotonic clock.
        seed: Of the arrivals.
        slots_per_s: Resolution at which admissions are recorded.
        out: File of the result.
    """

    limiter: str
    address: str
    rate: int
    header: str
    demands: list[tuple[float, float]]
    seconds: float
    begins_s: float
    seed: int
    slots_per_s: int
    out: str


def nothing(_: Task) -> Callable[[], bool]:
    """Admit everything, to measure the cost of asking itself."""
    return lambda: True


def headgate(task: Task) -> Callable[[], bool]:
    """Ask Headgate in this process."""
    package: Module = import_module("headgate")
    agent = package.connect(task.address, keep_snapshot=False)
    limiter = agent.limiter(tenant="acme")
    return lambda: bool(limiter.try_acquire(requests=1))


def limits(task: Task) -> Callable[[], bool]:
    """Ask `limits`, which uses windows, with Redis."""
    package: Module = import_module("limits")
    strategies: Module = import_module("limits.strategies")
    storage: Module = import_module("limits.storage")
    store = storage.storage_from_string(f"redis://{task.address}")
    limiter = strategies.FixedWindowRateLimiter(store)
    item = package.RateLimitItemPerSecond(task.rate)
    return lambda: bool(limiter.hit(item, "acme"))


def throttled(task: Task) -> Callable[[], bool]:
    """Ask throttled-py, a token bucket, with Redis."""
    package: Module = import_module("throttled")
    throttle = package.Throttled(
        using=package.RateLimiterType.TOKEN_BUCKET.value,
        quota=package.per_sec(task.rate, burst=task.rate),
        store=package.RedisStore(server=f"redis://{task.address}/0"),
    )
    return lambda: not throttle.limit("acme", cost=1).limited


def litellm(task: Task) -> Callable[[], bool]:
    """Ask the limiter of LiteLLM's proxy, as the proxy does, with Redis.

    The proxy counts by the minute unless another window is set; a second is comparable
    to the others here.  It looks into its own memory first: once a window was found
    full, Redis is not asked again within it.
    """
    os.environ["LITELLM_RATE_LIMIT_WINDOW_SIZE"] = "1"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads one
    hooks: Module = import_module("litellm.proxy.hooks.parallel_request_limiter_v3")
    caching: Module = import_module("litellm.caching.caching")
    utils: Module = import_module("litellm.proxy.utils")
    host, port = task.address.rsplit(":", 1)
    loop = asyncio.new_event_loop()
    redis = caching.RedisCache(host=host, port=int(port))
    cache = utils.InternalUsageCache(dual_cache=caching.DualCache(redis_cache=redis))
    limiter = hooks._PROXY_MaxParallelRequestsHandler_v3(internal_usage_cache=cache)
    limit = {"requests_per_unit": task.rate}
    acme = {"key": "team", "value": "acme", "rate_limit": limit}

    def ask() -> bool:
        asked = limiter.should_rate_limit(descriptors=[acme])
        return bool(loop.run_until_complete(asked)["overall_code"] == "OK")

    return ask


class Http:
    """Asks an Envoy over one connection."""

    def __init__(self, task: Task) -> None:
        host, port = task.address.rsplit(":", 1)
        self._where = host, int(port)
        self._request = f"GET / HTTP/1.1\r\nhost: service\r\n{task.header}\r\n\r\n"
        self._socket: socket.socket | None = None

    def __call__(self) -> bool:
        """Send a request; return whether it was admitted."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._where, timeout=5.0)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(self._request.encode())
            head = b""
            while b"\r\n\r\n" not in head:
                part = self._socket.recv(65_536)
                if not part:
                    raise ConnectionResetError
                head += part
        except OSError:
            if self._socket is not None:
                self._socket.close()
            self._socket = None
            raise
        if head.startswith(b"HTTP/1.1 5"):
            raise OSError("the limits can't be asked")
        return head.startswith(b"HTTP/1.1 200")


LIMITERS: dict[str, Callable[[Task], Callable[[], bool]]] = {
    "nothing": nothing,
    "headgate": headgate,
    "limits": limits,
    "throttled": throttled,
    "litellm": litellm,
    "http": Http,
}


def arrivals(task: Task) -> Iterator[float]:
    """Yield when to ask, in seconds: a Poisson process whose rate changes."""
    chance = random.Random(task.seed)
    changes = [*task.demands, (task.seconds, 0.0)]
    for (begins_s, rate), (ends_s, _) in pairwise(changes):
        at_s = begins_s
        while (at_s := at_s + chance.expovariate(rate)) < ends_s:
            yield at_s


def main() -> None:
    """Carry out the task."""
    task: Module = type("Task", (), {"slots_per_s": 10, **json.loads(sys.argv[1])})
    attempt = LIMITERS[task.limiter](task)
    slots = int(task.seconds * task.slots_per_s) + 1
    admitted, failed, asked = [0] * slots, [0] * slots, [0] * slots
    latencies = list[float]()
    if time.monotonic() > task.begins_s:
        raise SystemExit("the limiter was not ready in time")
    time.sleep(max(0.0, task.begins_s - time.monotonic()))
    cpu_s = time.process_time()
    for at_s in arrivals(task):
        early_s = task.begins_s + at_s - time.monotonic()
        if early_s > 0.0:
            time.sleep(early_s)
        begun_s = time.perf_counter()
        slot = int((time.monotonic() - task.begins_s) * task.slots_per_s)
        if slot >= slots:
            break
        asked[slot] += 1
        try:
            admitted[slot] += attempt()
        except Exception:  # whatever the peers' clients raise
            failed[slot] += 1
        if len(latencies) < MOST_LATENCIES:
            latencies.append(time.perf_counter() - begun_s)
    result = {
        "admitted": admitted,
        "failed": failed,
        "asked": asked,
        "latencies": latencies,
        "cpu_s": time.process_time() - cpu_s,
    }
    Path(task.out).write_text(json.dumps(result) + "\n", encoding="utf-8")


main()  # never imported
