"""A bus within one process, for tests and for a single process.

Every bus that joins the same hub hears what any of them publishes.  A hub can be set
to be down, so that the contract of a real bus can be tried without one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

from headgate.agent.bus.envelope import Envelope, Returns, payload_fits
from headgate.agent.bus.inbox import Arrival, Receiver
from headgate.agent.bus.port import DEFAULT_MAX_AGE_S, Message, Unpartitioned

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemoryHub:
    """Where the buses of one topic meet.

    Attributes:
        down: Messages that are published while this is true are lost.
    """

    _named: ClassVar[WeakValueDictionary[str, MemoryHub]] = WeakValueDictionary()
    _naming: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.down = False
        self._members: list[MemoryBus] = []
        self._lock = threading.Lock()

    @staticmethod
    def named(name: str) -> MemoryHub:
        """Return the hub of this name; it lives as long as anyone refers to it."""
        with MemoryHub._naming:
            hub = MemoryHub._named.get(name)
            if hub is None:
                hub = MemoryHub._named[name] = MemoryHub()
            return hub

    def join(self, max_age_s: float = DEFAULT_MAX_AGE_S) -> MemoryBus:
        """Return a new member."""
        bus = MemoryBus(self, max_age_s)
        with self._lock:
            self._members.append(bus)
        return bus

    def leave(self, bus: MemoryBus) -> None:
        """Forget a member."""
        with self._lock:
            if bus in self._members:
                self._members.remove(bus)

    def carry(self, envelope: Envelope, payload: bytes) -> bool:
        """Deliver a message to all members, the sender included."""
        if self.down:
            return False
        with self._lock:
            members = list(self._members)
        for member in members:
            member.deliver(envelope, payload)
        return True


class MemoryBus(Unpartitioned):
    """A member of a `MemoryHub`; see `headgate.agent.bus.port.Bus`."""

    def __init__(self, hub: MemoryHub, max_age_s: float) -> None:
        self._hub = hub
        self._returns = Returns()
        self._counters: Counter[str] = Counter()
        self._receiver = Receiver(self._returns, self._counters, max_age_s)

    @property
    def counters(self) -> Mapping[str, int]:
        """See `Bus.counters`."""
        return self._counters

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """See `Bus.publish`."""
        if not payload_fits(payload):
            self._counters["dropped_too_large"] += 1
            return False
        envelope = self._returns.number(time.monotonic())
        if not self._hub.carry(envelope, payload):
            self._counters["dropped_down"] += 1
            return False
        self._counters["published"] += 1
        return True

    def deliver(self, envelope: Envelope, payload: bytes) -> None:
        """Receive a message from the hub; called by the sender's thread."""
        message = Message(payload, time.time())
        self._receiver.put(Arrival(time.monotonic(), envelope, message))

    def receive(self, timeout_s: float) -> list[Message]:
        """See `Bus.receive`."""
        return self._receiver.receive(timeout_s)

    def lag(self) -> float:
        """See `Bus.lag`."""
        return self._returns.lag(time.monotonic())

    def close(self) -> None:
        """See `Bus.close`."""
        self._hub.leave(self)
