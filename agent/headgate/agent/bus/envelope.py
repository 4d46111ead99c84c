"""What a bus sends along with a payload, so that readers can tell age and lag.

ZeroMQ carries the envelope as a frame of its own, Kafka as a record header named
``headgate``; the payload itself stays a plain report.  24 bytes, big-endian::

    origin   8 bytes   random, new each time a bus is opened
    number   uint64    of the message from this origin, from 1
    sent_us  int64     sender's clock, microseconds

That clock is the wall clock when the bus was opened, plus the time since then (see
`steady_s`): setting a host's wall clock makes no message old.  Clocks differ between
hosts, so the age of a message is how much longer it took than the fastest recent one
from the same origin.
"""

from __future__ import annotations

import os
import struct
import time
from collections import OrderedDict
from dataclasses import dataclass

from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

_LAYOUT = struct.Struct(">8sQq")

HEADER = "headgate"
"""Name of the Kafka header that carries the envelope."""

MAX_ORIGINS = 4_096
"""Senders whose delay is remembered; the one silent for longest is forgotten first."""

MAX_OUTSTANDING = 256
"""Own messages whose return is awaited; while a bus is down, none returns."""

WINDOW_S = 10.0
"""How long the fastest delay is kept, at least; after at most twice this time, a sender
whose clock was set forward and back is believed again."""

LAG_WEIGHT = 0.2
"""Weight of a return that is faster than the measured lag.  A slower one has half the
weight at once: noticing a slow bus late costs quota, noticing a fast one late costs
only some caution."""

LAG_WEIGHT_RISING = 0.5
"""See `LAG_WEIGHT`."""


def steady_s() -> float:
    """Return seconds on a clock that nobody sets and that goes on while a host sleeps.

    A monotonic clock stands still meanwhile, which would make all later messages old.
    Where there is no such clock (macOS), it has to do.
    """
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The origin of a message, and when it was sent.

    Attributes:
        origin: 8 random bytes.
        number: Number of the message, counted per origin.
        sent_s: Sender's clock, seconds.
    """

    origin: bytes
    number: int
    sent_s: float

    def pack(self) -> bytes:
        """Return the 24 bytes."""
        return _LAYOUT.pack(self.origin, self.number, round(self.sent_s * 1e6))

    @staticmethod
    def unpack(packed: bytes) -> Envelope | None:
        """Return the envelope in `packed`, or None if it is not one."""
        if len(packed) != _LAYOUT.size:
            return None
        origin, number, sent_us = _LAYOUT.unpack(packed)
        return Envelope(origin, number, sent_us / 1e6)


class Ages:
    """How old messages are, judged by each origin's fastest recent delay."""

    def __init__(self) -> None:
        self._delays: OrderedDict[bytes, tuple[float, float, float]] = OrderedDict()

    def age_s(self, origin: bytes, *, sent_s: float, received_s: float) -> float:
        """Return how much longer a message took than the fastest one, seconds."""
        delay = received_s - sent_s
        began, before, now = self._delays.pop(origin, (received_s, delay, delay))
        if not 0.0 <= received_s - began <= WINDOW_S:
            began, before, now = received_s, now, delay
        now = min(now, delay)
        self._delays[origin] = (began, before, now)
        if len(self._delays) > MAX_ORIGINS:
            self._delays.popitem(last=False)
        return delay - min(before, now)


class Returns:
    """Numbers this bus's own messages, and measures how long they take to come back.

    Only the thread that owns the bus writes; any thread may ask for `lag`.
    """

    def __init__(self) -> None:
        self.origin = os.urandom(8)
        self._wall_less_steady_s = time.time() - steady_s()
        self._number = 0
        self._outstanding: OrderedDict[int, float] = OrderedDict()
        self._oldest_s: float | None = None
        self._lag_s = 0.0

    def age_s(self, envelope: Envelope) -> float:
        """Return how long ago an own message was published, seconds."""
        return self._wall_less_steady_s + steady_s() - envelope.sent_s

    def number(self, now_s: float) -> Envelope:
        """Return the envelope of a message that is published at `now_s`, monotonic."""
        self._number += 1
        self._outstanding[self._number] = now_s
        if len(self._outstanding) > MAX_OUTSTANDING:
            self._outstanding.popitem(last=False)
        if self._oldest_s is None:
            self._oldest_s = now_s
        sent_s = self._wall_less_steady_s + steady_s()
        return Envelope(self.origin, self._number, sent_s)

    def heard(self, envelope: Envelope, now_s: float) -> None:
        """Note a message that came out of the bus; only own ones are measured."""
        if envelope.origin != self.origin:
            return
        published_s = self._outstanding.get(envelope.number)
        if published_s is None:
            return
        # A bus keeps the order of one sender, so older messages were lost.
        for number in list(self._outstanding):
            if number > envelope.number:
                break
            del self._outstanding[number]
        self._oldest_s = next(iter(self._outstanding.values()), None)
        took_s = max(now_s - published_s, 0.0)
        rising = took_s > self._lag_s
        weight = LAG_WEIGHT_RISING if rising else LAG_WEIGHT
        first = self._lag_s == 0.0
        self._lag_s = took_s if first else self._lag_s + weight * (took_s - self._lag_s)

    def lag(self, now_s: float) -> float:
        """Return the measured lag, or how long the oldest message has been missing."""
        oldest_s = self._oldest_s
        if oldest_s is None:
            return self._lag_s
        return max(self._lag_s, now_s - oldest_s)


def payload_fits(payload: bytes) -> bool:
    """Return whether `payload` is neither empty nor too large for a bus."""
    return 0 < len(payload) <= MAX_PAYLOAD_BYTES
