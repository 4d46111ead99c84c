"""The last snapshot on disk, so that an agent can start while the API is away.

A second file holds the changes since then, one per line: rewriting a hundred thousand
attachments for each change would take a second of the process that the agent is in.
Agents on one host share both files.  Each line says at which revision it begins, so one
that was cut off, or that doesn't fit, is skipped and hides none of those after it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.snapshot import (
    Snapshot,
    snapshot_from_changes,
    snapshot_from_json,
    snapshot_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SNAPSHOT_BYTES = 256 << 20
"""A hundred thousand groups with ten limits each take 150 MB; a larger file is not a
snapshot, and is not read."""

MOST_CHANGES_BYTES = 1 << 20
"""A larger file of changes is replaced by a new snapshot; reading one takes 20 ms."""


def default_path(url: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the snapshot of the API at `url` is kept: the user's cache.

    Returns:
        None if the user has no home, like many that only exist in a container.
    """
    try:
        if sys.platform == "win32":
            root = Path(environment.get("LOCALAPPDATA") or Path.home())
        elif sys.platform == "darwin":
            root = Path.home() / "Library" / "Caches"
        else:
            root = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    return root / "headgate" / f"snapshot-{name}.json"


def store(path: Path, snapshot: Snapshot) -> None:
    """Replace the file with this snapshot, atomically.

    Readable by its owner only: the options of a bus may hold a password.

    Raises:
        OSError: The folder can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".{path.name}.{os.urandom(8).hex()}"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(snapshot_to_json(snapshot), file, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _changes_path(path).unlink(missing_ok=True)


def append(path: Path, text: bytes) -> bool:
    """Append the changes in an answer to the stored snapshot.

    Returns:
        False if there are too many already: then store the whole snapshot.

    Raises:
        OSError: The folder can't be written.
    """
    if not path.exists():
        return False
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    handle = os.open(_changes_path(path), flags, 0o600)
    with os.fdopen(handle, "ab", buffering=0) as file:
        if file.tell() + len(text) > MOST_CHANGES_BYTES:
            return False
        # One call, so that lines stay whole; the first line end is for one that didn't.
        line = b"\n" + text.replace(b"\n", b" ") + b"\n"
        if file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())
    return True


def load(path: Path) -> Snapshot | None:
    """Return the stored snapshot, None if there is none.

    Raises:
        MalformedSnapshot: The file is not a snapshot; says why.
        OSError: The file can't be read.
    """
    try:
        if path.stat().st_size > MAX_SNAPSHOT_BYTES:
            raise MalformedSnapshot(f"{path}: larger than {MAX_SNAPSHOT_BYTES} bytes")
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    return _with_changes(parsed(text, str(path)), path)


def _with_changes(snapshot: Snapshot, path: Path) -> Snapshot:
    """Return `snapshot` with the changes stored beside it, as far as they follow it."""
    try:
        lines = _changes_path(path).read_bytes().splitlines()
    except FileNotFoundError:
        return snapshot
    for line in lines:
        try:
            document: object = json.loads(line)
            changed = snapshot_from_changes(snapshot, document)
        except (ValueError, RecursionError, MalformedSnapshot):
            continue  # cut off by a crash or a full disk, or after a gap
        if changed.configuration.revision > snapshot.configuration.revision:
            snapshot = changed
    return snapshot


def _changes_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.changes")


def parsed(text: bytes, origin: str) -> Snapshot:
    """Return the snapshot in `text`.

    Args:
        text: JSON in UTF-8.
        origin: File or address, for the error.

    Raises:
        MalformedSnapshot: As for `load`.
    """
    return snapshot_of(document_of(text, origin), origin)


def document_of(text: bytes, origin: str) -> object:
    """Return the parsed JSON of `text`; arguments and errors as for `parsed`."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedSnapshot(f"{origin}: not JSON: {error}") from None
    return document


def snapshot_of(document: object, origin: str) -> Snapshot:
    """Return the snapshot in a parsed document; errors as for `parsed`."""
    try:
        return snapshot_from_json(document)
    except MalformedSnapshot as error:
        raise MalformedSnapshot(f"{origin}: {error}") from None
