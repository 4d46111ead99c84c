"""Creating the keys of a bus."""

from __future__ import annotations

import json
import os
from errno import EEXIST
from typing import TYPE_CHECKING, Literal, cast

from headgate.cli.failure import Failure, Misused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KeyKind = Literal["hmac", "ed25519", "curve"]

KINDS: dict[str, KeyKind] = {"hmac": "hmac", "ed25519": "ed25519", "curve": "curve"}
"""By its name on the command line."""

PUBLIC_KEYS = "report_keys.json"
"""Which key signs for which agent; public, the same on all hosts."""


def make_keys(kind: KeyKind, folder: Path, owners: Sequence[str]) -> dict[str, object]:
    """Write new keys to a folder and return the options for the bus.

    Only the owner of a file can read a secret, and no secret is ever overwritten.

    Args:
        kind: ``hmac`` or ``ed25519`` sign reports, ``curve`` encrypts ZeroMQ.
        folder: Created if it does not exist.
        owners: Ids of agents, for ``ed25519`` only.

    Raises:
        Misused: `owners` and `kind` don't belong together, or `folder` is a file.
        Failure: A file already exists or can't be written, or a library is missing.
    """
    if (kind == "ed25519") != bool(owners):
        raise Misused("--owner: required with ed25519, and not allowed otherwise")
    if folder.exists() and not folder.is_dir():
        raise Misused(f"--out {folder}: expected a folder, found a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.absolute()  # agents read the files, each in a folder of its own
        if kind == "curve":
            return _curve(folder)
        return _hmac(folder) if kind == "hmac" else _ed25519(folder, owners)
    except FileExistsError as error:
        raise Failure(
            f"{error.filename} already exists; keys are never overwritten"
        ) from None
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None


def _hmac(folder: Path) -> dict[str, object]:
    """Create the cluster's key."""
    from headgate.agent.wire.signing import Key

    path = folder / "report.key"
    _write_secret(path, Key.make("hmac").text())
    return {"report_key": {"file": str(path)}}


def _ed25519(folder: Path, owners: Sequence[str]) -> dict[str, object]:
    """Create a key for each owner, whose existing keys stay accepted."""
    from headgate.agent.errors import BusUnavailable
    from headgate.agent.wire.signing import Key, Keyring

    for owner in owners:
        if owner != os.path.basename(owner) or owner.startswith("."):
            raise Misused(f"--owner {owner!r}: expected an id that can name a file")
        _check_free(folder / f"{owner}.key")
    public = folder / PUBLIC_KEYS
    known = _known(public)
    try:
        made = {owner: Key.make("ed25519-secret") for owner in owners}
        for owner, key in made.items():
            known.setdefault(owner, []).append(key.public().text())
        Keyring(agents={o: [Key.parse(k) for k in keys] for o, keys in known.items()})
    except BusUnavailable as error:
        raise Failure(str(error)) from error
    for owner, key in made.items():
        _write_secret(folder / f"{owner}.key", key.text())
    public.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return {
        "report_keys": {"file": str(public)},
        "report_key": {"file": str(folder / f"{owners[0]}.key")},
    }


def _known(public: Path) -> dict[str, list[str]]:
    """Return the existing public keys."""
    if not public.exists():
        return {}
    try:
        read: object = json.loads(public.read_text(encoding="utf-8"))
        known = cast("dict[str, str | list[str]]", read)
        return {o: [k] if isinstance(k, str) else list(k) for o, k in known.items()}
    except (ValueError, AttributeError, TypeError):
        raise Failure(f"{public}: expected public keys by agent id") from None


def _curve(folder: Path) -> dict[str, object]:
    """Create the keys of a proxy and of its agents."""
    import zmq

    from headgate.agent.bus.zeromq.curve import (
        AGENT_KEY,
        CLIENTS,
        PROXY_KEYS,
        CurveKeys,
    )

    for name in (AGENT_KEY, PROXY_KEYS):  # both or none: they belong together
        _check_free(folder / name)
    _, proxy_secret = (key.decode() for key in zmq.curve_keypair())
    public, secret = (key.decode() for key in zmq.curve_keypair())
    _write_secret(folder / AGENT_KEY, secret)
    server = {"curve_server": 1, "curve_secretkey": proxy_secret, CLIENTS: [public]}
    _write_secret(folder / PROXY_KEYS, json.dumps(server))
    return dict(CurveKeys.read(folder).agents)


def _check_free(path: Path) -> None:
    """Refuse to overwrite a file, before anything is written."""
    if path.exists():
        raise FileExistsError(EEXIST, "exists", str(path))


def _write_secret(path: Path, text: str) -> None:
    """Create a file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
