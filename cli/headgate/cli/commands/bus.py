"""`headgate bus`: a bus apart from the API, its topic, rights and keys."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import Failure, Misused, one_line
from headgate.cli.output.printing import print_json, print_line

if TYPE_CHECKING:
    from types import FrameType

bus = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_EPILOG = """[bold]Examples[/bold]

headgate bus proxy --host 10.0.0.1 --reports-port 7410 --subscribe-port 7411

headgate up --bus zeromq://10.0.0.1:7410/7411     (elsewhere)

The API can then restart without losing a report."""


@bus.command("proxy", epilog=_EPILOG)
def proxy(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    reports_port: Annotated[
        int, typer.Option(help="Port that agents publish to; 0 for a free one.", min=0)
    ] = 7410,
    subscribe_port: Annotated[
        int,
        typer.Option(help="Port that agents subscribe to; 0 for a free one.", min=0),
    ] = 7411,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the address of the bus to this file.", show_default=False
        ),
    ] = None,
    options: Annotated[
        Path | None,
        typer.Option(
            help="JSON with ZeroMQ's socket options, such as the keys that "
            "`headgate bus keys curve` made.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Forward reports between agents over ZeroMQ until Ctrl-C."""
    from headgate.agent.bus.zeromq.curve import followed
    from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
    from headgate.agent.errors import BusUnavailable
    from headgate.cli.options.bus_address import read_json
    from headgate.cli.process.children import hold_to_parent

    hold_to_parent()
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    try:
        with ZeroMQProxy(
            publish=f"tcp://{host}:{reports_port or '*'}",
            subscribe=f"tcp://{host}:{subscribe_port or '*'}",
            options=None if options is None else followed(read_json(options), options),
        ) as running:
            front = running.publish_address.rpartition(":")[2]
            back = running.subscribe_address.rpartition(":")[2]
            address = f"zeromq://{host}:{front}/{back}"
            print_line(f"bus   {address}")
            if ready_file is not None:
                ready_file.write_text(address + "\n", encoding="utf-8")
            ended.wait()
    except BusUnavailable as error:
        raise Failure(str(error)) from error


_INIT_EPILOG = """[bold]Examples[/bold]

headgate bus init kafka://kafka-1:9092,kafka-2:9092/headgate-usage

headgate bus init bus.json --partitions 9 --replication 3    (with TLS, passwords …)"""


@bus.command("init", epilog=_INIT_EPILOG)
def init(
    address: Annotated[
        str,
        typer.Argument(metavar="kafka://HOST:PORT/TOPIC|FILE", show_default=False),
    ],
    partitions: Annotated[
        int | None,
        typer.Option(
            help="By default report_partitions of the file, else 1.",
            min=1,
            max=1000,
            show_default=False,
        ),
    ] = None,
    replication: Annotated[
        int, typer.Option(help="Replicas; reports do not need any.", min=1, max=10)
    ] = 1,
    retention: Annotated[
        float, typer.Option(help="Keep reports for at least this many seconds.", min=2)
    ] = 10.0,
    wait: Annotated[
        float, typer.Option(help="Wait up to this many seconds for a broker.", min=0)
    ] = 0.0,
) -> None:
    """Create the Kafka topic that carries reports, or check the existing one.

    Agents need reports for seconds only; for the pipeline, keep them for days. An
    existing topic is never changed; the exit code is 1 if it can't carry reports.
    """
    from headgate.agent.bus.kafka.topic import TopicShape
    from headgate.agent.errors import BusUnavailable
    from headgate.cli.options.bus_address import parse_bus
    from headgate.cli.process.kafka_topic import make_topic

    settings = parse_bus(address)
    if settings is None or settings.kind != "kafka":
        raise Misused(f"{address!r}: expected kafka://HOST:PORT/TOPIC or a file")
    named = settings.options.get("report_partitions", 1)
    count = partitions or (named if isinstance(named, int) else 1)
    shape = TopicShape(partitions=count, replication=replication, retention_s=retention)
    if make_topic(settings, shape, wait_s=wait):
        print_line(f"topic {settings.topic} created")
        return
    print_line(f"topic {settings.topic} already exists")
    from headgate.agent.bus.kafka.topic_check import differences

    try:
        found = differences(settings, shape)
    except BusUnavailable as error:
        raise Failure(one_line(str(error))) from error
    for difference in found:
        print_line(f"  {difference}")
    if any(difference.fatal for difference in found):
        raise Failure(f"topic {settings.topic} can't carry reports as it is")


@bus.command("allow")
def allow(
    address: Annotated[
        str,
        typer.Argument(metavar="kafka://HOST:PORT/TOPIC|FILE", show_default=False),
    ],
    user: Annotated[
        list[str],
        typer.Option(help="Kafka principal, such as alice.", show_default=False),
    ],
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Only let them read, for the pipeline and observers."
        ),
    ] = False,
) -> None:
    """Allow users to write and read the topic of reports, and nothing else in Kafka.

    The address must be that of a user who may change access control lists.
    """
    from headgate.agent.bus.kafka.acls import allow as give
    from headgate.agent.errors import BusUnavailable
    from headgate.cli.options.bus_address import parse_bus

    settings = parse_bus(address)
    if settings is None or settings.kind != "kafka":
        raise Misused(f"{address!r}: expected kafka://HOST:PORT/TOPIC or a file")
    for name in user:
        try:
            give(settings, name, ("read",) if read_only else ("read", "write"))
        except BusUnavailable as error:
            raise Failure(one_line(str(error))) from error
        said = "read" if read_only else "write and read"
        print_line(f"{name} may {said} {settings.topic}")


_KEYS_EPILOG = """[bold]Examples[/bold]

headgate bus keys hmac --out /etc/headgate           (one key for the cluster)

headgate bus keys ed25519 --owner web --owner mail   (each signs for itself only)

headgate bus keys curve                              (encrypts ZeroMQ)

To rotate a key, move its file away and create another. Both keys are accepted until
you remove the old one: from report_keys.json (ed25519), or from the option report_keys
(hmac)."""


@bus.command("keys", epilog=_KEYS_EPILOG)
def keys(
    kind: Annotated[
        str, typer.Argument(metavar="hmac|ed25519|curve", show_default=False)
    ],
    owner: Annotated[
        list[str] | None,
        typer.Option(help="Agent id, for ed25519.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the keys.")] = Path("keys"),
) -> None:
    """Create keys for signing reports or for encrypting ZeroMQ.

    Prints the options for the `bus` section. Only you can read the files with secrets;
    copy each to the hosts that need it.
    """
    from headgate.cli.commands.bus_keys import KINDS, make_keys

    if kind not in KINDS:
        raise Misused(f"{kind!r}: expected {', '.join(KINDS)}")
    print_json({"options": make_keys(KINDS[kind], out, owner or ())})
