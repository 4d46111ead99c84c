"""`headgate status` and `headgate slots`: what is used now, by each agent."""

from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from headgate.cli.client.paths import group_path
from headgate.cli.client.polling import again, answers
from headgate.cli.failure import Unreachable
from headgate.cli.options.common import Api
from headgate.cli.options.completers import GroupName, group_names
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.output.printing import (
    console,
    print_document,
    print_items,
    print_line,
)
from headgate.cli.output.slot_holders import HOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from rich.console import RenderableType

    from headgate.cli.client.rest import JsonObject
    from headgate.cli.output.live_view import LiveView
    from headgate.cli.output.share_table import ShareTable
    from headgate.cli.output.slot_holders import SlotHolderJson

    Seen: TypeAlias = tuple[list[ShareTable], list[str]]

Answer = TypeVar("Answer")

NOTHING = "no group is in use"

STATUS_EPILOG = """[bold]Examples[/bold]

headgate status                  (a live table until Ctrl-C, through outages)

headgate status gold --once

headgate status --json --once    (for programs)"""


@spread
def status(
    api: Api,
    output: Output,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP",
            help="Only this group.",
            show_default=False,
            autocompletion=group_names,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    every: Annotated[
        float, typer.Option(help="Seconds between two updates.", min=0.1, max=60.0)
    ] = 1.0,
) -> None:
    """Show demand, share, admitted, refused and level of each agent, live."""
    from headgate.cli.output.live_view import LiveView

    chosen = output.format()
    with LiveView(api.connect()) as live:
        if chosen not in {"table", "wide"}:

            def show(document: "JsonObject") -> None:
                print_document(document, chosen, names=lambda: _names(document, group))

            _print(lambda: live.document(group), show, once, every)
        elif once or not console().is_terminal:
            picture = _as_tables if once else _as_lines
            _print(lambda: _seen(live, group), picture, once, every)
        else:
            _watch(live, group, every)


def _names(document: "JsonObject", group: str | None) -> "list[str]":
    """Return the names of the groups that a document of the live state is about."""
    if group is not None:
        return [group]
    rows = cast("list[JsonObject]", document.get("rows", []))
    return list(dict.fromkeys(str(row["group"]) for row in rows))


def _seen(live: "LiveView", group: str | None) -> "Seen":
    """Return a table for each limit, and the lines below them."""
    sheets = live.sheets(group)
    return sheets, live.partitions() if group is None else []


def _print(
    ask: "Callable[[], Answer]",
    show: "Callable[[Answer], None]",
    once: bool,
    every_s: float,
) -> None:
    """Show one answer, or all until Ctrl-C."""
    if once:
        show(ask())
        return
    for answer in answers(ask, every_s=every_s):
        show(answer)


def _as_tables(seen: "Seen") -> None:
    from headgate.cli.output.share_table import as_table

    sheets, lines = seen
    for sheet in sheets:
        console().print(as_table(sheet))
    for line in lines if sheets else [NOTHING, *lines]:
        print_line(line)


def _as_lines(seen: "Seen") -> None:
    from headgate.cli.output.share_table import as_line

    sheets, lines = seen
    for line in [as_line(sheet) for sheet in sheets] or [NOTHING]:
        print_line(line)
    for line in lines:
        print_line(line)


def _watch(live: "LiveView", group: str | None, every_s: float) -> None:
    """Redraw in place until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    from headgate.cli.output.share_table import as_table
    from headgate.cli.process.children import termination_as_interrupt

    shown: list[RenderableType] = [NOTHING]
    drawing = Live(console=console(), auto_refresh=False)
    with termination_as_interrupt(), drawing as screen:
        for answer in again(lambda: _seen(live, group), every_s=every_s):
            if isinstance(answer, Unreachable):
                screen.update(Group(*shown, f"not updated: {answer}"), refresh=True)
                continue
            sheets, lines = answer
            shown = [as_table(sheet) for sheet in sheets]
            shown = [*(shown or [NOTHING]), *lines]
            screen.update(Group(*shown), refresh=True)


SLOTS_EPILOG = """[bold]Examples[/bold]

headgate group update gold --slots 20

headgate slots gold

headgate slots gold -o name    (the agents that hold, want or may hand out slots)"""


@spread
def slots(group: GroupName, api: Api, output: Output) -> None:
    """Show how many requests are in flight, by agent."""
    chosen = output.format()
    with api.connect() as rest:
        shown = rest.call("GET", f"{group_path(group)}/slots")
    holders = cast("list[SlotHolderJson]", shown["agents"])
    names = [holder["agent"] for holder in holders]
    if print_document(shown, chosen, names=lambda: names):
        return
    if shown["slots"] is None:
        print_line(f"{group} does not limit how many requests are in flight")
        return
    print_line(f"{group}: {shown['in_use']} of {shown['slots']} slots in use")
    print_items(HOLDERS, holders, chosen)
