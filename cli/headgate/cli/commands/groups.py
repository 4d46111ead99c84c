"""`headgate group`: create, show, change and delete resource groups."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import GROUPS, group_path
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, DryRun
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.group_settings import GroupSettings
from headgate.cli.options.limits import LimitJson, parse_key, show_limit
from headgate.cli.output.preview import changed_group, check_removed, print_preview
from headgate.cli.output.printing import print_json, print_line, print_list

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject


group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_CREATE_EPILOG = """[bold]Examples[/bold]

headgate group create gold --limit requests=1000/s

headgate group create bulk --limit publish_bytes=10M/s,burst=20M --limit tokens=1M/h

headgate group create batch --parent gold --weight 2 --refusal wait"""

_UPDATE_EPILOG = """[bold]Examples[/bold]

headgate group update gold --limit requests=2000/s

headgate group update gold --limit requests=500/s --dry-run    (who would be affected?)

headgate group update gold --remove-limit publish_bytes --isolation hold"""


@group.command("create", epilog=_CREATE_EPILOG)
@spread
def create_group(
    name: GroupName,
    settings: GroupSettings,
    api: Api,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a resource group, whose limits are shared by everything attached to it."""
    body = settings.said() | {"limits": settings.limits()}
    with api.connect() as rest:
        if dry_run:
            print_preview(rest, name, body, as_json, is_new=True)
            return
        made = rest.call("POST", GROUPS, body={"name": name, **body})
    _show(made, as_json, "created")


@group.command("list")
@spread
def list_groups(api: Api, as_json: AsJson = False) -> None:
    """List all groups by name."""
    with api.connect() as rest:
        groups = list(rest.pages(GROUPS))
    headings = ["group", "limits", "mode", "refusal", "parent"]
    print_list(headings, groups, _row, as_json=as_json)


@group.command("show")
@spread
def show_group(name: GroupName, api: Api, as_json: AsJson = False) -> None:
    """Show one group with all its settings."""
    with api.connect() as rest:
        _show(rest.call("GET", group_path(name)), as_json, "")


@group.command("update", epilog=_UPDATE_EPILOG)
@spread
def update_group(
    name: GroupName,
    settings: GroupSettings,
    api: Api,
    remove_limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIMENSION",
            help="Remove the limit of this dimension; append ,scope=node for the "
            "limit per node.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change the given settings and leave the rest; takes effect within a second."""
    body = settings.said()
    removed = [parse_key(one) for one in remove_limit or []]
    limits = settings.limits() + removed
    if limits:
        body["limits"] = limits
    if not body:
        raise Misused("nothing to change: give at least one option")
    with api.connect() as rest:
        if dry_run or removed:
            as_it_is = rest.call("GET", group_path(name))
            check_removed(as_it_is, removed)
            if dry_run:
                print_preview(rest, name, changed_group(as_it_is, body), as_json)
                return
        changed = rest.call("PATCH", group_path(name), body=body)
    _show(changed, as_json, "updated")


@group.command("delete")
@spread
def delete_group(name: GroupName, api: Api, as_json: AsJson = False) -> None:
    """Delete a group; refused while something is attached to it."""
    with api.connect() as rest:
        rest.call("DELETE", group_path(name))
    if as_json:
        print_json({"deleted": name})
    else:
        print_line(f"group {name} deleted")


def _row(one: "JsonObject") -> list[str]:
    return [
        str(one["name"]),
        ", ".join(show_limit(limit) for limit in _limits(one)),
        str(one.get("mode", "")),
        str(one.get("refusal", "")),
        str(one.get("parent") or ""),
    ]


def _show(one: "JsonObject", as_json: bool, what: str) -> None:
    """Print a group."""
    if as_json:
        print_json(one)
        return
    if what:
        print_line(f"group {one['name']} {what}")
    for limit in _limits(one):
        print_line(f"  {show_limit(limit)}")
    hidden = {"name", "limits"}
    unset: tuple[object, ...] = (None, [])
    settings = ((k, v) for k, v in one.items() if k not in hidden and v not in unset)
    print_line("  " + ", ".join(f"{name}={value}" for name, value in settings))


def _limits(one: "JsonObject") -> list[LimitJson]:
    return cast("list[LimitJson]", one.get("limits", []))
