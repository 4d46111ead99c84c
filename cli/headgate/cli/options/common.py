"""Options that many commands share."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import Failure, Misused

if TYPE_CHECKING:
    from collections.abc import Generator

    from headgate.cli.client.rest import Rest

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where `headgate up` listens by default."""

MAX_PORT = 65_535
"""The largest TCP port."""


@dataclass(frozen=True, slots=True)
class Api:
    """How to reach the API: by options, else by a context.

    Attributes:
        url: Its address; None for that of the context, or else the default.
        token: Bearer token, or None.
        ca_file: PEM file of the authorities to trust, or None for the system's.
        context: Name of a context; None for the one in use.
    """

    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="HEADGATE_URL",
            help="Address of the API.",
            metavar="URL",
            show_default=DEFAULT_URL,
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="HEADGATE_TOKEN",
            help="Bearer token, if the API requires one.",
            metavar="TOKEN",
            show_default=False,
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            envvar="HEADGATE_CA_FILE",
            help="PEM file of the authority that signed the API's certificate.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            envvar="HEADGATE_CONTEXT",
            help="Use the server of this context (see headgate context).",
            metavar="NAME",
            show_default=False,
        ),
    ] = None

    def resolved(self) -> Api:
        """Return it with an address, and what belongs to that address.

        A context's token goes to the context's address only: with ``--url``, the
        context in use counts for nothing.

        Raises:
            Failure: The context does not exist, or its file can't be read.
            Misused: Both ``--url`` and ``--context`` were given.
        """
        if self.url is not None:
            if self.context is not None:
                raise Misused("--context: not together with --url or HEADGATE_URL")
            return self
        from headgate.cli.client.contexts import read_contexts

        contexts = read_contexts()
        name = self.context or contexts.current
        if name is None:
            return replace(self, url=DEFAULT_URL)
        named = contexts.get(name)
        ca_file = None if named.ca_file is None else Path(named.ca_file)
        return Api(named.url, self.token or named.token, self.ca_file or ca_file)

    def connect(self) -> Rest:
        """Return a connection, a context manager that closes itself.

        Raises:
            Failure: The URL is malformed, or the context can't be read.
            Misused: The token can't be sent in a header, or the file holds no
                certificate.
        """
        from headgate.cli.client.rest import Rest

        found = self.resolved()
        return Rest(found.url or DEFAULT_URL, token=found.token, ca_file=found.ca_file)

    @contextmanager
    def understood(self) -> Generator[None]:
        """Turn an answer that does not look like the API's into a one-line failure.

        Answers are not validated when they arrive, so a missing key or a wrong type
        shows up only where it is used.

        Raises:
            Failure: The answer does not look like one of Headgate's API.
        """
        try:
            yield
        except (AttributeError, LookupError, TypeError) as error:
            why = f"expected {error}" if isinstance(error, KeyError) else str(error)
            raise Failure(
                f"{self.resolved().url} does not answer like a Headgate API: {why}"
            ) from error


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change without changing it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

Host = Annotated[str, typer.Option(help="Address to listen on.")]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        help="Write the addresses to this file, as JSON, once the server is ready.",
        show_default=False,
    ),
]
