"""`headgate token`: bearer tokens, in the database itself or over REST."""

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from headgate.cli.failure import Failure
from headgate.cli.options.common import Api, AsJson
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.options.times import show_time
from headgate.cli.output.printing import Listing, print_items, print_json, print_line

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

PATH = "/api/v1/tokens"

DAY_S = 86_400.0

token = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_CREATE_EPILOG = """[bold]Examples[/bold]

headgate token create ops --role admin                    (the very first)

headgate token create ci --role operator --tenant acme --days 90

headgate token create broker-1 --role agent --database postgresql+psycopg://…"""


_LIST_EPILOG = """[bold]Examples[/bold]

headgate token list

headgate token list --database headgate.db    (while no server runs)"""

_DELETE_EPILOG = """[bold]Examples[/bold]

headgate token delete 7

headgate token delete 7 --database headgate.db    (while no server runs)"""

Database = Annotated[
    str | None,
    typer.Option(
        help="Work on the database itself instead of asking the API: an SQLite file, "
        "or an SQLAlchemy URL.",
        show_default=False,
    ),
]


@token.callback()
def tokens() -> None:
    """Bearer tokens for a server that asks for them (`headgate up --rights`)."""


@token.command("create", epilog=_CREATE_EPILOG)
def create(
    name: Annotated[
        str,
        typer.Argument(help="Who it is for; shown in the audit.", show_default=False),
    ],
    role: Annotated[
        Literal["admin", "operator", "viewer", "agent"],
        typer.Option(help="Role of the bearer."),
    ] = "viewer",
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="Tenant of an operator; may be repeated.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(
            help="Days until it expires; by default never.", show_default=False
        ),
    ] = None,
    database: Annotated[
        str,
        typer.Option(
            help="An SQLite file, or an SQLAlchemy URL.",
            envvar="HEADGATE_DATABASE",
        ),
    ] = "headgate.db",
) -> None:
    """Create a token and print it; it can't be shown again.

    Works on the database, so it needs neither a token nor a running server. Over REST,
    an admin creates tokens with POST /api/v1/tokens.
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


@token.command("list", epilog=_LIST_EPILOG)
@spread
def list_tokens(api: Api, output: Output, database: Database = None) -> None:
    """List tokens by name and role; their secrets are never shown."""
    chosen = output.format()
    if database is None:
        with api.connect() as rest:
            items = list(rest.pages(PATH))
    else:
        items = _tokens_in(database)
    print_items(_LISTING, items, chosen)


@token.command("delete", epilog=_DELETE_EPILOG)
@spread
def delete_token(
    number: Annotated[
        int,
        typer.Argument(metavar="ID", help="As shown by `headgate token list`.", min=0),
    ],
    api: Api,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Revoke a token at once.

    With --database, a server that runs on it accepts the token for a few seconds more.
    """
    if database is None:
        with api.connect() as rest:
            rest.call("DELETE", f"{PATH}/{number}")
    else:
        _delete_in(database, number)
    if as_json:
        print_json({"deleted": number})
    else:
        print_line(f"token {number} deleted")


def _tokens_in(database: str) -> "list[JsonObject]":
    """Return the tokens in a database.

    Raises:
        Failure: It can't be opened.
    """
    from headgate.api import CannotStart, ServerSettings
    from headgate.api import list_tokens as listed

    try:
        settings = ServerSettings(database=database)
        return [token.model_dump(mode="json") for token in listed(settings)]
    except CannotStart as error:
        raise Failure(str(error)) from error


def _delete_in(database: str, number: int) -> None:
    """Revoke a token in a database.

    Raises:
        Failure: It can't be opened, or has no such token.
    """
    from headgate.api import CannotStart, ServerSettings
    from headgate.api import delete_token as deleted

    try:
        deleted(ServerSettings(database=database), number)
    except CannotStart as error:
        raise Failure(str(error)) from error


def _row(one: "JsonObject") -> list[str]:
    return [
        str(one["id"]),
        str(one["name"]),
        str(one["role"]),
        ", ".join(cast("list[str]", one["tenants"] or ["all"])),
        show_time(cast("float", one["made_at_s"])),
        _end(cast("float | None", one["ends_at_s"])),
    ]


def _end(ends_at_s: float | None) -> str:
    return "never" if ends_at_s is None else show_time(ends_at_s)


_LISTING = Listing["JsonObject"](
    ["id>", "name", "role", "tenants", "created", "expires"],
    _row,
    lambda one: str(one["id"]),
)
