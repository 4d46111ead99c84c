"""The three real parts behind the contract of a bus, and how to break each."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Protocol

from headgate.agent.bus.kafka.topic import ensure_topic
from headgate.agent.bus.memory import MemoryHub
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import Bus, BusSettings, Message
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.kafka_broker import Broker

PATIENCE_S = 30.0
"""How long a test waits for what must come; the machine may be busy."""

ECHO_S = 2.0
"""How long a bus is given to bring a message back before the next is sent."""

ACQUAINTED = 5
"""Number of messages; the fastest is fast however busy the machine is."""

_numbers = count()


class Rig(Protocol):
    """Something real that carries messages, and can be taken down."""

    settings: BusSettings

    def down(self) -> None:
        """Stop it."""
        ...

    def up(self) -> None:
        """Start it again, at the same address."""
        ...

    def close(self) -> None:
        """Leave it as it was found, for the next test."""
        ...


class MemoryRig:
    """A hub of this process."""

    def __init__(self) -> None:
        self.settings = BusSettings(kind="memory", topic=f"hub-{next(_numbers)}")
        self._hub = MemoryHub.named(self.settings.topic)

    def down(self) -> None:
        self._hub.down = True

    def up(self) -> None:
        self._hub.down = False

    def close(self) -> None:
        """A hub goes when nobody holds it."""


class ZeroMQRig:
    """A proxy on loopback."""

    def __init__(self) -> None:
        self._proxy = ZeroMQProxy()
        self._addresses = self._proxy.publish_address, self._proxy.subscribe_address
        self.settings = BusSettings(
            kind="zeromq",
            publish=(self._addresses[0],),
            subscribe=(self._addresses[1],),
        )

    def down(self) -> None:
        self._proxy.close()

    def up(self) -> None:
        publish, subscribe = self._addresses
        self._proxy = ZeroMQProxy(publish=publish, subscribe=subscribe)

    def close(self) -> None:
        self._proxy.close()


class KafkaRig:
    """A topic of its own on a broker that several tests share."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.settings = BusSettings(
            kind="kafka", bootstrap=broker.bootstrap, topic=f"usage-{next(_numbers)}"
        )
        ensure_topic(self.settings)

    def down(self) -> None:
        self._broker.stop()

    def up(self) -> None:
        if self._broker.pid is None:
            self._broker.start()

    def close(self) -> None:
        self.up()


def connected(settings: BusSettings) -> Bus:
    """Return a bus that has heard itself: from then on it misses nothing."""
    bus = open_bus(settings)
    until(lambda: _echo(bus), "the bus to hear itself")
    return bus


def acquainted(sender: Bus, reader: Bus) -> None:
    """Let `reader` learn how fast `sender` is: before that nothing of it is old."""
    heard = 0

    def often() -> bool:
        nonlocal heard
        sender.publish(b"how fast")
        heard += sum(m.payload == b"how fast" for m in reader.receive(0.2))
        return heard >= ACQUAINTED

    until(often, "the reader to know the sender")
    until(lambda: _echo(sender), "the sender to hear the last of them")
    while reader.receive(0.2):
        pass


def collect(bus: Bus, number: int) -> list[bytes]:
    """Return the next `number` payloads, in the order in which they came."""
    payloads: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(payloads) < number and time.monotonic() < deadline_s:
        payloads += [message.payload for message in bus.receive(0.2)]
    return payloads


def hear(bus: Bus, payload: bytes) -> Message:
    """Return the message with this payload; others are thrown away."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        for message in bus.receive(0.2):
            if message.payload == payload:
                return message
    raise AssertionError(f"{payload!r} did not come in {PATIENCE_S:g} s")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.01)


def _echo(bus: Bus) -> bool:
    """Publish, and return whether it comes back: then nothing else is on its way."""
    payload = f"echo {next(_numbers)}".encode()
    bus.publish(payload)
    deadline_s = time.monotonic() + ECHO_S
    while time.monotonic() < deadline_s:
        if any(message.payload == payload for message in bus.receive(0.1)):
            return True
    return False
