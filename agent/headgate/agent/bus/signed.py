"""A bus whose reports are signed; see `headgate.agent.wire.signing`.

Wraps any other bus: outgoing reports get a signature; incoming ones without a valid one
are dropped, counted, and logged once.  The signature is the last field of a report, or
the last before the checksum, which is recomputed to cover it.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from headgate.agent.errors import BusUnavailable
from headgate.agent.wire import checksum
from headgate.agent.wire.signing import Key, Keyring, Signer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bus.port import Bus, Message
    from headgate.agent.json_place import Json
    from headgate.agent.wire.signing import Verdict

log = logging.getLogger("headgate.bus")

OPTIONS = ("report_key", "report_keys", "report_unsigned")
"""The options of a bus that belong to this module."""

TAG = b"\x8a\x01"
"""Field 17, bytes; its length follows, in one byte because it is below 128."""


@dataclass(frozen=True, slots=True)
class Signing:
    """How a bus signs, and what it accepts.

    Attributes:
        signer: None if nothing is published, as in an observer.
        keyring: Whose reports are heard.
        accept_unsigned: Also hear reports without a signature, and count them: for
            while agents change over to signing, one by one.
    """

    signer: Signer | None
    keyring: Keyring
    accept_unsigned: bool = False

    @staticmethod
    def of(options: Mapping[str, Json]) -> Signing | None:
        """Return the settings in the options of a bus, None if reports are not signed.

        Options:
            report_key: Secret of this process, ``hmac:…`` or ``ed25519-secret:…``.
            report_keys: A list of further accepted keys (for all agents), or a
                mapping from an agent's id to its public key or keys.  The cluster's
                own key is always accepted.
            report_unsigned: true to accept unsigned reports too; false by default.

        Raises:
            BusUnavailable: One of them is wrong.
        """
        if not any(name in options for name in OPTIONS):
            return None
        own = options.get("report_key")
        if own is not None and not isinstance(own, str):
            raise BusUnavailable("report_key: expected a key as a string")
        key = None if own is None else Key.parse(own)
        cluster, agents = _accepted(options.get("report_keys"))
        if key is not None and key.scheme == "hmac":
            cluster.append(key)
        unsigned = options.get("report_unsigned", False)
        if not isinstance(unsigned, bool):
            raise BusUnavailable("report_unsigned: expected true or false")
        signer = None if key is None else Signer(key)
        return Signing(signer, Keyring(cluster, agents), unsigned)


class SignedBus:
    """A bus that signs and verifies; see `headgate.agent.bus.port.Bus`."""

    def __init__(self, bus: Bus, signing: Signing) -> None:
        self._bus = bus
        self._signing = signing
        self._counters: Counter[str] = Counter()
        self._said: set[str] = set()

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the wrapped bus, and those of signatures."""
        return {**self._bus.counters, **self._counters}

    @property
    def partitions(self) -> int:
        """See `Bus.partitions`."""
        return self._bus.partitions

    def read(self, partitions: frozenset[int]) -> None:
        """See `Bus.read`."""
        self._bus.read(partitions)

    def reads(self, partitions: frozenset[int]) -> bool:
        """See `Bus.reads`."""
        return self._bus.reads(partitions)

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """See `Bus.publish`; nothing is published without a key."""
        signer = self._signing.signer
        if signer is None:
            self._drop("dropped_without_key", "report_key is missing: nothing is sent")
            return False
        return self._bus.publish(signed(payload, signer), partition)

    def receive(self, timeout_s: float) -> list[Message]:
        """See `Bus.receive`; each message says who signed it."""
        heard = map(self._verified, self._bus.receive(timeout_s))
        return [message for message in heard if message is not None]

    def lag(self) -> float:
        """See `Bus.lag`."""
        return self._bus.lag()

    def close(self) -> None:
        """See `Bus.close`."""
        self._bus.close()

    def _verified(self, message: Message) -> Message | None:
        """Return the message if it may be heard, otherwise None."""
        parts = split(message.payload, self._signing.keyring.sizes)
        if parts is None:
            if self._signing.accept_unsigned:
                self._counters["accepted_unsigned"] += 1
                return message
            sentence = "reports without a signature of a known scheme are dropped"
            self._drop("dropped_unsigned", sentence)
            return None
        verdict = self._signing.keyring.verify(*parts)
        if verdict is None:
            sentence = "reports with a wrong signature or an unknown key are dropped"
            self._drop("dropped_forged", sentence)
            return None
        return replace(message, signer=verdict)

    def _drop(self, kind: str, sentence: str) -> None:
        """Count, and log each kind once."""
        self._counters[kind] += 1
        if kind not in self._said:
            self._said.add(kind)
            log.warning("%s: %s", kind, sentence)


def signed(payload: bytes, signer: Signer) -> bytes:
    """Return a report with its signature, and a checksum over both."""
    body = checksum.stripped(payload)
    signature = signer.sign(body)
    field = TAG + bytes([len(signature)]) + signature
    return checksum.sealed(body + field)


def split(payload: bytes, sizes: frozenset[int]) -> tuple[bytes, bytes] | None:
    """Return what was signed, and the signature; None if there is none.

    Args:
        payload: A report.
        sizes: Possible sizes of a signature, in bytes.
    """
    body = checksum.stripped(payload)
    for size in sizes:
        start = len(body) - size - len(TAG) - 1
        if start >= 0 and body[start : start + 3] == TAG + bytes([size]):
            return body[:start], body[start + 3 :]
    return None


def _accepted(keys: Json) -> tuple[list[Key], dict[str, list[Key]]]:
    """Return the keys that speak for everyone, and those of single agents."""
    if keys is None:
        return [], {}
    if isinstance(keys, dict):
        return [], {owner: _keys(of, owner) for owner, of in keys.items()}
    return _keys(keys, "report_keys"), {}


def _keys(keys: Json, where: str) -> list[Key]:
    """Return one key or several."""
    listed = keys if isinstance(keys, list) else [keys]
    if not all(isinstance(key, str) for key in listed):
        raise BusUnavailable(f"{where}: expected keys as strings")
    return [Key.parse(key) for key in cast("list[str]", listed)]


def speaks_for(signer: Verdict | None, agent: str) -> bool:
    """Return whether a report of `agent` may carry this signature."""
    return signer is None or signer.covers(agent)
