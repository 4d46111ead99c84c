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
"""Where `headgate up` listens when nothing else is said."""


@dataclass(frozen=True, slots=True)
class Api:
    """Where the API is, and what it asks for.

    Attributes:
        url: Of the API.
        token: Bearer token, or None.
        ca_file: PEM file of the authorities to trust, or None for the usual ones.
    """

    url: Annotated[
        str,
        typer.Option(
            "--url", envvar="HEADGATE_URL", help="Where the API is.", metavar="URL"
        ),
    ] = DEFAULT_URL
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="HEADGATE_TOKEN",
            help="Bearer token, where the API asks for one.",
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
        """Return a connection, which is a context that closes it.

        Raises:
            Failure: The URL is none.
            Misused: The token can't stand in a header, or the file holds no
                certificate.
        """
        from headgate.cli.client.rest import Rest

        return Rest(self.url, token=self.token, ca_file=self.ca_file)

    @contextmanager
    def understood(self) -> Generator[None]:
        """Read what it answers; where another service does, one line says so.

        Answers are taken for what the API's are: a key that is missing, or something
        of another kind, shows only where it is used.

        Raises:
            Failure: What was read is not what Headgate's API answers.
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
    bool, typer.Option("--dry-run", help="Only show what it would change.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it is done.")]
