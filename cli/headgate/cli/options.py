"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where `headgate up` listens when nothing else is said."""

Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="HEADGATE_URL", help="Where the API is.", metavar="URL"
    ),
]

Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="HEADGATE_TOKEN",
        help="Bearer token, where the API asks for one.",
        metavar="TOKEN",
        show_default=False,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
