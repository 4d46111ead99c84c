"""Contexts: servers by name, kept in a file of the user.

The file may hold tokens, so only its owner can read it.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from headgate.cli.failure import Failure

FILE = "contexts.json"

_REPAIR = "; correct this file, or delete it to begin anew"


@dataclass(frozen=True, slots=True)
class Context:
    """How to reach one server.

    Attributes:
        url: Its address.
        token: Bearer token, or None.
        ca_file: Path of a PEM file of authorities to trust, or None.
    """

    url: str
    token: str | None = None
    ca_file: str | None = None


@dataclass(slots=True)
class Contexts:
    """All contexts of the user.

    Attributes:
        current: Name of the one in use, or None.
        named: By name.
    """

    current: str | None = None
    named: dict[str, Context] = field(default_factory=dict[str, Context])

    def get(self, name: str) -> Context:
        """Return a context.

        Raises:
            Failure: There is no context of that name.
        """
        if name not in self.named:
            known = ", ".join(sorted(self.named)) or "none"
            raise Failure(f"context {name!r} does not exist; there are: {known}")
        return self.named[name]


def context_file() -> Path:
    """Return the path of the file, in the user's folder for configuration."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".config"
    return folder / "headgate" / FILE


def read_contexts() -> Contexts:
    """Return what the file holds; no contexts if there is no file.

    Raises:
        Failure: It can't be read, or something else wrote it.
    """
    path = context_file()
    try:
        content: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path}: expected JSON: {error}{_REPAIR}") from error
    try:
        whole = cast("dict[str, object]", content)
        told = cast("dict[str, dict[str, str | None]]", whole["contexts"])
        named = {name: Context(**fields) for name, fields in told.items()}  # type: ignore[arg-type]
        current = whole.get("current")
        if any(type(one.url) is not str for one in named.values()):
            raise TypeError("url")
    except (TypeError, KeyError, AttributeError) as error:
        raise Failure(
            f"{path}: expected contexts as `headgate context set` writes them{_REPAIR}"
        ) from error
    return Contexts(current if isinstance(current, str) else None, named)


def write_contexts(contexts: Contexts) -> None:
    """Replace the file; nobody but its owner can read it.

    Raises:
        Failure: It can't be written.
    """
    path = context_file()
    told = {
        name: {"url": one.url, "token": one.token, "ca_file": one.ca_file}
        for name, one in sorted(contexts.named.items())
    }
    text = json.dumps({"current": contexts.current, "contexts": told}, indent=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes a file of mode 0600; the rename replaces the old one whole.
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}-")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(name, path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
