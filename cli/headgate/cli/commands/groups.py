"""`headgate group`: create, show, change and delete resource groups."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import ATTACHMENTS, GROUPS, group_path
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.group_settings import GroupSettings
from headgate.cli.options.limits import UNLIMITED, LimitJson, parse_key, show_limit
from headgate.cli.options.output import Output
from headgate.cli.output.confirmation import confirm
from headgate.cli.output.preview import changed_group, check_removed, print_preview
from headgate.cli.output.printing import (
    Listing,
    print_document,
    print_items,
    print_json,
    print_line,
)
from headgate.cli.output.unknown_names import warn_of_tenants

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

MOST_ATTACHMENTS = 20
"""Subjects that `group show` lists at a terminal."""

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
            warn_of_tenants(rest, settings.tenants())
            return
        made = rest.call("POST", GROUPS, body={"name": name, **body})
        warn_of_tenants(rest, settings.tenants())
    _show(made, as_json, "created")


@group.command("list")
@spread
def list_groups(api: Api, output: Output) -> None:
    """List all groups by name."""
    chosen = output.format()
    with api.connect() as rest:
        groups = list(rest.pages(GROUPS))
    print_items(_LISTING, groups, chosen)


@group.command("show")
@spread
def show_group(name: GroupName, api: Api, output: Output) -> None:
    """Show one group with its settings, what is attached, and overrides in force."""
    from headgate.cli.commands.attachments import shown_subject
    from headgate.cli.commands.overrides import PATH as OVERRIDES
    from headgate.cli.commands.overrides import shown_override

    chosen = output.format()
    with api.connect() as rest:
        one = rest.call("GET", group_path(name))
        if chosen == "name":
            print_line(name)
            return
        overrides = list(rest.pages(OVERRIDES, {"group": name}))
        most = MOST_ATTACHMENTS + 1 if chosen == "table" else None
        attached = list(islice(rest.pages(ATTACHMENTS, {"group": name}), most))
    whole = {**one, "attachments": attached, "overrides": overrides}
    if print_document(whole, chosen, names=lambda: [name]):
        return
    print_line(f"group {name}")
    _show(one, False, "")
    for override in overrides:
        print_line(f"  override in force: {shown_override(override)}")
    for item in attached[: None if most is None else MOST_ATTACHMENTS]:
        subject = cast("dict[str, str | None]", item.get("subject", {}))
        print_line(f"  attached: {shown_subject(subject)}")
    if not attached:
        print_line("  nothing is attached")
    if most is not None and len(attached) == most:
        print_line(f"  … more: headgate attachments --group {name}")


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
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Change the given settings and leave the rest; takes effect within a second.

    Asks before it removes a limit or makes one unlimited; without a terminal, that
    needs --yes.
    """
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
                warn_of_tenants(rest, settings.tenants())
                return
        confirm(_ended(name, limits), yes=yes)
        changed = rest.call("PATCH", group_path(name), body=body)
        warn_of_tenants(rest, settings.tenants())
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


def _ended(name: str, limits: list[LimitJson]) -> list[str]:
    """Return a sentence for each limit that a change ends."""
    return [
        f"group {name} will no longer limit {limit.get('dimension')}"
        for limit in limits
        if "rate" in limit and limit["rate"] in {None, UNLIMITED}
    ]


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


def _details(one: "JsonObject") -> list[str]:
    """Return what only ``-o wide`` shows."""
    soft = one.get("soft_threshold")
    return [
        str(one.get("per") or ""),
        "" if one.get("slots") is None else str(one["slots"]),
        f"{one.get('weight')}",
        str(one.get("isolation", "")),
        "yes" if one.get("may_owe") else "no",
        "" if soft is None else f"{soft}",
        str(one.get("split") or ""),
        "yes" if one.get("per_partition") else "no",
        str(one.get("owner") or ""),
        ", ".join(cast("list[str]", one.get("offered_to") or [])),
        str(one.get("id", "")),
        str(one.get("revision", "")),
    ]


_LISTING = Listing["JsonObject"](
    ["group", "limits", "mode", "refusal", "parent"],
    _row,
    lambda one: str(one["name"]),
    wide=[
        *("per", "slots>", "weight>", "isolation", "may owe", "soft threshold>"),
        *("split", "per partition", "owner", "offered to", "id>", "revision>"),
    ],
    wide_row=_details,
)
