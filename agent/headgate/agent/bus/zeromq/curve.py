"""CURVE keys of the ZeroMQ bus: who may connect, and how a refusal is made visible.

The proxy has a key pair, and so does each agent.  An agent must know the proxy's public
key (the API sends it) and hold a secret key whose public half the proxy knows
(``curve_clients``).  ZeroMQ itself asks only for the first: without ``curve_clients``,
anyone who knows the proxy's public key may connect.

ZeroMQ doesn't report to a client that it was turned away, and after an explicit refusal
doesn't even try again.  `Handshakes` watches how each connection begins, logs in one
line why one fails, and retries it: a proxy may come back with other keys.
"""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, cast

import zmq
from zmq.utils import z85

from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from headgate.agent.json_place import Json

log = logging.getLogger("headgate.bus")

PROXY_KEYS = "curve-proxy.json"
"""File in the folder of keys: the proxy's options; secret, for its host only."""

AGENT_KEY = "curve.key"
"""File in the folder of keys: the agents' secret key, for their hosts."""

CLIENTS = "curve_clients"
"""Option of the proxy: the public keys that may connect, or ``{"file": …}`` holding the
list or the proxy's options, reread when it changes."""

RETRY_S = 5.0
"""Pause before a refused connection is retried."""

CLOSED_IN_A_ROW = 3
"""Connections that break during the handshake before the keys are blamed: a proxy that
is shutting down breaks one the same way."""

_HELLO_ENDED = (errno.EPIPE, errno.ECONNRESET)
"""The other side hung up; a proxy that hangs gives EAGAIN instead."""

_EVENT = Struct("=HI")
"""An event and its value, in the first frame that a monitor socket sends."""

_ASK = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks for authentication, by its specification (RFC 27)."""

_KEY = 6
"""The frame of a request that holds the client's public key."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """The options that a folder of keys gives the two sides.

    Attributes:
        proxy: Options of the proxy; secret.
        agents: Options sent to agents; they name the secret's file, not the secret.
    """

    proxy: Mapping[str, Json] = field(repr=False)
    agents: Mapping[str, Json]

    @staticmethod
    def read(folder: Path) -> CurveKeys:
        """Return the keys that `headgate bus keys curve` wrote to `folder`.

        Raises:
            BusUnavailable: A file can't be read, holds something else, or would let
                in anyone who knows the proxy's public key.
        """
        path = folder.absolute() / PROXY_KEYS
        try:
            proxy = cast("dict[str, Json]", json.loads(path.read_text("utf-8")))
            secret = proxy["curve_secretkey"]
            key = folder.absolute() / AGENT_KEY
            own = public_key(key.read_text("utf-8").strip(), AGENT_KEY)
        except OSError as error:
            raise BusUnavailable(f"{error.filename}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise BusUnavailable(f"{path}: expected the keys of a proxy") from None
        if not proxy.get("curve_server") or CLIENTS not in proxy:
            raise BusUnavailable(
                f"{path}: expected curve_server 1 and {CLIENTS}, the public keys that "
                "may connect; make new keys with `headgate bus keys curve` in "
                "another folder"
            )
        if own not in client_keys(proxy[CLIENTS]):
            raise BusUnavailable(f"{key}: expected a key listed in {CLIENTS} of {path}")
        proxy = dict(followed(proxy, path))
        agents: dict[str, Json] = {
            "curve_serverkey": public_key(secret, str(path)).decode(),
            "curve_secretkey": {"file": str(key)},
        }
        return CurveKeys(proxy, agents)


def public_key(secret: Json, name: str) -> bytes:
    """Return the public part of a secret key, both as 40 characters of Z85.

    Raises:
        BusUnavailable: It is not a key; the message begins with `name`.
    """
    with suppress(zmq.ZMQError, AttributeError, TypeError, ValueError):
        return zmq.curve_public(cast("str", secret).encode("ascii"))
    raise BusUnavailable(f"{name}: expected a secret key of 40 characters")


def client_keys(value: Json) -> frozenset[bytes]:
    """Return the public keys, as Z85, that ``curve_clients`` names.

    Raises:
        BusUnavailable: It is not a list of keys.
    """
    try:
        keys = frozenset(key.encode("ascii") for key in cast("list[str]", value))
        if isinstance(value, list) and all(len(z85.decode(key)) == 32 for key in keys):
            return keys
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise BusUnavailable(f"{CLIENTS}: expected a list of keys of 40 characters")


def followed(options: Mapping[str, Json], path: Path) -> Mapping[str, Json]:
    """Return the options in a file, set up so that its key list is followed."""
    if not isinstance(options.get(CLIENTS), list):
        return options
    return {**options, CLIENTS: {"file": str(path.absolute())}}


class KnownClients:
    """The client keys that a proxy accepts; a file of them is reread when it changes.

    While the file can't be read, the keys known before stay in force.

    Raises:
        BusUnavailable: `value` is neither a list of keys nor such a file.
    """

    def __init__(self, value: Json) -> None:
        self._file: Path | None = None
        self._read: tuple[int, ...] = ()
        self._failing = False
        if isinstance(value, dict) and isinstance(value.get("file"), str):
            self._file = Path(cast("str", value["file"]))
            self._known = self._keys(self._file)
        else:
            self._known = client_keys(value)

    def __contains__(self, key: bytes) -> bool:
        """Return whether a key, as Z85, is accepted now."""
        if self._file is not None:
            self._follow(self._file)
        return key in self._known

    def _follow(self, path: Path) -> None:
        try:
            if _version(path) != self._read:
                self._known = self._keys(path)
                log.info("%s: now accepting %d keys", CLIENTS, len(self._known))
            self._failing = False
        except (OSError, BusUnavailable) as error:
            if not self._failing:  # asked at each connection
                log.warning("%s: keeping the previous keys: %s", CLIENTS, error)
            self._failing = True

    def _keys(self, path: Path) -> frozenset[bytes]:
        try:
            version = _version(path)
            told = cast("Json", json.loads(path.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise BusUnavailable(f"{CLIENTS}: {path}: {error}") from None
        known = client_keys(told.get(CLIENTS) if isinstance(told, dict) else told)
        self._read = version
        return known


def _version(path: Path) -> tuple[int, ...]:
    """Return a value that differs whenever the file has changed."""
    now = path.stat()
    return now.st_mtime_ns, now.st_size, now.st_ino


def with_own_key(options: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the options of an agent, its public key derived from its secret one.

    Raises:
        BusUnavailable: The proxy asks for a key and there is none, or it is not a key.
    """
    if "curve_serverkey" not in options:
        return options
    if "curve_secretkey" not in options:
        raise BusUnavailable(
            "zeromq: the proxy requires a CURVE key, but this agent has none: "
            "expected the option curve_secretkey"
        )
    public = public_key(options["curve_secretkey"], "curve_secretkey").decode()
    if options.get("curve_publickey", public) != public:
        raise BusUnavailable(
            "curve_publickey: expected the public key that belongs to curve_secretkey"
        )
    return {**options, "curve_publickey": public}


class Doorkeeper:
    """Tells a proxy which client keys to accept, in a thread of its own."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], known: KnownClients
    ) -> None:
        """Answer for the sockets of `context`, which must not be bound yet."""
        self._known = known
        self._asked = context.socket(zmq.REP)
        self._asked.bind(_ASK)
        stopper = f"inproc://doorkeeper-{id(self)}"
        self._stop = context.socket(zmq.PAIR)
        self._stop.bind(stopper)
        self._stopped = context.socket(zmq.PAIR)
        self._stopped.connect(stopper)
        self._thread = threading.Thread(
            target=self._run, name="headgate-doorkeeper", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop; from then on nobody can connect."""
        if self._thread.is_alive():
            self._stop.send(b"")
            self._thread.join()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._asked, zmq.POLLIN)
        poller.register(self._stopped, zmq.POLLIN)
        while self._stopped not in dict(poller.poll()):
            version, request, *rest = self._asked.recv_multipart()
            question = [version, request, *rest]
            known = len(question) > _KEY and z85.encode(question[_KEY]) in self._known
            status = [b"200", b"welcome"] if known else [b"400", b"unknown key"]
            self._asked.send_multipart([version, request, *status, b"", b""])


class Handshakes:
    """How an agent's connections begin; used by the thread that uses the bus.

    Args:
        own: Public key that the agent shows; empty without one.
        counters: Counts ``refused``: connections that were turned away.
    """

    def __init__(self, own: str, counters: Counter[str]) -> None:
        self._own = own
        self._counters = counters
        self._watched: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
        self._closed: Counter[str] = Counter()
        self._again: list[tuple[float, zmq.Socket[bytes], str]] = []
        self._said = False

    @property
    def retries(self) -> bool:
        """Whether any connection must be retried."""
        return bool(self._again)

    def watch(self, socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        """Watch a socket that is not connected yet; return what to poll for it."""
        events = (
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        )
        told = socket.get_monitor_socket(events, f"inproc://begins-{id(socket)}")
        self._watched[told] = socket
        return told

    def hear(self, now_s: float, ready: Container[object]) -> None:
        """Handle the events so far; retry the connections that are due.

        Args:
            now_s: Monotonic seconds.
            ready: Which of the sockets that `watch` returned have something to read.
        """
        for told, socket in self._watched.items():
            while told in ready and told.poll(0):
                # pyzmq's own reader would import asyncio.
                numbers, where = told.recv_multipart()
                event, value = _EVENT.unpack(numbers)
                self._note(socket, where.decode(), event, value, now_s)
        while self._again and self._again[0][0] <= now_s:
            _, socket, address = self._again.pop(0)
            with suppress(zmq.ZMQError):  # the rest of the connection, if any
                socket.disconnect(address)
            try:
                socket.connect(address)
            except zmq.ZMQError:
                self._again.append((now_s + RETRY_S, socket, address))

    def _note(
        self,
        socket: zmq.Socket[bytes],
        address: str,
        event: int,
        value: int,
        now_s: float,
    ) -> None:
        """Handle one event."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._closed[address] = 0
            return
        if (
            event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        ):  # ZeroMQ tries again by itself
            self._closed[address] += value in _HELLO_ENDED
            if self._closed[address] < CLOSED_IN_A_ROW:
                return
        else:
            self._again.append((now_s + RETRY_S, socket, address))
        self._counters["refused"] += 1
        if not self._said:
            self._said = True
            log.warning("refused: %s rejects this agent: %s", address, self._why(event))

    def _why(self, event: int) -> str:
        """Return what is probably wrong."""
        if not self._own:
            return "it seems to require a CURVE key, but this agent has none"
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return f"it does not know this agent's CURVE key {self._own}"
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return "it has no CURVE keys, but this agent requires them"
        return "curve_serverkey does not seem to be its public key"
