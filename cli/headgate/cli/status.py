"""`headgate status`: who wants, may and gets how much, as it changes."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.names import group_names
from headgate.cli.options import Api, AsJson
from headgate.cli.output import console, print_json, print_line
from headgate.cli.spread import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.cli.live import LiveView

STATUS_EPILOG = """[bold]Examples[/bold]

headgate status                  (a live table; Ctrl-C ends it)

headgate status gold --once

headgate status --json --once    (for programs)"""


@spread
def status(
    api: Api,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP",
            help="Only this group.",
            show_default=False,
            autocompletion=group_names,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    every: Annotated[
        float, typer.Option(help="Seconds between two pictures.", min=0.1, max=60.0)
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show demand, share, admitted, refused and level of each agent, live."""
    from headgate.cli.live import LiveView

    with LiveView(api.connect()) as live:
        if as_json:
            _repeat(lambda: print_json(live.document(group)), once, every)
        elif once or not console().is_terminal:
            _repeat(lambda: _print(live, group, once=once), once, every)
        else:
            _watch(live, group, every)


def _print(live: "LiveView", group: str | None, *, once: bool) -> None:
    from headgate.cli.table import as_line, as_table

    sheets = live.sheets(group)
    if not sheets:
        print_line("no group is in use")
    for sheet in sheets:
        if once:
            console().print(as_table(sheet))
        else:
            print_line(as_line(sheet))
    if group is None:
        for line in live.partitions():
            print_line(line)


def _watch(live: "LiveView", group: str | None, every_s: float) -> None:
    """Draw over the picture before, until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    from headgate.cli.table import as_table

    with Live(console=console(), auto_refresh=False) as screen:
        while True:
            tables = [as_table(sheet) for sheet in live.sheets(group)]
            lines = live.partitions() if group is None else []
            shown = Group(*tables, *lines) if tables else "no group is in use"
            screen.update(shown, refresh=True)
            time.sleep(every_s)


def _repeat(act: "Callable[[], None]", once: bool, every_s: float) -> None:
    act()
    while not once:
        time.sleep(every_s)
        act()
