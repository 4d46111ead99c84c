"""Options that many commands share."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Generator

    from headgate.cli.client.rest import Rest

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where `headgate up` listens by default."""


@dataclass(frozen=True, slots=True)
class Api:
    """How to reach the API.

    Attributes:
        url: Its address.
        token: Bearer token, or None.
        ca_file: PEM file of the authorities to trust, or None for the system's.
    """

    url: Annotated[
        str,
        typer.Option(
            "--url", envvar="HEADGATE_URL", help="Address of the API.", metavar="URL"
        ),
    ] = DEFAULT_URL
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

    def connect(self) -> Rest:
        """Return a connection, a context manager that closes itself.

        Raises:
            Failure: The URL is malformed.
            Misused: The token can't be sent in a header, or the file holds no
                certificate.
        """
        from headgate.cli.client.rest import Rest

        return Rest(self.url, token=self.token, ca_file=self.ca_file)

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
                f"{self.url} does not answer as Headgate's API does: {why}"
            ) from error


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
