"""`headgate up`: the REST API with its database, and the embedded bus."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import Failure, Misused
from headgate.cli.options.bus_address import EMBEDDED, parse_bus, shown_bus
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.printing import print_line

if TYPE_CHECKING:
    from headgate.api import Addresses, ServerSettings

MIN_INTERVAL_S = 0.05
"""Twenty reports a second of each agent; a share can't move faster than that."""

MAX_INTERVAL_S = 60.0
"""An agent that is silent for three is gone; nobody waits longer to learn that."""

MAX_PORT = 65_535
"""The largest that TCP has."""

UP_EPILOG = """[bold]Examples[/bold]

headgate up

headgate up --host 0.0.0.0 --rights --database postgresql+psycopg://headgate@db/headgate

headgate up --bus kafka://kafka-1:9092,kafka-2:9092/headgate-usage

headgate bus keys curve --out keys && headgate up --bus-keys keys   (encrypted)

Agents learn the bus from the API: they need the API's URL and nothing else."""


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where the server listens, and what it keeps.

    Attributes:
        port: Of the API; 0 for a free one, None for 8080 or a free one.
        bus_ports: Of the embedded bus, as text; None for 7410,7411 or free ones.
    """

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the API; 0 for a free one. By default 8080, or a free one "
            "when that is taken.",
            min=0,
            max=MAX_PORT,
            show_default=False,
        ),
    ] = None
    database: Annotated[
        str,
        typer.Option(
            help="A file of SQLite, or a URL of SQLAlchemy.",
            envvar="HEADGATE_DATABASE",
        ),
    ] = "headgate.db"
    bus: Annotated[
        str,
        typer.Option(
            metavar="BUS",
            help="What carries the agents' reports: zeromq (embedded), "
            "zeromq://HOST:PORT/PORT or kafka://HOST:PORT/TOPIC.",
        ),
    ] = EMBEDDED
    bus_ports: Annotated[
        str | None,
        typer.Option(
            metavar="REPORTS,SUBSCRIBE",
            help="Ports of the embedded bus. By default 7410,7411, or free ones when "
            "those are taken.",
            show_default=False,
        ),
    ] = None
    bus_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Encrypt the embedded bus with the keys that `headgate bus keys "
            "curve` made there, and let nobody else on it.",
            show_default=False,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Name of the cluster, for a new database.", show_default=False
        ),
    ] = None
    interval: Annotated[
        float,
        typer.Option(
            help="Seconds between two heartbeats of an agent.",
            min=MIN_INTERVAL_S,
            max=MAX_INTERVAL_S,
        ),
    ] = 1.0


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Whom the server serves, and how it shows who it is."""

    rights: Annotated[
        bool,
        typer.Option(
            "--rights/--no-rights",
            help="Ask for a bearer token; make one with `headgate token create`.",
            envvar="HEADGATE_RIGHTS",
        ),
    ] = False
    key_set: Annotated[
        str | None,
        typer.Option(
            help="File or URL of a JWKS whose keys sign good tokens.",
            show_default=False,
        ),
    ] = None
    issuer: Annotated[
        str | None, typer.Option(help="Of good JWTs.", show_default=False)
    ] = None
    audience: Annotated[
        str | None, typer.Option(help="Of good JWTs.", show_default=False)
    ] = None
    trust_network: Annotated[
        bool,
        typer.Option(
            "--trust-network",
            help="Serve other machines although no token is asked for.",
        ),
    ] = False
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Answer requests for this host name too while rights are off; names "
            "of this machine always are. May be given more than once.",
            show_default=False,
        ),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Believe X-Forwarded-For from this address or network. May be given "
            "more than once.",
            show_default=False,
        ),
    ] = None
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file, with --tls-key.", show_default=False)
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(help="PEM file.", show_default=False)
    ] = None


@spread
def up(
    listen: ListenOptions,
    access: AccessOptions,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the addresses there, as JSON, once they answer.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start the REST API and the embedded bus; Ctrl-C stops both.

    Agents connect to the API's URL, follow its configuration and report to one
    another over the bus. They go on by themselves while this is down.
    """
    from headgate.cli.process.children import hold_to_parent

    hold_to_parent()
    with _telling_what_is_missing():
        from headgate.api import CannotStart, run

        settings = _settings(listen, access, ready_file)
        try:
            run(settings, _tell)
        except CannotStart as error:
            raise Failure(str(error)) from error


@contextmanager
def _telling_what_is_missing() -> Generator[None]:
    """Name the package that is not installed, and how it comes.

    Raises:
        Failure: There is one.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Failure(
            f"`headgate up` needs {missing.name}: pip install 'headgate[server]'"
        ) from missing


def _settings(
    listen: ListenOptions, access: AccessOptions, ready_file: Path | None
) -> "ServerSettings":
    """Return what was said, checked, as the server wants it.

    Raises:
        Misused: It can't be meant.
    """
    bus, ports = parse_bus(listen.bus), _ports(listen.bus_ports)
    if bus is not None and listen.bus_keys is not None:
        raise Misused(
            "--bus-keys: only for the embedded bus; another's are options in the file "
            "that --bus names"
        )
    if isnan(listen.interval):  # which compares with no bound
        raise typer.BadParameter("nan: expected seconds", param_hint="--interval")
    from headgate.api import RightsSettings, ServerSettings

    return ServerSettings(
        host=listen.host,
        port=listen.port,
        database=listen.database,
        cluster=listen.cluster,
        bus=bus,
        bus_ports=ports,
        bus_keys=listen.bus_keys,
        report_interval_s=listen.interval,
        rights=RightsSettings(
            required=access.rights,
            key_set=access.key_set,
            issuer=access.issuer,
            audience=access.audience,
            trust_network=access.trust_network,
            allowed_hosts=tuple(access.allowed_host or ()),
        ),
        trusted_proxies=tuple(access.trusted_proxy or ()),
        tls_certificate=access.tls_certificate,
        tls_key=access.tls_key,
        ready_file=ready_file,
    )


def _tell(addresses: "Addresses") -> None:
    print_line(f"API   {addresses.api}")
    print_line(f"docs  {addresses.docs}")
    print_line(f"bus   {shown_bus(addresses.bus)}")
    if not addresses.rights:
        print_line("rights are off: whoever reaches the API may change everything")
    print_line("Ctrl-C stops both.")


def _ports(text: str | None) -> tuple[int, int] | None:
    """Return the two ports that `text` names."""
    if text is None:
        return None
    first, _, second = text.partition(",")
    if not (_is_port(first) and _is_port(second)):
        raise typer.BadParameter(
            f"{text!r}: expected two ports such as 7410,7411, at most {MAX_PORT}",
            param_hint="--bus-ports",
        )
    return int(first), int(second)


def _is_port(text: str) -> bool:
    digits = text.isdecimal() and len(text) <= len(str(MAX_PORT))
    return digits and int(text) <= MAX_PORT
