"""A strict group on real processes: never over, whichever is killed; and used again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.e2e.conftest import QUOTA_PER_S, Cluster

from headgate.agent import connect
from headgate.cli.client.rest import Rest
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 90.0
"""How long the test waits for what must come; the machine may be busy."""

SPAN_S = 2.0
"""Long enough for the burst to be a part of what is admitted, not all of it."""

BURST = 30.0


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Cluster]:
    """Three callers under a steady overload of a strict group."""
    with Children() as children:
        cluster = Cluster(children, tmp_path, "zeromq")
        cluster.start()
        limit = {"dimension": "requests", "rate": QUOTA_PER_S, "burst": BURST}
        with Rest(cluster.url) as rest:
            body = {"mode": "strict", "limits": [limit]}
            rest.call("PATCH", "/api/v1/groups/g", body=body)
        yield cluster


def until(
    cluster: Cluster,
    holds: Callable[[list[float]], bool],
    what: str,
    *,
    rate: float = QUOTA_PER_S,
    span_s: float = SPAN_S,
) -> None:
    """Watch spans until what each caller gets, as a part of the quota, is right."""
    began_s, got = time.monotonic(), [0.0]
    while not holds(got):
        assert time.monotonic() - began_s < PATIENCE_S, f"{what}: {got}"
        since_s, until_s = cluster.watch(span_s)
        expected = rate * (until_s - since_s)
        got = [count / expected for count in cluster.admitted(since_s, until_s)]


def most_over(
    cluster: Cluster, since_s: float, *, rate: float = QUOTA_PER_S, burst: float = BURST
) -> float:
    """Return by how many units some stretch of time held more than Q·W + B.

    A request was admitted at some time between its call and the return of it: the
    longest stretch that a set of them may have taken counts.
    """
    each = [caller.attempts(since_s, np.inf) for caller in cluster.callers]
    found = np.concatenate(each)
    found = np.sort(found[found["admitted"] != 0], order="at_ns")
    begun_s = found["at_ns"] / 1e9
    ended_s = np.maximum.accumulate(begun_s + found["spent_ns"] / 1e9)
    # n(i..j) − Q·(end_j − begin_i), at its largest: i at the largest up to each j.
    count = np.arange(len(found))
    first = np.maximum.accumulate(rate * begun_s - count)
    return float(np.max(count + 1 - rate * ended_s + first)) - burst


def test_a_strict_group_is_never_over_and_used_again_after_kills(
    strict: Cluster,
) -> None:
    # What was admitted while the group was balanced does not count.
    time.sleep(1.0)
    since_s = time.monotonic()
    strict.load(300.0, 300.0, 300.0)
    first, second, third = strict.callers
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "all three share")
    second.kill()
    until(strict, lambda got: sum(got) > 0.85, "two use what the killed one had")
    second.come_back()
    second.rate(300.0)
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "it shares again")
    strict.kill_api()
    third.kill()
    until(strict, lambda got: sum(got) > 0.5, "two go on without the API")
    third.come_back()
    third.rate(300.0)
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "all share again")
    assert first.admitted(since_s, np.inf) > 0
    assert most_over(strict, since_s) <= 1.0


def test_agents_take_turns_where_the_burst_holds_one_request(strict: Cluster) -> None:
    rate = 2.0
    limit = {"dimension": "requests", "rate": rate, "burst": 1.0}
    with Rest(strict.url) as rest:
        rest.call("PATCH", "/api/v1/groups/g", body={"limits": [limit]})
    time.sleep(3.0)
    since_s = time.monotonic()
    strict.load(40.0, 40.0, 40.0)
    until(
        strict,
        lambda got: min(got) > 0.15 and sum(got) > 0.7,
        "each has its turn",
        rate=rate,
        span_s=15.0,
    )
    assert most_over(strict, since_s, rate=rate, burst=1.0) <= 1.0


@pytest.mark.parametrize(("mode", "burst"), [("balanced", 2.0), ("strict", 30.0)])
def test_callers_of_a_group_inside_never_exceed_it_whoever_is_killed(
    strict: Cluster, mode: str, burst: float
) -> None:
    """Its burst may hold fewer requests than there are processes."""
    rate = 60.0
    limit = {"dimension": "requests", "rate": rate, "burst": burst}
    with Rest(strict.url) as rest:
        around = {"mode": "strict", "limits": [limit]}
        rest.call("PUT", "/api/v1/groups/around", body=around)
        inside = {"mode": mode, "parent": "around"}
        rest.call("PATCH", "/api/v1/groups/g", body=inside)
    time.sleep(3.0)
    since_s = time.monotonic()
    strict.load(150.0, 150.0, 150.0)
    until(
        strict,
        lambda got: min(got) > 0.1 and sum(got) > 0.4,
        "all three share",
        rate=rate,
    )
    _, second, _ = strict.callers
    second.kill()
    until(strict, lambda got: sum(got) > 0.4, "two go on", rate=rate)
    second.come_back()
    second.rate(150.0)
    until(strict, lambda got: min(got) > 0.1, "it shares again", rate=rate)
    assert most_over(strict, since_s, rate=rate, burst=burst) <= 1.0


class Wire:
    """TCP proxies for one agent: all of its connections, until they are cut.

    Args:
        ports: Of API and bus on this host; the answers of the API name the proxies.
    """

    def __init__(self, *ports: int) -> None:
        self._cut = False
        self._open: list[socket.socket] = []
        self._listening = [socket.create_server(("127.0.0.1", 0)) for _ in ports]
        self.ports = [each.getsockname()[1] for each in self._listening]
        self._named = dict(zip(ports, self.ports, strict=True))
        for listening, port in zip(self._listening, ports, strict=True):
            threading.Thread(target=self._serve, args=(listening, port)).start()

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._cut = True
        break_off(*self._open)

    def close(self) -> None:
        """End the threads."""
        self.cut()
        break_off(*self._listening)
        for each in self._open + self._listening:
            each.close()

    def _serve(self, listening: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                if self._cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", port))
                self._open += [near, far]
                api = port == next(iter(self._named))
                for pair, answers in (((near, far), False), ((far, near), api)):
                    threading.Thread(
                        target=self._pass, args=pair, kwargs={"api": answers}
                    ).start()

    def _pass(self, source: socket.socket, to: socket.socket, *, api: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                for port, named in self._named.items() if api else ():
                    # Of one length, or the answer's would be wrong.
                    assert len(str(port)) == len(str(named))
                    data = data.replace(str(port).encode(), str(named).encode())
                to.sendall(data)
        # Not closed: while another thread reads from it, a closed one stays connected.
        break_off(source, to)


def break_off(*connections: socket.socket) -> None:
    """Tell both sides of each that it has ended."""
    for each in connections:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Greedy:
    """An agent in this process that asks for more than there is."""

    def __init__(self, url: str, name: str) -> None:
        self.agent = connect(url, agent=name, keep_snapshot=False)
        self.admitted_at: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        limiter = self.agent.limiter(tenant="acme")
        while not self._ended.wait(0.001):
            if limiter.try_acquire(requests=1):
                self.admitted_at.append(time.monotonic())

    def since(self, since_s: float) -> int:
        """Return how many requests were admitted since then."""
        return sum(at > since_s for at in self.admitted_at)

    def close(self) -> None:
        """Ask no more, and leave."""
        self._ended.set()
        self._thread.join()
        self.agent.close()


def test_an_agent_that_is_cut_off_from_all_stops_before_others_use_its_permits(
    strict: Cluster,
) -> None:
    """The API sees its connection break, as that of a killed process does."""
    wire = Wire(*strict.ports)
    both = [
        Greedy(f"http://127.0.0.1:{wire.ports[0]}", "cut-off"),
        Greedy(strict.url, "other"),
    ]

    def await_part(which: list[Greedy], part: float) -> None:
        began_s = time.monotonic()
        while min(each.since(time.monotonic() - SPAN_S) for each in which) < (
            part * SPAN_S * QUOTA_PER_S
        ):
            assert time.monotonic() - began_s < PATIENCE_S, f"{part} of the quota"
            time.sleep(0.1)

    try:
        await_part(both, 0.35)
        time.sleep(6.0)  # its request waits at the API, which has no more news for it
        since_s = time.monotonic()
        wire.cut()
        await_part(both[1:], 0.85)  # the callers at rest keep some
        time.sleep(3.0)
        passed_s = time.monotonic() - since_s
        admitted = sum(each.since(since_s) for each in both)
        assert admitted <= QUOTA_PER_S * passed_s + BURST + len(both)
        assert both[0].since(since_s + 2.0) == 0
    finally:
        for each in both:
            each.close()
        wire.close()
