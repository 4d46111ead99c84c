"""`headgate token`: bearer tokens, made on the database itself."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headgate.cli.failure import Failure
from headgate.cli.output import print_line

DAY_S = 86_400.0

token = typer.Typer(no_args_is_help=True)


@token.callback()
def tokens() -> None:
    """Make bearer tokens for a server that asks for them (`headgate up --rights`)."""


@token.command("create")
def create(
    name: Annotated[str, typer.Argument(help="For whom; the audit says so.")],
    role: Annotated[
        Literal["admin", "operator", "viewer", "agent"],
        typer.Option(help="What it is for."),
    ] = "viewer",
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="An operator's tenant; more than one may be given.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="How long it is good.", show_default=False),
    ] = None,
    database: Annotated[
        str, typer.Option(help="A file of SQLite, or a URL of SQLAlchemy.")
    ] = "headgate.db",
) -> None:
    """Make a token and print it; nobody can read it again.

    It works on the database, so it needs no token and no running server. Over REST
    an admin makes them with POST /api/v1/tokens.
    """
    from headgate.api import CannotStart, ServerSettings, create_token

    life_s = None if days is None else days * DAY_S
    try:
        settings = ServerSettings(database=database)
        print_line(
            create_token(settings, name, role, tenants=tenant or None, life_s=life_s)
        )
    except CannotStart as error:
        raise Failure(str(error)) from error
