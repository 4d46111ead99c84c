"""CURVE keys of the ZeroMQ bus: who may connect, who may not, and how both are told.

The proxy has a pair of keys, and whoever connects has one too.  An agent has to know
the proxy's public key (the API tells it) and to hold a secret key whose public part the
proxy knows (``curve_clients``).  ZeroMQ itself asks for no more than the first: without
``curve_clients`` whoever knows the proxy's public key may connect.

ZeroMQ is silent on the side of who is turned away, and where it was told so it does not
even try again.  `Handshakes` hears how each connection begins, says in one line why one
does not, and has it tried again: a proxy may come back with other keys.
"""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.json_place import Json

log = logging.getLogger("headgate.bus")

PROXY_KEYS = "curve-proxy.json"
"""In the folder of keys: options of the proxy; secret, on its host only."""

AGENT_KEY = "curve.key"
"""In the folder of keys: what agents show; secret, on their hosts."""

CLIENTS = "curve_clients"
"""Option of the proxy: public keys of those who may connect, or ``{"file": …}`` with
the list or the proxy's options in it, which is read anew when it changes."""

RETRY_S = 5.0
"""Pause before who was turned away knocks again."""

CLOSED_IN_A_ROW = 3
"""Connections that ended amid the handshake before that is said to be the keys' fault:
a proxy that is just going down ends one so, too."""

_HELLO_ENDED = (errno.EPIPE, errno.ECONNRESET)
"""The other side hung up; a proxy that stands still is EAGAIN."""

_ASK = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks, by its specification (RFC 27)."""

_KEY = 6
"""The frame of a question that holds the client's public key."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """What a folder of keys means for the two sides.

    Attributes:
        proxy: Options of the proxy; secret.
        agents: Options that agents are told; the secret in them is named as a file.
    """

    proxy: Mapping[str, Json]
    agents: Mapping[str, Json]

    @staticmethod
    def read(folder: Path) -> CurveKeys:
        """Return what `headgate bus keys curve` left in `folder`.

        Raises:
            BusUnavailable: A file can't be read, holds something else, or would let
                in whoever knows the proxy's public key.
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
                f"{path}: expected curve_server 1 and {CLIENTS}, the public keys of "
                "who may connect; make keys anew with `headgate bus keys curve`, in "
                "another folder"
            )
        if own not in client_keys(proxy[CLIENTS]):
            raise BusUnavailable(f"{key}: {path} does not let this key in")
        proxy = dict(followed(proxy, path))
        agents: dict[str, Json] = {
            "curve_serverkey": public_key(secret, str(path)).decode(),
            "curve_secretkey": {"file": str(key)},
        }
        return CurveKeys(proxy, agents)


def public_key(secret: Json, name: str) -> bytes:
    """Return the public part of a secret key, both as 40 characters of Z85.

    Raises:
        BusUnavailable: It is no key; `name` says which.
    """
    with suppress(zmq.ZMQError, AttributeError, TypeError, ValueError):
        return zmq.curve_public(cast("str", secret).encode("ascii"))
    raise BusUnavailable(f"{name}: expected a secret key of 40 characters")


def client_keys(value: Json) -> frozenset[bytes]:
    """Return the public keys, as Z85, that ``curve_clients`` names.

    Raises:
        BusUnavailable: It is no list of keys.
    """
    try:
        keys = frozenset(key.encode("ascii") for key in cast("list[str]", value))
        if isinstance(value, list) and all(len(z85.decode(key)) == 32 for key in keys):
            return keys
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise BusUnavailable(f"{CLIENTS}: expected a list of keys of 40 characters")


def followed(options: Mapping[str, Json], path: Path) -> Mapping[str, Json]:
    """Return the options that stand in a file so that its list of keys is followed."""
    if not isinstance(options.get(CLIENTS), list):
        return options
    return {**options, CLIENTS: {"file": str(path.absolute())}}


class KnownClients:
    """Whose keys a proxy knows; a file of them is read anew once it has changed.

    A file that can't be read leaves what was known before.

    Raises:
        BusUnavailable: `value` is no list of keys, and no such file.
    """

    def __init__(self, value: Json) -> None:
        self._file: Path | None = None
        self._read: tuple[int, ...] = ()
        if isinstance(value, dict) and isinstance(value.get("file"), str):
            self._file = Path(cast("str", value["file"]))
            self._known = self._keys(self._file)
        else:
            self._known = client_keys(value)

    def __contains__(self, key: bytes) -> bool:
        """Say whether a key, as Z85, is known now."""
        if self._file is not None:
            self._follow(self._file)
        return key in self._known

    def _follow(self, path: Path) -> None:
        try:
            if _version(path) == self._read:
                return
            self._known = self._keys(path)
        except (OSError, BusUnavailable) as error:
            log.warning("%s: going on with the keys of before: %s", CLIENTS, error)
        else:
            log.info("%s: %d keys are known now", CLIENTS, len(self._known))

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
    """Return what changes with a file."""
    now = path.stat()
    return now.st_mtime_ns, now.st_size, now.st_ino


def with_own_key(options: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the options of an agent, its public key derived from its secret one.

    Raises:
        BusUnavailable: The proxy asks for a key and there is none, or it is none.
    """
    if "curve_serverkey" not in options:
        return options
    if "curve_secretkey" not in options:
        raise BusUnavailable(
            "zeromq: the proxy asks for a CURVE key, and this agent has none: "
            "expected the option curve_secretkey"
        )
    public = public_key(options["curve_secretkey"], "curve_secretkey").decode()
    if options.get("curve_publickey", public) != public:
        raise BusUnavailable("curve_publickey: it does not belong to curve_secretkey")
    return {**options, "curve_publickey": public}


class Doorkeeper:
    """Tells a proxy whose keys are known, in a thread of its own."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], known: KnownClients
    ) -> None:
        """Answer the sockets of `context`, which must not be bound yet."""
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
        """Stop: from then on nobody gets in."""
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
    """How the connections of an agent begin; used by the thread that uses the bus.

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

    def watch(self, socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        """Follow a socket that is not connected yet; return what to poll for it."""
        events = (
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        )
        told = socket.get_monitor_socket(events, f"inproc://begins-{id(socket)}")
        self._watched[told] = socket
        return told

    def hear(self, now_s: float) -> None:
        """Take what happened; knock again where it is time to."""
        for told, socket in self._watched.items():
            while told.poll(0):
                event = recv_monitor_message(told)
                address = event["endpoint"].decode()
                self._note(socket, address, event["event"], event["value"], now_s)
        while self._again and self._again[0][0] <= now_s:
            _, socket, address = self._again.pop(0)
            with suppress(zmq.ZMQError):  # what is left of the connection, if anything
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
        """Take one event."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._closed[address] = 0
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:  # tried again by ZeroMQ
            self._closed[address] += value in _HELLO_ENDED
            if self._closed[address] < CLOSED_IN_A_ROW:
                return
        else:
            self._again.append((now_s + RETRY_S, socket, address))
        self._counters["refused"] += 1
        if not self._said:
            self._said = True
            log.warning(
                "refused: %s turns this agent away: %s", address, self._why(event)
            )

    def _why(self, event: int) -> str:
        """Return what is likely wrong."""
        if not self._own:
            return "it seems to ask for a CURVE key, and this agent has none"
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return f"it does not know its CURVE key {self._own}"
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return "it has no CURVE keys, and this agent asks for some"
        return "curve_serverkey does not seem to be its public key"
