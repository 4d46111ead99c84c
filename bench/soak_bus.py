"""The bus of a soak, in a process of its own, killed and started again now and then.

ZeroMQ without or with CURVE keys (a proxy), or a Kafka broker.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.kafka_broker import Broker  # noqa: E402 - the folder of the repository

from headgate.agent.bus.kafka.topic import ensure_topic  # noqa: E402
from headgate.agent.bus.port import BusSettings  # noqa: E402
from headgate.agent.bus.zeromq.curve import PROXY_KEYS, CurveKeys  # noqa: E402
from headgate.cli.commands.bus_keys import make_keys  # noqa: E402
from headgate.cli.options.bus_address import parse_bus  # noqa: E402

if TYPE_CHECKING:
    import random

    from headgate.cli.process.children import Child, Children

BUSES = "zeromq", "curve", "kafka"
START_S = 120.0
AWAY_S = (0.5, 8.0)
"""A bus that was killed is started again after a time between these."""


class Middle(Protocol):
    """The bus that carries the reports.

    Attributes:
        address: As `headgate up --bus` takes it.
    """

    address: str

    def start(self) -> None:
        """Start it, at the same address as before."""
        ...

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        ...

    def close(self) -> None:
        """End it and clean up."""
        ...


class Proxy:
    """`headgate bus proxy`; with `keys`, agents get theirs from a bus section."""

    def __init__(self, folder: Path, children: Children, *, keys: bool) -> None:
        self._folder, self._children = folder, children
        self._child: Child | None = None
        self._options: list[str] = []
        if keys:
            make_keys("curve", folder / "keys", ())
            self._options = ["--options", str(folder / "keys" / PROXY_KEYS)]
        self._ports = "0", "0"
        self.start()
        told = (folder / "bus.ready").read_text(encoding="utf-8").strip()
        front, back = told.rpartition(":")[2].split("/")
        self._ports = front, back
        self.address = _section(told, folder) if keys else told

    def start(self) -> None:
        """See `Middle`."""
        ready = self._folder / "bus.ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headgate.cli", "bus", "proxy"]
        command += ["--reports-port", self._ports[0], "--subscribe-port"]
        command += [self._ports[1], "--ready-file", str(ready), *self._options]
        log = self._folder / "bus.log"
        self._child = self._children.start("the bus", command, log=log, talks=False)
        if self._ports == ("0", "0"):
            self._child.file(ready, START_S)

    def kill(self) -> None:
        """See `Middle`."""
        if self._child is not None:
            self._children.forget(self._child)
            self._child = None

    def close(self) -> None:
        """Do nothing: it ends with the other children."""


class Kafka:
    """A broker of its own."""

    def __init__(self, folder: Path) -> None:
        self._broker = Broker(folder / "kafka")
        self._broker.start()
        self.address = f"kafka://{self._broker.bootstrap}"
        ensure_topic(BusSettings(kind="kafka", bootstrap=self._broker.bootstrap))

    def start(self) -> None:
        """See `Middle`; waits until it answers."""
        self._broker.start()

    def kill(self) -> None:
        """See `Middle`."""
        self._broker.stop(kill=True)

    def close(self) -> None:
        """End it, and delete its data."""
        self._broker.__exit__()


def _section(address: str, folder: Path) -> str:
    """Write the bus section, with the keys that agents need."""
    bus = parse_bus(address)
    assert bus is not None, "it is not the embedded one"
    told = {"kind": "zeromq", "publish": bus.publish, "subscribe": bus.subscribe}
    options = dict(CurveKeys.read(folder / "keys").agents)
    path = folder / "bus.json"
    path.write_text(json.dumps({**told, "options": options}), encoding="utf-8")
    return str(path)


def open_middle(kind: str, folder: Path, children: Children) -> Middle:
    """Start a bus of one of `BUSES`."""
    if kind == "kafka":
        return Kafka(folder)
    return Proxy(folder, children, keys=kind == "curve")


@dataclass(slots=True)
class Killer:
    """Kills a bus at random and starts it again.

    Attributes:
        middle: The bus.
        every_s: Mean time between two kills; 0 for never.
        chance: Source of the times.
        kills: Kills so far.
    """

    middle: Middle
    every_s: float
    chance: random.Random
    kills: int = 0
    _next_s: float = field(default=math.inf)
    _away: bool = False

    def begin(self) -> None:
        """Start the time to the first kill."""
        if self.every_s:
            wait_s = self.chance.expovariate(1 / self.every_s)
            self._next_s = time.monotonic() + wait_s

    def look(self) -> None:
        """Kill or start it, if it is time."""
        if time.monotonic() < self._next_s:
            return
        if self._away:
            self._away = False
            self.middle.start()
            self.begin()
        else:
            self._away = True
            self.kills += 1
            self.middle.kill()
            self._next_s = time.monotonic() + self.chance.uniform(*AWAY_S)

    def end(self) -> None:
        """Stop killing it; start it if it is down."""
        self._next_s = math.inf
        if self._away:
            self._away = False
            self.middle.start()
