"""`headgate envoy`: limits for whatever is behind Envoy, nginx or Traefik."""

import asyncio
import json
import os
import signal
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.client.file_errors import with_place
from headgate.cli.failure import Failure, RefusedByApi
from headgate.cli.options.common import (
    DEFAULT_URL,
    MAX_PORT,
    Api,
    Host,
    ReadyFile,
)
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.printing import print_line

if TYPE_CHECKING:
    from headgate.agent.integrations.envoy.descriptors import LimitDomain
    from headgate.agent.integrations.envoy.server import (
        ProxyAddresses,
        ProxyServerSettings,
    )

STOP_S = 5.0
"""How long the server in a thread may take to stop; normally it takes one second."""

ENVOY_EPILOG = """[bold]Examples[/bold]

headgate envoy limits.yaml                               (Envoy's rate limit filter)

headgate envoy limits.yaml --socket /run/headgate.sock   (the same, and faster)

headgate envoy limits.yaml --http-port 8082              (nginx, Traefik, /json)

A file holds one domain in the format of envoyproxy/ratelimit; with a line such as
[bold]subjects: {tenant: tenant}[/bold], a descriptor names a tenant of Headgate."""


@dataclass(frozen=True, slots=True)
class ProxyListening:
    """Where the server listens."""

    host: Host = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(help="Port of gRPC; 0 for a free one.", min=0, max=MAX_PORT),
    ] = 8081
    socket: Annotated[
        Path | None,
        typer.Option(
            help="Also listen for gRPC on this Unix socket.", show_default=False
        ),
    ] = None
    http_port: Annotated[
        int | None,
        typer.Option(
            help="Port of /json, /forward-auth and /auth-request; 0 for a free one.",
            min=0,
            max=MAX_PORT,
            show_default=False,
        ),
    ] = None


@spread
def envoy(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="YAML files, one domain each.", show_default=False
        ),
    ],
    listen: ProxyListening,
    api: Api,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Id of this process among all agents; by default, host name and "
            "process id. With an id that stays the same across restarts, the others "
            "recognise it.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        float,
        typer.Option(
            help="Weight of the RLQS data planes among the agents, as a number of "
            "processes.",
            min=0.001,
            max=1e6,
        ),
    ] = 1.0,
    ready_file: ReadyFile = None,
) -> None:
    """Answer Envoy's rate limit filter, nginx and Traefik from memory.

    The server is an agent: it shares every limit with all other agents. It needs a
    token of the role operator where tokens are required, because it creates a group
    for each key of a descriptor.
    """
    from headgate.agent.errors import HeadgateError
    from headgate.cli.process.children import hold_to_parent

    hold_to_parent()
    try:
        from headgate.agent.integrations.envoy.server import ProxyServerSettings
    except ModuleNotFoundError as missing:
        raise _needs(missing) from missing
    domains = read_domains(files)
    settings = ProxyServerSettings(
        host=listen.host,
        port=listen.port,
        http_port=listen.http_port,
        socket=listen.socket,
        weight=weight,
    )
    try:
        asyncio.run(_until_signal(settings, domains, api.resolved(), agent, ready_file))
    except HeadgateError as error:
        raise Failure(str(error)) from error
    except ModuleNotFoundError as missing:
        raise _needs(missing) from missing


def read_domains(files: list[Path]) -> "dict[str, LimitDomain]":
    """Return the domains of some files by name.

    Raises:
        Failure: A file can't be read or used, or two describe one domain; says where.
    """
    from headgate.agent.integrations.envoy.descriptors import (
        InvalidDescriptors,
        read_domain,
    )

    domains: dict[str, LimitDomain] = {}
    for file in files:
        try:
            raw = file.read_bytes()
        except OSError as error:
            raise Failure(f"{file}: {error.strerror}") from error
        try:
            domain = read_domain(raw)
        except InvalidDescriptors as error:
            problems = ((error.field, error.reason),) if error.field else ()
            refused = RefusedByApi(str(error), problems)
            raise Failure(with_place(str(file), raw, refused, is_json=False)) from error
        if domain.name in domains:
            raise Failure(f"{file}: domain {domain.name!r} is already in another file")
        domains[domain.name] = domain
    return domains


class ProxyThread:
    """The same server in a thread of `headgate up`; ends the process if it can't go on.

    If the API needs a token or a certificate authority, they are taken from
    HEADGATE_TOKEN and HEADGATE_CA_FILE.
    """

    def __init__(self, port: int, files: list[Path]) -> None:
        """Read the files; nothing is started.

        Raises:
            Failure: A file can't be used, or a package is missing.
        """
        try:
            from headgate.agent.integrations.envoy.grpc_services import load_grpc
            from headgate.agent.integrations.envoy.messages import rate_limit_messages
            from headgate.agent.integrations.envoy.server import ProxyServerSettings

            load_grpc()
            rate_limit_messages()
        except ModuleNotFoundError as missing:
            raise _needs(missing) from missing
        self._settings = ProxyServerSettings(port=port)
        self._domains = read_domains(files)
        self._thread: threading.Thread | None = None
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._error: Exception | None = None

    def start(self, url: str) -> None:
        """Serve, with the limits of the API at `url`."""
        self._thread = threading.Thread(
            target=self._run, args=(url,), name="headgate-envoy"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop.

        Raises:
            Failure: It ended by itself; says why.
        """
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
        self._loop.close()
        if self._error is not None:
            raise Failure(f"--envoy: {self._error}") from self._error

    def _run(self, url: str) -> None:
        try:
            ca_file = os.environ.get("HEADGATE_CA_FILE")
            api = Api(
                url=url,
                token=os.environ.get("HEADGATE_TOKEN"),
                ca_file=Path(ca_file) if ca_file else None,
            )
            self._loop.run_until_complete(self._serve_until_closed(api))
        except Exception as error:
            self._error = error
            os.kill(os.getpid(), signal.SIGTERM)

    async def _serve_until_closed(self, api: Api) -> None:
        """Serve until closed; then give up calls to an API that doesn't answer."""
        serving = asyncio.create_task(
            _serve(self._settings, self._domains, api, None, None, self._stopped)
        )
        closing = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({serving, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        done, _ = await asyncio.wait({serving}, timeout=STOP_S)
        if done:
            serving.result()
        else:
            serving.cancel()
            await asyncio.wait({serving})


async def _until_signal(
    settings: "ProxyServerSettings",
    domains: "dict[str, LimitDomain]",
    api: Api,
    agent: str | None,
    ready_file: Path | None,
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await _serve(settings, domains, api, agent, ready_file, stopped)


async def _serve(
    settings: "ProxyServerSettings",
    domains: "dict[str, LimitDomain]",
    api: Api,
    agent: str | None,
    ready_file: Path | None,
    stopped: asyncio.Event,
) -> None:
    from headgate.agent.connecting import connect_async
    from headgate.agent.follow.certificates import trusting
    from headgate.agent.integrations.envoy.server import serving
    from headgate.agent.integrations.web.key_groups import KeyGroups

    url = api.url or DEFAULT_URL
    async with connect_async(
        url,
        agent=agent,
        token=api.token,
        ca_file=api.ca_file,
        weight=settings.weight,
    ) as joined:
        trust = None if api.ca_file is None else trusting(api.ca_file)
        keys = KeyGroups(joined, url, token=api.token, trust=trust)
        try:
            async with serving(settings, domains, joined, keys) as addresses:
                _tell(addresses, sorted(domains), url)
                if ready_file is not None:
                    text = json.dumps(asdict(addresses)) + "\n"
                    await asyncio.to_thread(ready_file.write_text, text, "utf-8")
                await stopped.wait()
        finally:
            keys.close()


def _tell(addresses: "ProxyAddresses", domains: list[str], url: str) -> None:
    print_line(f"gRPC     {addresses.grpc}")
    if addresses.socket is not None:
        print_line(f"         unix:{addresses.socket}")
    if addresses.http is not None:
        print_line(f"HTTP     {addresses.http}")
    print_line(f"domains  {', '.join(domains)}")
    print_line(f"API      {url}")
    print_line("Ctrl-C stops it.")


def _needs(missing: ModuleNotFoundError) -> Failure:
    return Failure(
        f"`headgate envoy` needs {missing.name}: pip install 'headgate[envoy]'"
    )
