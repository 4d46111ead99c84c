"""How a bus is named on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headgate.cli.client.file_errors import with_place
from headgate.cli.failure import Failure, Misused, RefusedByApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bus.port import BusSettings
    from headgate.agent.json_place import Json

EMBEDDED = "zeromq"
"""The bus inside `headgate up`."""

EXPECTED = (
    "zeromq, zeromq://HOST:REPORTS_PORT/SUBSCRIBE_PORT, "
    "kafka://HOST:PORT[,HOST:PORT…][/TOPIC] or a file BUS.json with the bus section"
)

_ZEROMQ = re.compile(r"zeromq://([^/:]+|\[[0-9a-f:]+\]):(\d+)/(\d+)")
_KAFKA = re.compile(r"kafka://([^/]+:\d+)(?:/([A-Za-z0-9._-]{1,249}))?")


def parse_bus(address: str) -> BusSettings | None:
    """Return the settings for `address`; None for the embedded bus.

    >>> parse_bus("kafka://one:9092,two:9092/usage").bootstrap
    'one:9092,two:9092'
    >>> parse_bus("zeromq://10.0.0.1:7410/7411").subscribe
    ('tcp://10.0.0.1:7411',)

    Raises:
        Misused: It is not a valid address.
    """
    from headgate.agent.bus.port import BusSettings

    if address == EMBEDDED:
        return None
    if match := _ZEROMQ.fullmatch(address):
        host, publish, subscribe = match.groups()
        return BusSettings(
            kind="zeromq",
            publish=(f"tcp://{host}:{publish}",),
            subscribe=(f"tcp://{host}:{subscribe}",),
        )
    if match := _KAFKA.fullmatch(address):
        bootstrap, topic = match.groups()
        if topic is None:
            return BusSettings(kind="kafka", bootstrap=bootstrap)
        return BusSettings(kind="kafka", bootstrap=bootstrap, topic=topic)
    if address.endswith(".json"):
        return _from_file(Path(address))
    raise Misused(f"bus {address!r}: expected {EXPECTED}")


def read_json(path: Path) -> dict[str, Json]:
    """Return the JSON object in a file.

    Raises:
        Failure: The file can't be read, or holds something else.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    try:
        read = cast("Json", json.loads(raw))
    except (ValueError, RecursionError) as error:
        unread = RefusedByApi(str(error), (("", str(error)),))
        raise Failure(with_place(str(path), raw, unread, is_json=True)) from None
    if not isinstance(read, dict):
        raise Failure(f"{path}: expected a JSON object")
    return read


def _from_file(path: Path) -> BusSettings | None:
    """Return the settings in a file, written like the section `bus` of a snapshot."""
    from headgate.agent.errors import MalformedSnapshot
    from headgate.agent.follow.snapshot import snapshot_from_json

    rest: dict[str, Json] = {
        "revision": 0,
        "cluster": "any",
        "groups": [],
        "attachments": [],
    }
    try:
        return snapshot_from_json({**rest, "bus": read_json(path)}).bus
    except MalformedSnapshot as error:
        raise Failure(f"{path}: {error}") from None


def shown_bus(settings: Mapping[str, object]) -> str:
    """Return the address of a bus without its options, which may hold a password.

    >>> shown_bus({"kind": "kafka", "bootstrap": "one:9092", "topic": "usage"})
    'kafka one:9092 usage'
    """
    shown: list[str] = []
    for name in ("kind", "publish", "subscribe", "bootstrap", "topic"):
        value = settings.get(name)
        if isinstance(value, list | tuple):
            shown += [str(one) for one in cast("list[object]", value)]
        elif value:
            shown.append(str(value))
    if "curve_serverkey" in cast("Mapping[str, object]", settings.get("options", {})):
        shown.append("with CURVE keys")
    return " ".join(shown)
