"""What every bus does with a message that arrived: it counts, ages and queues it.

The queue between the thread that hears messages and the one that reads them is
bounded in number and in bytes.  The oldest make room, because a newer report says
everything that they said.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.agent.bus.port import MAX_BATCH, MAX_WAITING, MAX_WAITING_BYTES, Message

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from headgate.agent.bus.envelope import Envelope, Returns


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message on its way to the reader.

    Attributes:
        arrived_s: When it was put here, on the monotonic clock.
        envelope: What was sent beside it, if anything was.
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


class Receiver:
    """Hands out messages that are not too old, and measures how long own ones took.

    Args:
        returns: Notified of each message that came back.
        counters: Counters of the bus; ``received``, ``dropped_old`` and
            ``dropped_unread`` are counted here.
        max_age_s: Older messages are dropped.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        returns: Returns,
        counters: Counter[str],
        max_age_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._returns = returns
        self._counters = counters
        self._max_age_s = max_age_s
        self._clock = clock
        self._inbox = Inbox()

    def put(self, arrival: Arrival) -> None:
        """Queue a message for `receive`; from any thread."""
        self._counters["dropped_unread"] += self._inbox.put(arrival)

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what is queued, waiting up to `timeout_s` for the first message."""
        taken = map(self.accept, self._inbox.take(timeout_s))
        return [message for message in taken if message is not None]

    def accept(self, arrival: Arrival) -> Message | None:
        """Return the message of an arrival, None when it is too old by now."""
        if arrival.envelope is not None:
            self._returns.heard(arrival.envelope, arrival.arrived_s)
        waited_s = self._clock() - arrival.arrived_s
        if arrival.message.age_s + waited_s > self._max_age_s:
            self._counters["dropped_old"] += 1
            return None
        self._counters["received"] += 1
        return arrival.message
