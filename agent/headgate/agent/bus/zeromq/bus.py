"""The embedded bus: agents publish to a proxy, which sends to all of them.

::

    agent  XPUB ──connect──▶ XSUB ┐
                             proxy│ (runs in `headgate up`)
    agent   SUB ──connect──▶ XPUB ┘

The agent's side is XPUB rather than PUB because XPUB hears the proxy's subscription.
So the agent knows when a message would reach anyone, and until then holds back the
newest few instead of losing its first report (ZeroMQ's "slow joiner").

Pitfalls avoided here.  A slow subscriber keeps the *oldest* messages, twice the
high-water mark of them; hence small marks and an age check.  XPUB_NODROP lets one slow
reader stall everyone; CONFLATE is per socket and would keep one report of one agent.
Without IMMEDIATE a publisher queues reports while the proxy is away and floods the
others with them when it returns.

With several proxies, an agent connects to all of them.  Duplicate reports do no harm,
because counters are cumulative.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from math import ceil
from typing import TYPE_CHECKING

import zmq

from headgate.agent.bus.envelope import (
    Ages,
    Envelope,
    Returns,
    payload_fits,
    steady_s,
)
from headgate.agent.bus.inbox import Arrival, Receiver
from headgate.agent.bus.port import MAX_BATCH, BusSettings, Message, Unpartitioned
from headgate.agent.bus.zeromq.curve import Handshakes, with_own_key
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.json_place import Json

SEND_HIGH_WATER_MARK = 64
"""Own messages that wait for the proxy.  The agent sends one a second, or at most
twenty, so this is three seconds of the worst case."""

RECEIVE_HIGH_WATER_MARK = 500
"""Messages that wait for the reader: four seconds of a hundred agents.  ZeroMQ has
no bound in bytes; at PIP-82's size these are 60 MB."""

HELD_BACK = 4
"""Newest own messages kept while there is no proxy; see the module docstring."""

HOLD_S = 1.0
"""Messages held back for longer are out of date."""

RECONNECT_MS = 50
"""First pause before reconnecting."""

RECONNECT_MAX_MS = 500
"""Longest such pause: reports flow again within half a second of the proxy's return."""

HEARTBEAT_MS = 1_000
"""How often a connection is probed, so that a frozen proxy is noticed."""

HEARTBEAT_TIMEOUT_MS = 3_000
"""Silence after which a connection is replaced."""

LINGER_MS = 200
"""How long `close` waits for the last report to go out."""

HANDSHAKE_MS = 2_000
"""Longest handshake; a proxy that doesn't answer is tried again."""

_FRAMES = 2
"""Envelope and payload."""

_TO_ALL, _NO_MORE = b"\x01", b"\x00"
"""What an XPUB hears when the first subscription to all messages begins, and when the
last one ends; one to a prefix has it appended."""


class ZeroMQBus(Unpartitioned):
    """A connection to one or more proxies; see `headgate.agent.bus.port.Bus`.

    Attributes (of `BusSettings.options`): any ZeroMQ socket option by its name in
    lower case, such as ``curve_serverkey`` or ``rcvhwm``; set on both sockets.  For
    keys see `headgate.agent.bus.zeromq.curve`.
    """

    def __init__(self, settings: BusSettings) -> None:
        self._counters: Counter[str] = Counter()
        options = with_own_key(settings.options)
        shown = str(options.get("curve_publickey", ""))
        self._handshakes = Handshakes(shown, self._counters)
        self._poller = zmq.Poller()
        try:
            self._context = zmq.Context[zmq.Socket[bytes]]()
            self._connect(settings, options)
        except zmq.ZMQError as error:  # such as too many open files
            raise BusUnavailable(f"zeromq: {error}") from None
        self._subscribed = False
        self._held_back: deque[tuple[Envelope, bytes]] = deque(maxlen=HELD_BACK)
        self._returns = Returns()
        self._receiver = Receiver(self._returns, self._counters, settings.max_age_s)
        self._ages = Ages()

    @property
    def counters(self) -> Mapping[str, int]:
        """See `Bus.counters`."""
        return self._counters

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """See `Bus.publish`; held back while no proxy is there."""
        if not payload_fits(payload):
            self._counters["dropped_too_large"] += 1
            return False
        envelope = self._returns.number(time.monotonic())
        self._hear_subscriptions()
        if self._subscribed:
            return self._send(envelope, payload)
        if len(self._held_back) == HELD_BACK:
            self._counters["dropped_down"] += 1
        self._held_back.append((envelope, payload))
        return True

    def receive(self, timeout_s: float) -> list[Message]:
        """See `Bus.receive`."""
        deadline_s = time.monotonic() + max(timeout_s, 0.0)
        # Rounded up: a fraction of a millisecond must not become a busy loop.
        first = self._poller.poll(ceil(max(timeout_s, 0.0) * 1e3))
        if not first and not self._handshakes.retries:
            return []  # the usual case in an idle agent, twenty times a second
        messages: list[Message] = []
        ready = dict(first)
        while True:
            self._handshakes.hear(time.monotonic(), ready)
            if self._out in ready:
                self._hear_subscriptions()
            if self._in in ready:
                self._drain(messages)
            left_s = deadline_s - time.monotonic()
            if messages or not ready or left_s <= 0.0:
                return messages
            ready = dict(self._poller.poll(ceil(left_s * 1e3)))

    def lag(self) -> float:
        """See `Bus.lag`."""
        return self._returns.lag(time.monotonic())

    def close(self) -> None:
        """See `Bus.close`."""
        self._context.destroy(linger=LINGER_MS)

    def _connect(self, settings: BusSettings, options: Mapping[str, Json]) -> None:
        """Make both sockets, or none."""
        try:
            self._out = self._socket(zmq.XPUB, options)
            self._in = self._socket(zmq.SUB, options)
            self._in.setsockopt(zmq.SUBSCRIBE, b"")
            connect(self._out, settings.publish)
            connect(self._in, settings.subscribe)
        except Exception:
            self._context.destroy(linger=0)  # else its end waits for the sockets
            raise

    def _socket(self, kind: int, options: Mapping[str, Json]) -> zmq.Socket[bytes]:
        """Return a socket with the settings above, overridden by the operator's."""
        socket = self._context.socket(kind)
        defaults = {
            zmq.SNDHWM: SEND_HIGH_WATER_MARK,
            zmq.RCVHWM: RECEIVE_HIGH_WATER_MARK,
            zmq.IMMEDIATE: 1,
            zmq.RECONNECT_IVL: RECONNECT_MS,
            zmq.RECONNECT_IVL_MAX: RECONNECT_MAX_MS,
            zmq.HEARTBEAT_IVL: HEARTBEAT_MS,
            zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_TIMEOUT_MS,
            zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
            zmq.LINGER: LINGER_MS,
        }
        for option, number in defaults.items():
            socket.setsockopt(option, number)
        for name, value in options.items():
            set_option(socket, name, value)
        for polled in (socket, self._handshakes.watch(socket)):
            self._poller.register(polled, zmq.POLLIN)
        return socket

    def _hear_subscriptions(self) -> None:
        """Note whether a proxy is there, and send what was held back for it."""
        while True:
            try:
                notice = self._out.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            if notice in (_TO_ALL, _NO_MORE):  # a listener may subscribe to less
                self._subscribed = notice == _TO_ALL
        while self._subscribed and self._held_back:
            envelope, payload = self._held_back.popleft()
            if self._returns.age_s(envelope) <= HOLD_S:
                self._send(envelope, payload)
            else:
                self._counters["dropped_down"] += 1

    def _send(self, envelope: Envelope, payload: bytes) -> bool:
        """Send one message, or drop it when the queue is full."""
        try:
            self._out.send_multipart([envelope.pack(), payload], zmq.NOBLOCK)
        except zmq.Again:
            self._counters["dropped_full"] += 1
            return False
        self._counters["published"] += 1
        return True

    def _drain(self, messages: list[Message]) -> None:
        """Take up to a batch of waiting messages; drop old and malformed ones."""
        for _ in range(MAX_BATCH):
            try:
                frames = self._in.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            envelope = Envelope.unpack(frames[0]) if len(frames) == _FRAMES else None
            if envelope is None:
                self._counters["dropped_malformed"] += 1
                continue
            age_s = self._ages.age_s(
                envelope.origin, sent_s=envelope.sent_s, received_s=steady_s()
            )
            message = Message(frames[1], time.time(), age_s)
            arrival = Arrival(time.monotonic(), envelope, message)
            if self._receiver.accept(arrival) is not None:
                messages.append(message)


def connect(socket: zmq.Socket[bytes], addresses: tuple[str, ...]) -> None:
    """Connect to each address, without waiting for a peer.

    Raises:
        BusUnavailable: An address is invalid.
    """
    for address in addresses:
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise BusUnavailable(f"zeromq: {address}: {error}") from None


def set_option(socket: zmq.Socket[bytes], name: str, value: Json) -> None:
    """Set a ZeroMQ socket option by its name.

    Raises:
        BusUnavailable: There is no such option, or the value is wrong for it.
    """
    option = zmq.SocketOption.__members__.get(name.upper())
    if option is None:
        raise BusUnavailable(f"zeromq: there is no socket option {name!r}")
    if not isinstance(value, str | int):
        raise BusUnavailable(f"zeromq: {name}: expected a string or an integer")
    try:
        socket.setsockopt(option, value.encode() if isinstance(value, str) else value)
    except (zmq.ZMQError, TypeError, ValueError, OverflowError) as error:
        raise BusUnavailable(f"zeromq: {name}: {error}") from None
