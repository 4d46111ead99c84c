"""The options of a bus: one section for all of a cluster, secrets where they belong.

The API hands the section to every agent, so what is secret or differs from host to
host is named there, not written: ``{"file": "/run/secrets/kafka"}`` stands for what the
file says on the host that opens the bus, ``{"env": "KAFKA_PASSWORD"}`` for a variable.
A file that begins with ``{`` or ``[`` is JSON, any other is text, without the spaces
and line ends around it.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headgate.agent.bus.signed import OPTIONS
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from headgate.agent.bus.port import BusSettings
    from headgate.agent.json_place import Json

LARGEST_FILE = 1 << 20
"""Characters of a file that holds an option: public keys of 10,000 agents."""


def resolved(settings: BusSettings) -> BusSettings:
    """Return `settings` with what the files and variables say that they name.

    Raises:
        BusUnavailable: One can't be read; says which option named it.
    """
    options = {name: _value(name, value) for name, value in settings.options.items()}
    return replace(settings, options=options)


def without_signing(settings: BusSettings) -> BusSettings:
    """Return `settings` with those options only that are meant for the library."""
    options = {k: v for k, v in settings.options.items() if k not in OPTIONS}
    return replace(settings, options=options)


def _value(name: str, value: Json) -> Json:
    """Return an option, or what it names; several may stand in a list."""
    if isinstance(value, list):
        return [_value(name, one) for one in value]
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, where),) = value.items()
    if kind not in ("file", "env") or not isinstance(where, str):
        return value
    return _file(name, where) if kind == "file" else _variable(name, where)


def _variable(name: str, variable: str) -> str:
    """Return what a variable of the environment says."""
    value = os.environ.get(variable)
    if value is None:
        raise BusUnavailable(f"{name}: the variable {variable} is not set")
    return value


def _file(name: str, path: str) -> Json:
    """Return what a file says."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST_FILE + 1).strip()
        if len(text) > LARGEST_FILE:
            raise BusUnavailable(f"{name}: {path}: larger than {LARGEST_FILE} bytes")
        return cast("Json", json.loads(text)) if text[:1] in ("{", "[") else text
    except (OSError, ValueError) as error:  # not there, not UTF-8, no JSON
        raise BusUnavailable(f"{name}: {path}: {error}") from None
