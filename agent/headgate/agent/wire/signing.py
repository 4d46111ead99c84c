"""Signatures of reports: no agent is heard without a key, and none speaks for another.

A signed report ends with the field ``signature``: eight bytes that name the key, then
the signature of all bytes before the field.  So cluster, agent, incarnation, sequence
and rows are all signed, and nothing is parsed before the signature is verified.

Two schemes.  ``hmac`` (HMAC-SHA-256): one secret for the cluster keeps strangers out;
but anyone who has it can still write in another's name.  ``ed25519``: each agent has a
secret and everyone has its public half, so that each speaks only for itself; the
SHA-256 of the report is signed, because hashing is most of what a large report costs.

A key is written ``scheme:base64`` of its 32 bytes.  An agent's key has a named owner:
it may sign for that id, and for the ids derived from it (a forked child's ``owner-…``,
a renamed twin's ``owner~…``).

A signature says who wrote a report, not when.  A replayed report is refused by its
incarnation and sequence wherever its agent has been heard since.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast

from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Scheme = Literal["hmac", "ed25519-secret", "ed25519"]
"""Kinds of key: a cluster's secret, an agent's secret, and its public half."""

KEY_BYTES = 32
"""Size of every key, whatever its scheme."""

NAME_BYTES = 8
"""Size of a key's name in a signature; keys are chosen by people, not by attackers."""

CONTEXT = b"headgate report 1\0"
"""Prefix of what is signed: what a key signs elsewhere is never a report."""

HEIRS = ("-", "~")
"""What follows the owner's id in an id derived from it."""

_SCHEMES: Mapping[str, Scheme] = {
    "hmac": "hmac",
    "ed25519-secret": "ed25519-secret",
    "ed25519": "ed25519",
}
_SIZES: Mapping[Scheme, int] = {"hmac": 32, "ed25519": 64, "ed25519-secret": 64}


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and what it may be used for.

    Attributes:
        scheme: Kind of key.
        material: `KEY_BYTES` bytes; never shown.
    """

    scheme: Scheme
    material: bytes = field(repr=False)

    @staticmethod
    def parse(text: str) -> Key:
        """Return the key written as `text`.

        >>> Key.parse("hmac:" + "A" * 43 + "=").scheme
        'hmac'

        Raises:
            BusUnavailable: `text` is not a key; the message doesn't repeat it.
        """
        scheme, _, encoded = text.strip().partition(":")
        try:
            material = b64decode(encoded, validate=True)
        except (NoBase64, ValueError):
            material = b""
        known = _SCHEMES.get(scheme)
        if known is None or len(material) != KEY_BYTES:
            raise BusUnavailable(
                f"report key: expected one of {', '.join(f'{s}:' for s in _SCHEMES)} "
                f"followed by the base64 of {KEY_BYTES} bytes"
            )
        return Key(known, material)

    @staticmethod
    def make(scheme: Literal["hmac", "ed25519-secret"]) -> Key:
        """Return a new secret."""
        return Key(scheme, os.urandom(KEY_BYTES))

    def public(self) -> Key:
        """Return the key that verifies what this key signs.

        Raises:
            BusUnavailable: The library that it needs is missing.
        """
        if self.scheme != "ed25519-secret":
            return self
        secret = _ed25519().Ed25519PrivateKey.from_private_bytes(self.material)
        return Key("ed25519", secret.public_key().public_bytes_raw())

    def text(self) -> str:
        """Return the text that `parse` reads; a secret key's is secret."""
        return f"{self.scheme}:{b64encode(self.material).decode()}"

    def name(self) -> bytes:
        """Return the `NAME_BYTES` that name this key, or its public half."""
        key = self.public()
        digest = hashlib.sha256(b"headgate key " + key.scheme.encode() + key.material)
        return digest.digest()[:NAME_BYTES]


class Signer:
    """Signs with one secret."""

    def __init__(self, key: Key) -> None:
        if key.scheme == "ed25519":
            raise BusUnavailable(
                "report_key: expected hmac:… or ed25519-secret:…, got a public key"
            )
        self._name = key.name()
        self._sign = _signing(key)

    def sign(self, payload: bytes) -> bytes:
        """Return key name and signature of `payload`, 40 or 72 bytes."""
        return self._name + self._sign(payload)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whom a verified signature speaks for.

    Attributes:
        owner: The only agent that the key speaks for; None for the whole cluster.
    """

    owner: str | None

    def covers(self, agent: str) -> bool:
        """Return whether the key may sign in the name of `agent`.

        >>> Verdict("web").covers("web-17"), Verdict("web").covers("webshop")
        (True, False)
        """
        if self.owner is None or agent == self.owner:
            return True
        return agent.startswith(tuple(self.owner + mark for mark in HEIRS))


class Keyring:
    """The keys whose signatures are accepted.

    Args:
        cluster: Secrets of the whole cluster, and public keys that speak for all.
        agents: Public keys by the id of their owner.

    Raises:
        BusUnavailable: No key is accepted, a key can't verify, or one owner's id
            is derived from another's, which could then speak for it.
    """

    def __init__(
        self, cluster: Iterable[Key] = (), agents: Mapping[str, Iterable[Key]] = {}
    ) -> None:
        owned: list[tuple[Key, str | None]] = [(key, None) for key in cluster]
        owned += [(key, owner) for owner, keys in agents.items() for key in keys]
        if not owned:
            raise BusUnavailable("report_keys: expected at least one key")
        for owner in agents:
            for other in agents:
                if owner != other and Verdict(owner).covers(other):
                    raise BusUnavailable(
                        f"report_keys: the owner of {owner!r} could sign for {other!r}"
                    )
        self._keys = {
            key.name(): (_verifying(key), Verdict(owner), _SIZES[key.scheme])
            for key, owner in owned
        }
        self.sizes = frozenset(NAME_BYTES + size for _, _, size in self._keys.values())

    def verify(self, payload: bytes, signature: bytes) -> Verdict | None:
        """Return whose `signature` of `payload` this is, None if it is forged."""
        known = self._keys.get(signature[:NAME_BYTES])
        if known is None:
            return None
        verify, verdict, size = known
        if len(signature) != NAME_BYTES + size:
            return None
        return verdict if verify(payload, signature[NAME_BYTES:]) else None


class _PublicKey(Protocol):
    """The part of ``Ed25519PublicKey`` used here."""

    def verify(self, signature: bytes, data: bytes) -> None: ...

    def public_bytes_raw(self) -> bytes: ...


class _PrivateKey(Protocol):
    """The part of ``Ed25519PrivateKey`` used here."""

    def sign(self, data: bytes) -> bytes: ...

    def public_key(self) -> _PublicKey: ...


class _Private(Protocol):
    def from_private_bytes(self, data: bytes) -> _PrivateKey: ...


class _Public(Protocol):
    def from_public_bytes(self, data: bytes) -> _PublicKey: ...


class _Library(Protocol):
    """The part of the library ``cryptography`` used here."""

    Ed25519PrivateKey: _Private
    Ed25519PublicKey: _Public


def _ed25519() -> _Library:
    """Return the library, imported when a key of an agent is first used."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BusUnavailable(
            "signing: cryptography is missing: pip install 'headgate[signing]'"
        ) from None
    return cast("_Library", ed25519)


def _signing(key: Key) -> Callable[[bytes], bytes]:
    """Return the function that signs with a secret."""
    if key.scheme == "hmac":
        return lambda payload: _hmac(key, payload)
    secret = _ed25519().Ed25519PrivateKey.from_private_bytes(key.material)
    return lambda payload: secret.sign(_digest(payload))


def _verifying(key: Key) -> Callable[[bytes, bytes], bool]:
    """Return the function that checks the signatures of a key."""
    if key.scheme == "hmac":
        return lambda payload, signature: hmac.compare_digest(
            _hmac(key, payload), signature
        )
    from cryptography.exceptions import InvalidSignature

    public = _ed25519().Ed25519PublicKey.from_public_bytes(key.public().material)

    def verify(payload: bytes, signature: bytes) -> bool:
        try:
            public.verify(signature, _digest(payload))
        except InvalidSignature:
            return False
        return True

    return verify


def _hmac(key: Key, payload: bytes) -> bytes:
    return hmac.digest(key.material, CONTEXT + payload, "sha256")


def _digest(payload: bytes) -> bytes:
    return CONTEXT + hashlib.sha256(payload).digest()
