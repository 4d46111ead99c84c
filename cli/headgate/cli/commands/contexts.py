"""`headgate context`: servers by name, and which of them commands ask."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from headgate.cli.client.contexts import (
    Context,
    Contexts,
    context_file,
    read_contexts,
    write_contexts,
)
from headgate.cli.failure import Failure, Misused
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output  # noqa: TC001 - read by spread
from headgate.cli.output.printing import Listing, print_items, print_line

context = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


def _names(incomplete: str) -> list[str]:
    try:
        named = read_contexts().named
    except Failure:
        return []
    return [name for name in sorted(named) if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        help="Name of the context.", show_default=False, autocompletion=_names
    ),
]

_SET_EPILOG = """[bold]Examples[/bold]

headgate context set local --url http://127.0.0.1:8080

headgate context set staging --url https://quota.staging --token "$TOKEN" --use

headgate context set staging --ca-file authority.pem          (the rest stays)"""


@context.command("set", epilog=_SET_EPILOG)
def set_context(
    name: Name,
    url: Annotated[
        str | None, typer.Option(help="Address of the API.", show_default=False)
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="Bearer token; an empty one removes it.", show_default=False),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            help="PEM file of the authority that signed the API's certificate.",
            show_default=False,
        ),
    ] = None,
    use: Annotated[
        bool, typer.Option("--use", help="Also make it the current context.")
    ] = False,
) -> None:
    """Create a context, or change the given parts of one."""
    from headgate.cli.client.rest import Rest

    contexts = read_contexts()
    old = contexts.named.get(name)
    if old is None and url is None:
        raise Misused(f"--url: expected the address of the new context {name!r}")
    if not name or name.startswith("-"):
        raise Misused(f"{name!r}: expected a name")
    made = Context(
        url=(old.url if old else "") if url is None else url,
        token=(old.token if old else None) if token is None else token or None,
        ca_file=(old.ca_file if old else None)
        if ca_file is None
        else str(ca_file.absolute()),
    )
    Rest(made.url, token=made.token).close()  # what can't be used is refused now
    contexts.named[name] = made
    if use:
        contexts.current = name
    write_contexts(contexts)
    print_line(f"context {name} {'changed' if old else 'created'}{_in_use(use)}")


@context.command("use")
def use_context(name: Name) -> None:
    """Use this server from now on, unless --url or --context names another."""
    contexts = read_contexts()
    contexts.get(name)
    contexts.current = name
    write_contexts(contexts)
    print_line(f"context {name}{_in_use(True)}")


@context.command("current")
def current_context() -> None:
    """Print the name of the context in use."""
    contexts = read_contexts()
    if contexts.current is None:
        raise Failure("no context is in use; choose one with `headgate context use`")
    print_line(contexts.current)


@context.command("list")
@spread
def list_contexts(output: Output) -> None:
    """List the contexts; tokens are not shown."""
    contexts = read_contexts()
    items: list[dict[str, object]] = [
        {
            "name": name,
            "current": name == contexts.current,
            "url": one.url,
            "has_token": one.token is not None,
            "ca_file": one.ca_file,
        }
        for name, one in sorted(contexts.named.items())
    ]
    print_items(_LISTING, items, output.format())


@context.command("delete")
def delete_context(name: Name) -> None:
    """Delete a context."""
    contexts = read_contexts()
    contexts.get(name)
    named = {other: one for other, one in contexts.named.items() if other != name}
    current = None if contexts.current == name else contexts.current
    write_contexts(Contexts(current, named))
    print_line(f"context {name} deleted from {context_file()}")


def _in_use(use: bool) -> str:
    return ", in use from now on" if use else ""


def _row(one: dict[str, object]) -> list[str]:
    return [
        "*" if one["current"] else "",
        str(one["name"]),
        str(one["url"]),
        "yes" if one["has_token"] else "no",
        str(one["ca_file"] or ""),
    ]


_LISTING = Listing[dict[str, object]](
    ["", "name", "url", "token", "ca file"], _row, lambda one: str(one["name"])
)
