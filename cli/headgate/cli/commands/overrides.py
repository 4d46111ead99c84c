"""`headgate override`: temporary limits."""

import time
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import group_path
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, DryRun
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.limits import parse_period, parse_quantity, show_quantity
from headgate.cli.options.output import Output
from headgate.cli.options.times import parse_until, show_span, show_time
from headgate.cli.output.preview import print_preview
from headgate.cli.output.printing import (
    Listing,
    print_items,
    print_json,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject
    from headgate.cli.options.limits import LimitJson

PATH = "/api/v1/overrides"

override = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Dimension = Annotated[
    str | None,
    typer.Option(
        help="Only this dimension; by default all of the group.", show_default=False
    ),
]

_CREATE_EPILOG = """[bold]Examples[/bold]

headgate override create gold --by +50% --until 18:00

headgate override create gold --factor 1.5 --for 2h --reason "sale"

headgate override create gold --dimension requests --rate 500 --until 2026-11-30T08:00

headgate override create gold --by -20% --for 1h --dry-run    (who would be affected?)

Times are local unless they carry an offset. A second override of the same group and
dimension replaces the first."""


@override.command("create", epilog=_CREATE_EPILOG)
@spread
def create_override(
    group: GroupName,
    api: Api,
    factor: Annotated[
        float | None,
        typer.Option(
            help="Multiply rate and burst by this, such as 1.5.", show_default=False
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="±PERCENT",
            help="The same as a percentage: +50% or -20%.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Units per period; needs --dimension.",
            show_default=False,
        ),
    ] = None,
    dimension: Dimension = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the override: 18:00 (the next one), a date, or both.",
            show_default=False,
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="PERIOD",
            help="Duration, instead of --until.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, for the audit.")] = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change a group's limits until a given time, when they revert."""
    body: dict[str, object] = {"group": group, "reason": reason}
    body |= _change(factor=factor, by=by, rate=rate) | _end(until=until, for_=for_)
    if dimension is not None:
        body["dimension"] = dimension
    elif rate is not None:
        raise Misused("--rate: needs --dimension")
    with api.connect() as rest:
        if dry_run:
            whole = overridden(rest.call("GET", group_path(group)), body)
            print_preview(rest, group, whole, as_json)
            return
        made = rest.call("PUT", PATH, body=body)
    print_result(f"{_shown(made)} {_shown_end(made)}", made, as_json=as_json)


@override.command("list")
@spread
def list_overrides(api: Api, output: Output) -> None:
    """List the overrides in effect."""
    chosen = output.format()
    with api.connect() as rest:
        items = list(rest.pages(PATH))
    print_items(_LISTING, items, chosen)


@override.command("remove")
@spread
def remove_override(
    group: GroupName, api: Api, dimension: Dimension = None, as_json: AsJson = False
) -> None:
    """End an override early."""
    query = {"group": group}
    if dimension is not None:
        query["dimension"] = dimension
    with api.connect() as rest:
        rest.call("DELETE", PATH, query=query)
    if as_json:
        print_json({"removed": query})
    else:
        print_line(f"override of {' '.join(query.values())} removed")


def parse_factor(text: str) -> float:
    """Return the factor that corresponds to a change in percent.

    >>> parse_factor("+50%"), parse_factor("-20 %")
    (1.5, 0.8)

    Raises:
        Misused: It is not a percentage, or below -100%.
    """
    number = text.strip().removesuffix("%").rstrip()
    try:
        percent = float(number) if number[:1] in {"+", "-"} else float("nan")
    except ValueError:
        percent = float("nan")
    if not (isfinite(percent) and percent >= -100.0):
        raise Misused(f"--by {text!r}: expected a change such as +50% or -20%")
    return (100.0 + percent) / 100.0


def overridden(group: "JsonObject", override: dict[str, object]) -> "JsonObject":
    """Return a group as an override would make it."""
    factor = cast("float | None", override.get("factor"))
    limits: list[LimitJson] = []
    for limit in cast("list[LimitJson]", group.get("limits", [])):
        changed = limit.copy()
        if override.get("dimension") in (None, limit.get("dimension")):
            _override(changed, factor, override.get("rate"))
        limits.append(changed)
    return {**group, "limits": limits}


def _override(limit: "LimitJson", factor: float | None, new: object) -> None:
    """Change rate and burst of a limit, as the API does: both by one factor."""
    rate, burst = limit.get("rate") or 0.0, limit.get("burst", 0.0)
    if factor is None:
        limit["rate"] = cast("float | str", new)
        if isinstance(new, float) and isinstance(rate, float) and rate > 0 < new:
            limit["burst"] = _times(burst, new / rate)
        else:
            limit.pop("burst", None)
    else:
        limit["rate"] = _times(rate, factor)
        limit["burst"] = _times(burst, factor)


def _times(units: float | str, factor: float) -> float | str:
    return units if isinstance(units, str) else units * factor


def _change(
    *, factor: float | None, by: str | None, rate: str | None
) -> dict[str, object]:
    """Return the change that was given.

    Raises:
        Misused: None was given, or more than one.
    """
    if sum(one is not None for one in (factor, by, rate)) != 1:
        raise Misused("expected one of --factor, --by and --rate")
    if rate is not None:
        return {"rate": parse_quantity(rate)}
    factor = parse_factor(by) if by is not None else factor
    if factor is None or not isfinite(factor):
        raise Misused(f"--factor {factor}: expected a number")
    return {"factor": factor}


def _end(*, until: str | None, for_: str | None) -> dict[str, object]:
    """Return the end that was given.

    Raises:
        Misused: None was given, or both.
    """
    if (until is None) == (for_ is None):
        raise Misused("expected one of --until and --for")
    if for_ is not None:
        return {"for_s": parse_period(for_)}
    return {"until": parse_until(until or "", datetime.now().astimezone()).isoformat()}


def _row(one: "JsonObject") -> list[str]:
    return [
        str(one["group"]),
        str(one["dimension"] or "all"),
        _shown_change(one),
        _shown_end(one),
        str(one["reason"]),
    ]


def shown_override(one: "JsonObject") -> str:
    """Return what an override changes, of what, until when, and why."""
    told = f"{one.get('dimension') or 'all limits'} {_shown_change(one)} "
    reason = f" ({one['reason']})" if one.get("reason") else ""
    return told + _shown_end(one) + reason


def _shown(one: "JsonObject") -> str:
    dimension = f" {one['dimension']}" if one.get("dimension") else ""
    return f"group {one['group']}{dimension}: {_shown_change(one)}"


def _shown_change(one: "JsonObject") -> str:
    factor = cast("float | None", one.get("factor"))
    if factor is None:
        return f"rate {show_quantity(cast('float | str', one['rate']))}"
    return f"× {factor:g} ({(factor - 1) * 100:+.6g} %)"


def _shown_end(one: "JsonObject") -> str:
    ends_at_s = cast("float", one["ends_at_s"])
    return f"until {show_time(ends_at_s)} (in {show_span(ends_at_s - time.time())})"


def _words(one: "JsonObject") -> str:
    """Return an override as `headgate override remove` takes it."""
    dimension = one.get("dimension")
    return f"{one['group']}" + (f" --dimension={dimension}" if dimension else "")


_LISTING = Listing["JsonObject"](
    ["group", "dimension", "change", "ends", "reason"],
    _row,
    _words,
    wide=["revision>"],
    wide_row=lambda one: [str(one.get("revision", ""))],
)
