"""A server's settings."""

from dataclasses import dataclass, field
from pathlib import Path

from headgate.agent.bus.port import BusSettings
from headgate.api.rights.settings import RightsSettings

USUAL_PORT = 8080
"""Where the API listens unless told otherwise; a free port when it is taken."""

USUAL_BUS_PORTS = (7410, 7411)
"""Where the embedded bus takes reports and hands them out; likewise."""

ANY_PORT = 0
"""A free port, chosen by the kernel."""


class CannotStart(Exception):
    """The server can't start as it is configured; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything that `run` needs to know.

    Attributes:
        host: Address to listen on.
        port: Port of the API; None for `USUAL_PORT` or, if taken, a free one.
        database: A path of an SQLite file, or a URL of SQLAlchemy.
        cluster: Name of the cluster of a new database; reports with another name
            are ignored.
        bus: An existing bus, such as Kafka; None for the embedded ZeroMQ one.
        bus_ports: Ports of the embedded bus; None for `USUAL_BUS_PORTS` or, if
            taken, free ones.
        bus_keys: Folder of CURVE keys for the embedded bus, as `headgate bus keys
            curve` makes it; None for a bus that anyone who reaches it may use.
        report_interval_s: T of the design: seconds between two heartbeats.
        rights: Whether tokens are required, and which are valid.
        tls_certificate: Path of a PEM chain; with `tls_key` the API speaks TLS.
        tls_key: Path of its private key.
        trusted_proxies: Addresses and networks whose `X-Forwarded-For` and
            `X-Forwarded-Proto` are trusted.
        invoices: Folder that `headgate pipeline run invoices` writes; None serves no
            invoices.
        ready_file: Gets `Addresses` as one line of JSON when the server listens.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    database: str = "headgate.db"
    cluster: str | None = None
    bus: BusSettings | None = None
    bus_ports: tuple[int, int] | None = None
    bus_keys: Path | None = None
    report_interval_s: float = 1.0
    rights: RightsSettings = field(default_factory=RightsSettings)
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    invoices: Path | None = None
    ready_file: Path | None = None

    @property
    def database_url(self) -> str:
        """The database as SQLAlchemy names it."""
        if "://" in self.database:
            return self.database
        return f"sqlite:///{self.database}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a server can be reached, known once it listens.

    Attributes:
        api: URL of the API, such as ``http://127.0.0.1:8080``.
        docs: URL of its documentation.
        bus: Bus settings that the server sends to agents.
        pid: Id of the server's process.
        rights: Whether tokens are required.
    """

    api: str
    docs: str
    bus: dict[str, object] = field(default_factory=dict[str, object])
    pid: int = 0
    rights: bool = False
