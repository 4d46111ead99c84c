"""A cluster around the agent under test: an API, a bus, and load."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlparse

from tools.ports import free_port

from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
from headgate.agent.errors import HeadgateError
from headgate.agent.follow.snapshot import Snapshot, snapshot_to_json
from headgate.coordinator import Attachment, Configuration, Group, Limit
from headgate.simulation.measure.reference_bucket import ReferenceBucket

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable

    from headgate.agent import Agent, Limiter
    from headgate.coordinator import Explanation

PATIENCE_S = 30.0
"""How long a test waits for what must come; the machine may be busy."""

SETTLE_S = 3.0
"""Three heartbeats, after which all must be as it should be."""


def snapshot(
    bus: BusSettings | None, *, rate: float = 1000.0, revision: int = 1
) -> Snapshot:
    """Return a configuration with one group, gold, that acme is attached to."""
    limit = Limit(dimension="requests", rate=rate, burst=max(rate, 1.0))
    return Snapshot(
        configuration=Configuration(
            revision=revision,
            groups=(Group(id=1, name="gold", limits=(limit,)),),
            attachments=(Attachment((("tenant", "acme"),), 1),),
        ),
        bus=bus,
    )


class Api:
    """The snapshot route of the API, over real HTTP.

    Attributes:
        port: Stays the same over `stop` and `start`.
        headers: Of the last request.
        broken: Answered instead of the snapshot, when set.
    """

    def __init__(self, first: Snapshot) -> None:
        self.port = free_port()
        self.headers: dict[str, str] = {}
        self.broken: tuple[int, bytes] | None = None
        self._snapshot = first
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        """What agents connect to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def stopped(self) -> bool:
        """Whether nobody is listening."""
        return self._server is None

    def set(self, new: Snapshot) -> None:
        """Go over to a new snapshot; who waits is answered."""
        with self._changed:
            self._snapshot = new
            self._changed.notify_all()

    def set_rate(self, rate: float) -> None:
        """Change the quota of gold."""
        before = self._snapshot
        revision = before.configuration.revision + 1
        self.set(snapshot(before.bus, rate=rate, revision=revision))

    def start(self) -> None:
        """Listen, at the same port as before."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.headers = dict(self.headers.items())
                status, body = api.answer(self.path)
                with suppress(ConnectionError):  # the agent was closed meanwhile
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                self.close_connection = api.stopped

            def log_message(self, format: str, *_: object) -> None:
                del format

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and answer nobody any more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self.set(self._snapshot)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body of one request."""
        query = {k: v[0] for k, v in parse_qs(urlparse(path).query).items()}
        with self._changed:
            if "revision" in query:
                known, wait_s = int(query["revision"]), float(query["wait_s"])
                self._changed.wait_for(
                    lambda: (
                        self._snapshot.configuration.revision > known or self.stopped
                    ),
                    wait_s,
                )
                if self._snapshot.configuration.revision <= known:
                    return HTTPStatus.NOT_MODIFIED, b""
            if self.broken is not None:
                return self.broken
            return HTTPStatus.OK, json.dumps(snapshot_to_json(self._snapshot)).encode()


class Cluster:
    """An API and a ZeroMQ proxy."""

    def __init__(self) -> None:
        self.proxy = ZeroMQProxy()
        self.bus = BusSettings(
            kind="zeromq",
            publish=(self.proxy.publish_address,),
            subscribe=(self.proxy.subscribe_address,),
        )
        self.api = Api(snapshot(self.bus))

    def restart_proxy(self, *, away_s: float) -> None:
        """Take the bus away for a while."""
        self.proxy.close()
        time.sleep(away_s)
        self.proxy = ZeroMQProxy(
            publish=self.bus.publish[0], subscribe=self.bus.subscribe[0]
        )

    def close(self) -> None:
        """Stop all of it."""
        self.api.stop()
        self.proxy.close()


class Load:
    """An open loop of attempts on one limiter, in a thread of its own.

    Attributes:
        rate: Attempts per second; may be changed while it runs.
        attempted: So far.
        admitted: So far.
        attempts: When each one was made, on the monotonic clock, and if it passed.
        slowest_s: The longest attempt.
    """

    def __init__(self, limiter: Limiter, rate: float) -> None:
        self.rate = rate
        self.attempted = self.admitted = 0
        self.attempts: list[tuple[float, bool]] = []
        self.slowest_s = 0.0
        self._limiter = limiter
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load."""
        self._stopping.set()
        self._thread.join()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        due, before_s = 0.0, time.monotonic()
        while not self._stopping.wait(0.002):
            now_s = time.monotonic()
            due, before_s = due + self.rate * (now_s - before_s), now_s
            while self.attempted < int(due):
                began_s = time.monotonic()
                admitted = bool(self._limiter.try_acquire(requests=1))
                self.attempts.append((began_s, admitted))
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                self.attempted += 1
                self.admitted += admitted


def rates(loads: list[Load], seconds: float) -> list[float]:
    """Return what each load was admitted per second, over `seconds` from now."""
    before, began_s = [load.admitted for load in loads], time.monotonic()
    time.sleep(seconds)
    elapsed_s = time.monotonic() - began_s
    return [(x.admitted - b) / elapsed_s for x, b in zip(loads, before, strict=True)]


def settle(
    loads: list[Load], *, least: float, most: float, seconds: float = 2.0
) -> None:
    """Check once, three heartbeats from now, what all loads together are admitted.

    Of the attempts that the loads really made, at least what one bucket of `least`
    units/s for all would admit within `seconds`, and at most what one of `most` would:
    a load for which the machine had no time changes both sides alike.
    """
    time.sleep(SETTLE_S)
    since_s = time.monotonic()
    time.sleep(seconds)
    until_s = time.monotonic()
    attempts = sorted(one for load in loads for one in load.attempts[:])
    span = [one for one in attempts if since_s <= one[0] < until_s]
    admitted = sum(passed for _, passed in span)
    bounds = [
        sum(at_s >= since_s for at_s in _central(attempts, rate, until_s))
        for rate in (least, most)
    ]
    assert bounds[0] <= admitted <= bounds[1], f"of {len(span)} attempts"


def _central(
    attempts: list[tuple[float, bool]], rate: float, until_s: float
) -> list[float]:
    """Return when one bucket, full at first, with a burst of a second admits."""
    bucket = ReferenceBucket(((0.0, rate, rate),), may_owe=True)
    begin_s = attempts[0][0]
    return [
        at_s
        for at_s, _ in attempts
        if at_s < until_s and bucket.try_acquire_at(at_s - begin_s, 1.0) == 0.0
    ]


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)


def explained(agent: Agent, dimension: str = "requests") -> Explanation:
    """Return the explanation of gold, once the agent has looked at its buckets."""
    found: list[Explanation] = []

    def tried() -> bool:
        with suppress(HeadgateError):
            found.append(agent.explain("gold", dimension))
        return bool(found)

    until(tried, "the limit to be tracked")
    return found[-1]


def other_rate(before: Snapshot, rate: float) -> Snapshot:
    """Return the same revision with another rate, as a restored store has it."""
    return replace(before, configuration=snapshot(None, rate=rate).configuration)


def lines_of(processes: Iterable[subprocess.Popen[str]]) -> list[str]:
    """Return the next line of each; an empty one of a process that has ended."""
    return [each.stdout.readline() for each in processes if each.stdout]


def tell(processes: Iterable[subprocess.Popen[str]]) -> None:
    """Let each go on that waits for a line."""
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
