"""Which bus the demo runs on; with ``--bus kafka`` it starts a broker of its own."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.commands.bus_keys import make_keys
from headgate.cli.failure import Failure
from headgate.cli.options.bus_address import parse_bus
from headgate.cli.process.kafka_topic import make_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.cli.process.children import Child, Children

OWN_BROKER = "kafka"
"""Value of ``--bus`` that starts a broker."""

CURVE = "curve"
"""Value of ``--bus`` that encrypts ZeroMQ, with keys created for the run."""

KEYS = "keys"
"""Folder of these keys, inside that of the run."""

TOPIC = "headgate-demo"
"""Not the default topic, so that a demo on a broker in use disturbs nobody."""

FETCH_TIMEOUT_S = 600.0
"""44 jars, 45 MB, once."""

START_TIMEOUT_S = 60.0
"""Time for a JVM to start a broker on a busy machine; a quiet one takes a second."""

TOPIC_TIMEOUT_S = 10.0
"""Time allowed for a broker that should be running already."""

PAUSE_S = 0.05
"""Seconds between two checks whether the broker listens."""

TOOL = Path(__file__).parents[4] / "tools" / "kafka_broker.py"
"""Only in a checkout, because the package does not contain a broker."""


def check_bus(bus: str) -> None:
    """Refuse a bus that the demo can't run on, before anything is started.

    Raises:
        Misused: There is no such bus.
        Failure: A broker should be started but can't be.
    """
    if bus == CURVE:
        return
    if bus != OWN_BROKER:
        parse_bus(bus)
    elif not TOOL.is_file():
        raise Failure(
            "only a checkout of Headgate can start a broker; "
            "name a running one: --bus kafka://HOST:PORT"
        )
    elif shutil.which("java") is None:
        raise Failure("Kafka needs Java 17 or newer, and `java` is not on the path")


def bus_address(
    children: Children, bus: str, *, directory: Path, tell: Callable[[str], None]
) -> str:
    """Prepare the bus, and return its address for `start_server`.

    Raises:
        Failure: The broker does not start, or does not answer.
    """
    if bus == CURVE:
        make_keys("curve", directory / KEYS, ())
        return bus
    if bus != OWN_BROKER:
        settings = parse_bus(bus)
        if settings is None or settings.kind != "kafka":
            return bus
        named = bus.endswith(f"/{settings.topic}")
        topic = settings.topic if named else TOPIC
        make_topic(replace(settings, topic=topic), wait_s=TOPIC_TIMEOUT_S)
        return f"kafka://{settings.bootstrap}/{topic}"
    tell("starting a Kafka broker (its jars are downloaded the first time)")
    return start_broker(children, directory=directory)[1]


def start_broker(
    children: Children, *, directory: Path, address: str = ""
) -> tuple[Child, str]:
    """Start a real broker with the topic as a child; return it and its address.

    Args:
        children: What starts and stops the process.
        directory: For its data; an earlier broker's data are used again.
        address: Where to start it; a free port if empty.

    Raises:
        Failure: It does not start.
    """
    address = address or f"kafka://127.0.0.1:{_free_port()}/{TOPIC}"
    settings = parse_bus(address)
    assert settings is not None, "the address is one of Kafka"
    home = directory / "kafka"
    home.mkdir(exist_ok=True)
    tool = [sys.executable, str(TOOL)]
    fetching = children.start(
        "fetching Kafka", [*tool, "fetch"], log=home / "fetch.log", talks=False
    )
    if not fetching.wait(FETCH_TIMEOUT_S) or fetching.returncode:
        raise Failure(fetching.epitaph())
    command = [sys.executable, "-m", "headgate.cli.process.child_process", *tool, "run"]
    command += ["--dir", str(home), "--port", settings.bootstrap.rpartition(":")[2]]
    broker = children.start("Kafka", command, log=home / "run.log", talks=False)
    _await_listening(broker, int(command[-1]))
    make_topic(settings, wait_s=TOPIC_TIMEOUT_S)
    return broker, address


def _await_listening(broker: Child, port: int) -> None:
    """Wait until the broker accepts connections, because its clients retry slowly."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return
        if broker.returncode is not None:
            raise Failure(broker.epitaph())
        if time.monotonic() > deadline:
            raise Failure(f"Kafka is not ready after {START_TIMEOUT_S:g} s")
        time.sleep(PAUSE_S)


def _free_port() -> int:
    """Return a port that is currently free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
