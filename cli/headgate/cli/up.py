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
from headgate.cli.options.common import MAX_PORT, Host, ReadyFile
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.printing import print_line

if TYPE_CHECKING:
    from headgate.agent.bus.port import BusSettings
    from headgate.api import Addresses, ServerSettings
    from headgate.cli.envoy import ProxyThread

MIN_INTERVAL_S = 0.05
"""Twenty reports per second and agent; shares can't change faster than that."""

MAX_INTERVAL_S = 60.0
"""A silent agent is presumed dead after three heartbeats, here three minutes."""

UP_EPILOG = """[bold]Examples[/bold]

headgate up

headgate up --host 0.0.0.0 --rights --database postgresql+psycopg://headgate@db/headgate

headgate up --bus kafka://kafka-1:9092,kafka-2:9092/headgate-usage

headgate bus keys curve --out keys && headgate up --bus-keys keys   (encrypted)

headgate up --envoy 8081 --envoy-config limits.yaml   (Envoy asks this process)

Agents learn the bus from the API; the API's URL is all they need."""


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where the server listens, and where it stores its data.

    Attributes:
        port: Port of the API; 0 for a free one, None for 8080 or a free one.
        bus_ports: Ports of the embedded bus, as text; None for 7410,7411 or free
            ones.
    """

    host: Host = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the API; 0 for a free one. By default 8080, or a free one "
            "if 8080 is taken.",
            min=0,
            max=MAX_PORT,
            show_default=False,
        ),
    ] = None
    database: Annotated[
        str,
        typer.Option(
            help="An SQLite file, or an SQLAlchemy URL.",
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
            help="Ports of the embedded bus. By default 7410,7411, or free ones if "
            "those are taken.",
            show_default=False,
        ),
    ] = None
    bus_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Encrypt the embedded bus with the keys that `headgate bus keys "
            "curve` wrote there, and admit only their holders.",
            show_default=False,
        ),
    ] = None
    invoices: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="Serve the invoices that `headgate pipeline run invoices` wrote.",
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
    """Options on access: who may use the server, and how it proves its identity."""

    rights: Annotated[
        bool,
        typer.Option(
            "--rights/--no-rights",
            help="Require a bearer token; create one with `headgate token create`.",
            envvar="HEADGATE_RIGHTS",
        ),
    ] = False
    key_set: Annotated[
        str | None,
        typer.Option(
            help="File or URL of a JWKS with the keys of valid JWTs.",
            show_default=False,
        ),
    ] = None
    issuer: Annotated[
        str | None, typer.Option(help="Issuer of valid JWTs.", show_default=False)
    ] = None
    audience: Annotated[
        str | None, typer.Option(help="Audience of valid JWTs.", show_default=False)
    ] = None
    trust_network: Annotated[
        bool,
        typer.Option(
            "--trust-network",
            help="Listen on addresses other than loopback without requiring a token.",
        ),
    ] = False
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="While rights are off, answer requests for this host name too; names "
            "of this machine are always answered. May be repeated.",
            show_default=False,
        ),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Trust X-Forwarded-For from this address or network. May be repeated.",
            show_default=False,
        ),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        typer.Option(
            help="PEM file of the certificate; needs --tls-key.", show_default=False
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        typer.Option(help="PEM file of the private key.", show_default=False),
    ] = None


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """What else answers proxies, and by which limits."""

    envoy: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Also answer Envoy's rate limit filters on this port of 127.0.0.1, as "
            "`headgate envoy` does; 0 for a free one. Needs --envoy-config.",
            min=0,
            max=MAX_PORT,
            show_default=False,
        ),
    ] = None
    envoy_config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="YAML file of limits for --envoy, with one domain. May be repeated.",
            show_default=False,
        ),
    ] = None


@spread
def up(
    listen: ListenOptions,
    access: AccessOptions,
    proxies: ProxyOptions,
    ready_file: ReadyFile = None,
) -> None:
    """Start the REST API and the embedded bus; Ctrl-C stops both.

    Agents connect to the API's URL, follow its configuration and report to one
    another over the bus. They keep working while this server is down.
    """
    from headgate.cli.process.children import hold_to_parent

    hold_to_parent()
    with _explaining_missing_packages():
        from headgate.api import CannotStart, run

        settings = _settings(listen, access, ready_file)
        beside = _beside(proxies)

        def ready(addresses: "Addresses") -> None:
            _tell(addresses)
            if beside is not None:
                beside.start(addresses.api)

        try:
            run(settings, ready)
        except CannotStart as error:
            raise Failure(str(error)) from error
        finally:
            if beside is not None:
                beside.close()


def _beside(proxies: ProxyOptions) -> "ProxyThread | None":
    """Return what is to answer proxies, or None.

    Raises:
        Misused: Only one of the two options is given.
        Failure: A file can't be used, or a package is missing.
    """
    if proxies.envoy is None and not proxies.envoy_config:
        return None
    if proxies.envoy is None or not proxies.envoy_config:
        raise Misused("--envoy PORT and --envoy-config FILE: expected both or neither")
    from headgate.cli.envoy import ProxyThread

    return ProxyThread(proxies.envoy, proxies.envoy_config)


@contextmanager
def _explaining_missing_packages() -> Generator[None]:
    """Turn a missing package into a message that says how to install it.

    Raises:
        Failure: A package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Failure(
            f"`headgate up` needs {missing.name}: pip install 'headgate[server]'"
        ) from missing


def _bus(address: str) -> "BusSettings | None":
    """Return the settings of the bus; None for the embedded one.

    Raises:
        Misused: It is not a valid address.
        Failure: A package that this bus needs is missing.
    """
    bus = parse_bus(address)
    if bus is not None and bus.kind == "kafka":
        from headgate.agent.bus.kafka.client import check_installed
        from headgate.agent.errors import BusUnavailable

        try:
            check_installed()
        except BusUnavailable as error:
            raise Failure(f"--bus: {error}") from error
    return bus


def _settings(
    listen: ListenOptions, access: AccessOptions, ready_file: Path | None
) -> "ServerSettings":
    """Return the options as settings of the server.

    Raises:
        Misused: Two options contradict each other.
    """
    bus, ports = _bus(listen.bus), _ports(listen.bus_ports)
    if bus is not None and listen.bus_keys is not None:
        raise Misused(
            "--bus-keys: only for the embedded bus; for another, put the keys into the "
            "file that --bus names"
        )
    if isnan(listen.interval):  # NaN passes every comparison with a bound
        raise typer.BadParameter(
            "expected a number of seconds, got nan", param_hint="--interval"
        )
    from headgate.api import RightsSettings, ServerSettings

    return ServerSettings(
        host=listen.host,
        port=listen.port,
        database=listen.database,
        cluster=listen.cluster,
        bus=bus,
        bus_ports=ports,
        bus_keys=listen.bus_keys,
        invoices=listen.invoices,
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
        print_line("rights are off: anyone who can reach the API can change everything")
    print_line("Ctrl-C stops both.")


def _ports(text: str | None) -> tuple[int, int] | None:
    """Return the two ports in `text`."""
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
