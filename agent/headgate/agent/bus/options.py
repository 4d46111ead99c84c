"""The options of a bus: one section for the whole cluster, secrets kept elsewhere.

The API sends the section to every agent, so it only refers to what is secret or differs
between hosts: ``{"file": "/run/secrets/kafka"}`` means the content of that file on the
host that opens the bus, ``{"env": "KAFKA_PASSWORD"}`` the value of that variable there.
A file that begins with ``{`` or ``[`` is JSON, unless it is a single line that isn't: a
password or a CURVE key may begin so.  Any other is text, without the spaces and line
ends around it.
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
"""Most characters of a file that holds an option: public keys of 10,000 agents."""


def resolved(settings: BusSettings) -> BusSettings:
    """Return `settings` with the values of the files and variables they refer to.

    Raises:
        BusUnavailable: One can't be read; says which option refers to it.
    """
    options = {name: _value(name, value) for name, value in settings.options.items()}
    return replace(settings, options=options)


def without_signing(settings: BusSettings) -> BusSettings:
    """Return `settings` with only the options meant for the library."""
    options = {k: v for k, v in settings.options.items() if k not in OPTIONS}
    return replace(settings, options=options)


def _value(name: str, value: Json) -> Json:
    """Return an option, or the value it refers to; lists are followed too."""
    if isinstance(value, list):
        return [_value(name, one) for one in value]
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, where),) = value.items()
    if kind not in ("file", "env") or not isinstance(where, str):
        return value
    return _file(name, where) if kind == "file" else _variable(name, where)


def _variable(name: str, variable: str) -> str:
    """Return the value of an environment variable."""
    value = os.environ.get(variable)
    if value is None:
        raise BusUnavailable(f"{name}: the environment variable {variable} is not set")
    return value


def _file(name: str, path: str) -> Json:
    """Return the content of a file."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST_FILE + 1).strip()
        if len(text) > LARGEST_FILE:
            raise BusUnavailable(f"{name}: {path}: larger than {LARGEST_FILE} bytes")
        return _content(text)
    except (OSError, ValueError) as error:  # missing, not UTF-8, not JSON
        raise BusUnavailable(f"{name}: {path}: {error}") from None


def _content(text: str) -> Json:
    if not text.startswith(("{", "[")):
        return text
    try:
        return cast("Json", json.loads(text))
    except ValueError:
        if "\n" in text:
            raise
        return text
