"""The bounded queue between a thread that hears messages and the one that reads.

Bounded in number and in bytes; the oldest give way, because a newer report says
all that they said.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.agent.bus.port import MAX_BATCH, MAX_WAITING, MAX_WAITING_BYTES, Message

if TYPE_CHECKING:
    from headgate.agent.bus.envelope import Envelope


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message on its way to the reader.

    Attributes:
        arrived_s: When it was put here, on the monotonic clock.
        envelope: What stood beside it, if anything did.
        message: What the reader gets.
    """

    arrived_s: float
    envelope: Envelope | None
    message: Message


class Inbox:
    """A queue for any number of writers and one reader."""

    def __init__(self) -> None:
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, arrival: Arrival) -> int:
        """Add an arrival; return how many older ones had to give way."""
        dropped = 0
        with self._changed:
            self._waiting.append(arrival)
            self._bytes += len(arrival.message.payload)
            while len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
                self._bytes -= len(self._waiting.popleft().message.payload)
                dropped += 1
            self._changed.notify()
        return dropped

    def take(self, timeout_s: float) -> list[Arrival]:
        """Return up to a batch of arrivals, waiting for the first one."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(max(timeout_s, 0.0))
            count = min(len(self._waiting), MAX_BATCH)
            batch = [self._waiting.popleft() for _ in range(count)]
            self._bytes -= sum(len(arrival.message.payload) for arrival in batch)
        return batch
