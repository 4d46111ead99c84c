"""`headgate group`: make, look at, change and delete resource groups."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from headgate.cli.failure import Misused
from headgate.cli.limits import (
    LimitJson,
    parse_key,
    parse_limit,
    show_period,
    show_quantity,
)
from headgate.cli.options import DEFAULT_URL, AsJson, Token, Url
from headgate.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from headgate.cli.rest import JsonObject

PATH = "/api/v1/groups"

group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(help="Name of the group.", show_default=False)]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="LIMIT",
        help="DIMENSION=RATE/PERIOD, and if need be ,burst=UNITS and ,scope=node. "
        "RATE is a number such as 1000, 10M or 1.5Ki, or unlimited; PERIOD is s "
        "(default), m, h, d or 10s. Give the option once per dimension.",
        show_default=False,
    ),
]
Mode = Annotated[
    Literal["balanced", "strict"] | None,
    typer.Option(help="strict never exceeds rate·window + burst.", show_default=False),
]
MayOwe = Annotated[
    bool | None,
    typer.Option(
        "--may-owe/--no-debt",
        help="Admit while the level is ≥ 0 and then charge, or only what is there.",
        show_default=False,
    ),
]
Isolation = Annotated[
    Literal["fair", "hold", "closed", "open"] | None,
    typer.Option(
        help="What an agent that is cut off may spend: an equal part, what it had, "
        "nothing, anything.",
        show_default=False,
    ),
]
Refusal = Annotated[
    Literal["reject", "delay", "wait", "suppress", "shadow"] | None,
    typer.Option(
        help="What a caller meets when the group is exhausted.", show_default=False
    ),
]
Parent = Annotated[
    str | None,
    typer.Option(help="Group that this one is part of.", show_default=False),
]
Weight = Annotated[
    float | None, typer.Option(help="Among its siblings.", show_default=False)
]
SoftThreshold = Annotated[
    float | None,
    typer.Option(
        help="Part of the rate, up to 1, above which callers are warned.",
        show_default=False,
    ),
]

_CREATE_EPILOG = """[bold]Examples[/bold]

headgate group create gold --limit requests=1000/s

headgate group create bulk --limit publish_bytes=10M/s,burst=20M --limit tokens=1M/h

headgate group create batch --parent gold --weight 2 --refusal wait"""

_UPDATE_EPILOG = """[bold]Examples[/bold]

headgate group update gold --limit requests=2000/s

headgate group update gold --remove-limit publish_bytes --isolation hold"""


@group.command("create", epilog=_CREATE_EPILOG)
def create_group(
    name: Name,
    limit: Limits = None,
    mode: Mode = None,
    may_owe: MayOwe = None,
    isolation: Isolation = None,
    refusal: Refusal = None,
    parent: Parent = None,
    weight: Weight = None,
    soft_threshold: SoftThreshold = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Make a resource group: limits that all that is attached to it share."""
    body = _said(
        mode=mode,
        may_owe=may_owe,
        isolation=isolation,
        refusal=refusal,
        parent=parent,
        weight=weight,
        soft_threshold=soft_threshold,
    )
    body["name"] = name
    body["limits"] = [parse_limit(one) for one in limit or []]
    _show(_rest_call("POST", PATH, url, token, body), as_json, "created")


@group.command("list")
def list_groups(
    url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """List all groups in the order of their names."""
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        groups = list(rest.pages(PATH))
    if as_json:
        print_json(groups)
        return
    print_table(
        ["group", "limits", "mode", "refusal", "parent"],
        [
            [
                str(one["name"]),
                ", ".join(_shown_limit(limit) for limit in _limits(one)),
                str(one.get("mode", "")),
                str(one.get("refusal", "")),
                str(one.get("parent") or ""),
            ]
            for one in groups
        ],
    )


@group.command("show")
def show_group(
    name: Name, url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show one group with all its settings."""
    _show(_rest_call("GET", _path(name), url, token), as_json, "")


@group.command("update", epilog=_UPDATE_EPILOG)
def update_group(
    name: Name,
    limit: Limits = None,
    remove_limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIMENSION",
            help="Take the limit of this dimension away; ,scope=node for the "
            "limit per node.",
            show_default=False,
        ),
    ] = None,
    mode: Mode = None,
    may_owe: MayOwe = None,
    isolation: Isolation = None,
    refusal: Refusal = None,
    parent: Parent = None,
    weight: Weight = None,
    soft_threshold: SoftThreshold = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change what is said and leave the rest; in force everywhere within a second."""
    body = _said(
        mode=mode,
        may_owe=may_owe,
        isolation=isolation,
        refusal=refusal,
        parent=parent,
        weight=weight,
        soft_threshold=soft_threshold,
    )
    limits = [parse_limit(one) for one in limit or []]
    limits += [parse_key(one) for one in remove_limit or []]
    if limits:
        body["limits"] = limits
    if not body:
        raise Misused("nothing to change: give at least one option")
    _show(_rest_call("PATCH", _path(name), url, token, body), as_json, "updated")


@group.command("delete")
def delete_group(
    name: Name, url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Delete a group; refused while something is attached to it."""
    _rest_call("DELETE", _path(name), url, token)
    if as_json:
        print_json({"deleted": name})
    else:
        print_line(f"group {name} deleted")


def _rest_call(
    verb: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    url: str,
    token: str | None,
    body: JsonObject | None = None,
) -> JsonObject:
    """Make one call on a connection of its own."""
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        return rest.call(verb, path, body=body)


def _path(name: str) -> str:
    from headgate.cli.rest import segment

    return f"{PATH}/{segment(name)}"


def _said(**settings: object) -> JsonObject:
    """Return the settings that the command line gave."""
    for name, value in settings.items():
        if isinstance(value, float) and not isfinite(value):  # JSON has no such number
            raise Misused(f"--{name.replace('_', '-')} {value}: expected a number")
    return {name: value for name, value in settings.items() if value is not None}


def _show(one: JsonObject, as_json: bool, what: str) -> None:
    """Print a group."""
    if as_json:
        print_json(one)
        return
    if what:
        print_line(f"group {one['name']} {what}")
    for limit in _limits(one):
        print_line(f"  {_shown_limit(limit)}")
    hidden = {"name", "limits"}
    settings = ((k, v) for k, v in one.items() if k not in hidden and v is not None)
    print_line("  " + ", ".join(f"{name}={value}" for name, value in settings))


def _limits(one: JsonObject) -> list[LimitJson]:
    return cast("list[LimitJson]", one.get("limits", []))


def _shown_limit(limit: LimitJson) -> str:
    """Return a limit as it is written on the command line."""
    rate, period_s = limit.get("rate"), limit.get("period_s", 1.0)
    shown = f"{limit.get('dimension')}={show_quantity(rate or 0.0)}"
    shown += f"/{show_period(period_s)}"
    if "burst" in limit:
        shown += f" burst {show_quantity(limit['burst'])}"
    return shown + (" per node" if limit.get("scope") == "node" else "")
