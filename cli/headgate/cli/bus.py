"""`headgate bus`: a bus of one's own, apart from the API's process."""

from __future__ import annotations

import signal
import threading
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import Failure, Misused
from headgate.cli.output import print_line

if TYPE_CHECKING:
    from types import FrameType

bus = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_EPILOG = """[bold]Examples[/bold]

headgate bus proxy --host 10.0.0.1 --reports-port 7410 --subscribe-port 7411

headgate up --bus zeromq://10.0.0.1:7410/7411     (elsewhere)

The API may then stop and start without a report being lost."""


@bus.command("proxy", epilog=_EPILOG)
def proxy(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    reports_port: Annotated[
        int, typer.Option(help="Where agents send to; 0 for a free one.", min=0)
    ] = 7410,
    subscribe_port: Annotated[
        int, typer.Option(help="Where agents listen; 0 for a free one.", min=0)
    ] = 7411,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="Write the bus's address there.", show_default=False),
    ] = None,
) -> None:
    """Carry reports between agents over ZeroMQ until Ctrl-C."""
    from headgate.agent.bus_proxy import ZeroMQProxy
    from headgate.agent.errors import BusUnavailable
    from headgate.cli.processes import hold_to_parent

    hold_to_parent()
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    try:
        with ZeroMQProxy(
            publish=f"tcp://{host}:{reports_port or '*'}",
            subscribe=f"tcp://{host}:{subscribe_port or '*'}",
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


_TOPIC_EPILOG = """[bold]Example[/bold]

headgate bus topic kafka://kafka-1:9092,kafka-2:9092/headgate-usage"""


@bus.command("topic", epilog=_TOPIC_EPILOG)
def topic(
    address: Annotated[
        str,
        typer.Argument(metavar="kafka://HOST:PORT/TOPIC", show_default=False),
    ],
    partitions: Annotated[
        int, typer.Option(help="All agents read all of them.", min=1, max=1000)
    ] = 1,
    replication: Annotated[
        int, typer.Option(help="Copies; reports need none.", min=1, max=10)
    ] = 1,
    retention: Annotated[
        float, typer.Option(help="Seconds that reports stay, at least.", min=2)
    ] = 10.0,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a broker.", min=0)
    ] = 0.0,
) -> None:
    """Make the Kafka topic that carries reports; nothing changes if it is there.

    Agents need reports for seconds only; for the pipeline let them stay for days.
    """
    from headgate.agent.kafka_topic import TopicShape
    from headgate.cli.bus_address import parse_bus
    from headgate.cli.kafka_topic import make_topic

    settings = parse_bus(address)
    if settings is None or settings.kind != "kafka":
        raise Misused(f"{address!r}: expected kafka://HOST:PORT/TOPIC")
    shape = TopicShape(
        partitions=partitions, replication=replication, retention_s=retention
    )
    is_new = make_topic(settings, shape, wait_s=wait)
    state = "created" if is_new else "is there"
    print_line(f"topic {settings.topic} {state}")
