"""Real parts for the end-to-end tests: servers, buses, agents, commands."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from tools.ports import free_port

from headgate.cli import main
from headgate.cli.client.rest import Rest
from headgate.cli.demo.broker import check_bus, start_broker
from headgate.cli.demo.callerlog import read_log
from headgate.cli.failure import Failure
from headgate.cli.process.children import Child, Children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from headgate.api import Addresses

BusKind = Literal["zeromq", "kafka"]

START_TIMEOUT_S = 60.0
"""For any part, on a machine that may be busy."""

QUOTA_PER_S = 300.0
"""Large enough to share exactly among three, small enough for a busy machine."""


class Caller:
    """One agent process under a steady load, and the log of its attempts."""

    def __init__(self, children: Children, url: str, agent: str, home: Path) -> None:
        self._children = children
        self._command = [
            sys.executable,
            str(Path(__file__).parent / "steady_caller.py"),
        ]
        self._command += ["--url", url, "--agent", agent, "--tenant", "acme"]
        self._command += ["--home", str(home / agent)]
        self._home = home
        self._lives = 0
        self.agent = agent
        self.child = self._start()

    def rate(self, per_s: float) -> None:
        """Attempt so many requests a second from now on."""
        self.child.tell(f"rate {per_s}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._children.forget(self.child)

    def come_back(self) -> None:
        """Start it again under the same id."""
        self.child = self._start()
        self.await_ready()

    def await_ready(self) -> None:
        """Return once it has a configuration."""
        assert self.child.line(START_TIMEOUT_S) == "ready"

    def attempts(self, since_s: float, until_s: float) -> NDArray[np.void]:
        """Return what it tried between two times of the monotonic clock."""
        logs = [self._log(life) for life in range(self._lives)]
        records = np.concatenate([read_log(log) for log in logs if log.exists()])
        at_s = records["at_ns"] / 1e9
        return records[(at_s >= since_s) & (at_s < until_s)]

    def admitted(self, since_s: float, until_s: float) -> int:
        """Return how many it got between two times."""
        return int(self.attempts(since_s, until_s)["admitted"].sum())

    def _log(self, life: int) -> Path:
        return self._home / f"{self.agent}.{life}.log"

    def _start(self) -> Child:
        (self._home / self.agent).mkdir(exist_ok=True)
        command = [*self._command, "--log", str(self._log(self._lives))]
        self._lives += 1
        return self._children.start(
            self.agent, command, log=self._home / f"{self.agent}.stderr"
        )


class Cluster:
    """An API, a bus of its own, and three callers, each a real process."""

    def __init__(self, children: Children, home: Path, bus: BusKind) -> None:
        self._children = children
        self._home = home
        self._kind = bus
        self._port = str(free_port())
        self._bus_address = ""
        self._bus: Child | None = None
        self._api: Child | None = None
        self.url = ""
        self.callers: list[Caller] = []

    def start(self) -> None:
        """Start bus, API and callers; make the group and attach the tenant."""
        self.start_bus()
        self.start_api()
        limit = {"dimension": "requests", "rate": QUOTA_PER_S, "burst": QUOTA_PER_S}
        with Rest(self.url) as rest:
            rest.call("POST", "/api/v1/groups", body={"name": "g", "limits": [limit]})
            rest.call("PUT", "/api/v1/tenants/acme", body={})
            attachment = {"subject": {"tenant": "acme"}, "group": "g"}
            rest.call("PUT", "/api/v1/attachments", body=attachment)
        self.callers = [
            Caller(self._children, self.url, f"agent-{index}", self._home)
            for index in (1, 2, 3)
        ]
        for caller in self.callers:
            caller.await_ready()

    def start_api(self) -> None:
        """Start the API, on the port that it had before if there was one."""
        ready_file = self._home / "ready.json"
        ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headgate.cli", "up", "--port", self._port]
        command += ["--bus", self._bus_address, "--ready-file", str(ready_file)]
        command += ["--database", str(self._home / "headgate.db")]
        self._api = self._children.start(
            "api", command, log=self._home / "api.log", talks=False
        )
        self.url = json.loads(self._api.file(ready_file, START_TIMEOUT_S))["api"]

    def kill_api(self) -> None:
        """End the API with SIGKILL."""
        assert self._api is not None
        self._children.forget(self._api)

    def start_bus(self) -> None:
        """Start the bus, at the address that it had before if there was one."""
        if self._kind == "kafka":
            self._bus, self._bus_address = start_broker(
                self._children, directory=self._home, address=self._bus_address
            )
            return
        host, _, ports = self._bus_address.removeprefix("zeromq://").partition(":")
        front, _, back = (ports or f"{free_port()}/{free_port()}").partition("/")
        ready_file = self._home / "bus.ready"
        ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headgate.cli", "bus", "proxy"]
        command += ["--host", host or "127.0.0.1", "--reports-port", front]
        command += ["--subscribe-port", back, "--ready-file", str(ready_file)]
        self._bus = self._children.start(
            "bus", command, log=self._home / "bus.log", talks=False
        )
        self._bus_address = self._bus.file(ready_file, START_TIMEOUT_S).strip()

    @property
    def ports(self) -> list[int]:
        """Of the API and of a ZeroMQ bus, on this host."""
        ports = self._bus_address.rpartition(":")[2].split("/")
        return [int(port) for port in (self._port, *ports)]

    def kill_bus(self) -> None:
        """End proxy or broker with SIGKILL."""
        assert self._bus is not None
        self._children.forget(self._bus)

    def load(self, *per_s: float) -> None:
        """Set the callers' attempts per second."""
        for caller, rate in zip(self.callers, per_s, strict=True):
            caller.rate(rate)

    def set_rate(self, rate: float | None, burst: float | None = None) -> float:
        """Change the group's limit; return when the API had answered.

        Args:
            rate: Units/s; None for no limit.
            burst: Units; by default as many as in a second.
        """
        limit: dict[str, object] = {"dimension": "requests", "rate": "unlimited"}
        if rate is not None:
            limit |= {"rate": rate, "burst": max(rate, 1.0) if burst is None else burst}
        with Rest(self.url) as rest:
            rest.call("PATCH", "/api/v1/groups/g", body={"limits": [limit]})
        return time.monotonic()

    def put_inside(self, rate: float, burst: float) -> None:
        """Make the group part of another one with this limit."""
        limit = {"dimension": "requests", "rate": rate, "burst": burst}
        with Rest(self.url) as rest:
            rest.call("PUT", "/api/v1/groups/above", body={"limits": [limit]})
            rest.call("PATCH", "/api/v1/groups/g", body={"parent": "above"})

    def remove_limit(self) -> None:
        """Leave the group without any limit."""
        limit = {"dimension": "requests", "rate": None}
        with Rest(self.url) as rest:
            rest.call("PATCH", "/api/v1/groups/g", body={"limits": [limit]})

    def watch(self, seconds: float) -> tuple[float, float]:
        """Let time pass; return its two ends on the monotonic clock."""
        since_s = time.monotonic()
        time.sleep(seconds)
        self._children.check()
        return since_s, time.monotonic()

    def spend_a_burst(
        self, rate: float, burst: float, *, settle_s: float = 3.0
    ) -> tuple[float, float]:
        """Let all callers want a full bucket at once.

        Args:
            rate: Units/s.
            burst: Units.
            settle_s: For how long to wait before, between changes, and to watch.

        Returns:
            By how many requests they exceeded what the bucket holds and earns, at
            worst; and what part of that they got.
        """
        self.load(*(5.0 for _ in self.callers))
        self.set_rate(1000.0, burst)
        self.watch(settle_s)  # the bucket is full
        self.set_rate(rate, burst)
        self.watch(settle_s)
        since_s = time.monotonic()
        self.load(*(10_000.0 for _ in self.callers))
        _, until_s = self.watch(settle_s)
        records = [caller.attempts(since_s, until_s) for caller in self.callers]
        at_ns = np.concatenate([one["at_ns"][one["admitted"] > 0] for one in records])
        passed_s = np.sort(at_ns) / 1e9 - since_s
        over = 1.0 + np.arange(len(passed_s)) - burst - rate * passed_s
        due = burst + rate * (until_s - since_s)
        return float(over.max()), len(passed_s) / due

    def admitted(self, since_s: float, until_s: float) -> list[int]:
        """Return what each caller got between two times."""
        return [caller.admitted(since_s, until_s) for caller in self.callers]


@pytest.fixture(params=["zeromq", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A running cluster on a bus; three callers without load."""
    if request.param == "kafka":
        try:
            check_bus("kafka")
        except Failure as failure:
            pytest.skip(str(failure))
    with Children() as children:
        one = Cluster(children, tmp_path, request.param)
        one.start()
        yield one


@pytest.fixture
def headgate(
    server: Addresses,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Callable[..., tuple[int, str, str]]:
    """Run the command against the server; return exit code, stdout and stderr."""
    monkeypatch.setenv("HEADGATE_URL", server.api)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
