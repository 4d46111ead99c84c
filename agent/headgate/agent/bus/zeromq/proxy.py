"""The middle of the ZeroMQ bus: takes every agent's reports and sends them to all.

It stores nothing and knows nothing about reports; a restart loses only what is in
flight.  `headgate up` runs one in a thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import zmq

from headgate.agent.bus.zeromq.bus import set_option
from headgate.agent.bus.zeromq.curve import CLIENTS, Doorkeeper, KnownClients
from headgate.agent.errors import BusUnavailable
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.json_place import Json

SUBSCRIBER_HIGH_WATER_MARK = 500
"""Messages that wait for one agent; only a slow agent loses its own."""

PUBLISHER_HIGH_WATER_MARK = 1_000
"""Messages of one agent that wait for the proxy."""

STOP_TIMEOUT_S = 5.0
"""Longest wait for the thread to end; it has nothing to finish."""


class ZeroMQProxy:
    """A proxy between agents, in a thread of its own.

    Args:
        publish: Where agents send; port ``*`` means any free one.
        subscribe: Where agents listen.
        options: ZeroMQ socket options by name, for both sides; for CURVE
            ``{"curve_server": 1, "curve_secretkey": …, "curve_clients": [key, …]}``,
            where the last are the public keys that may connect, or ``{"file": …}``
            holding them, reread when it changes.

    Attributes:
        publish_address: The address with its actual port.
        subscribe_address: The address with its actual port.

    Raises:
        BusUnavailable: An address can't be bound, or an option is wrong.
    """

    def __init__(
        self,
        *,
        publish: str = "tcp://127.0.0.1:*",
        subscribe: str = "tcp://127.0.0.1:*",
        options: Mapping[str, Json] | None = None,
    ) -> None:
        asked, known = _doors(options or {})
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._doorkeeper = None if known is None else Doorkeeper(self._context, known)
        self._front = self._context.socket(zmq.XSUB)
        self._back = self._context.socket(zmq.XPUB)
        self._front.setsockopt(zmq.RCVHWM, PUBLISHER_HIGH_WATER_MARK)
        # Set here, not at the agents: an oversized message must cost its sender the
        # connection, not every reader.
        self._front.setsockopt(zmq.MAXMSGSIZE, MAX_PAYLOAD_BYTES)
        self._back.setsockopt(zmq.SNDHWM, SUBSCRIBER_HIGH_WATER_MARK)
        try:
            for name, value in asked.items():
                set_option(self._front, name, value)
                set_option(self._back, name, value)
            self.publish_address = _bind(self._front, publish)
            self.subscribe_address = _bind(self._back, subscribe)
        except BusUnavailable:
            self._close_context()
            raise
        stopper = f"inproc://stop-{id(self)}"
        self._stop = self._context.socket(zmq.PAIR)
        self._stop.bind(stopper)
        self._stopped = self._context.socket(zmq.PAIR)
        self._stopped.connect(stopper)
        self._thread = threading.Thread(
            target=self._run, name="headgate-proxy", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop, and free both ports; may be called twice."""
        if self._thread.is_alive():
            self._stop.send(b"TERMINATE")
            self._thread.join(STOP_TIMEOUT_S)
        self._close_context()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_context(self) -> None:
        """Close all sockets, once nothing waits on them."""
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        """Carry messages both ways (subscriptions go upstream) until stopped."""
        zmq.proxy_steerable(self._front, self._back, None, self._stopped)


def _doors(
    options: Mapping[str, Json],
) -> tuple[dict[str, Json], KnownClients | None]:
    """Return ZeroMQ's options, and which keys may connect; None if all may."""
    rest = {name: value for name, value in options.items() if name != CLIENTS}
    if CLIENTS not in options:
        return rest, None
    if "curve_secretkey" not in options or not options.get("curve_server"):
        raise BusUnavailable(
            f"{CLIENTS}: expected curve_server and curve_secretkey as well"
        )
    return rest, KnownClients(options[CLIENTS])


def _bind(socket: zmq.Socket[bytes], address: str) -> str:
    """Bind, and return the actual address."""
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        raise BusUnavailable(f"zeromq: {address}: {error}") from None
    endpoint = socket.getsockopt(zmq.LAST_ENDPOINT)
    return bytes(endpoint).rstrip(b"\0").decode()
