"""`headgate top`: usage against limits, live; q quits."""

import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import AGENTS, OVERVIEW, group_path
from headgate.cli.options.common import Api
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Format, Output
from headgate.cli.output.printing import console, print_document, print_table
from headgate.cli.top.feed import Answer, Feed, Question
from headgate.cli.top.screen import Screen, Seen, Sort, Standing, fitted, pressed

if TYPE_CHECKING:
    from headgate.cli.client.rest import Rest
    from headgate.cli.top.terminal import Terminal

MAX_ROWS = 500
"""Most rows that the API returns at once."""

LOOK_S = 1.0
"""Seconds between two redraws when nothing happens, so that ages advance."""

TOP_EPILOG = """[bold]Examples[/bold]

headgate top                           (q quits, ? shows the keys)

headgate top --sort refused --search orders

headgate top --show over --once        (one table: for a file, a script, a mail)

headgate top --show over -o name       (the names of the groups over their limit)"""


@spread
def top(
    api: Api,
    output: Output,
    once: Annotated[
        bool, typer.Option("--once", help="Print one table and exit.")
    ] = False,
    sort: Annotated[
        Sort, typer.Option(help="standing: groups over or near their limit first.")
    ] = "standing",
    show: Annotated[Standing, typer.Option(help="Only groups in this state.")] = "all",
    search: Annotated[
        str, typer.Option(help="Part of a group's name or dimension.")
    ] = "",
    rows: Annotated[
        int, typer.Option(help="Rows to print with --once.", min=1, max=MAX_ROWS)
    ] = 40,
    every: Annotated[
        float, typer.Option(help="Seconds between two updates.", min=0.1, max=60.0)
    ] = 1.0,
) -> None:
    """Show the usage of groups against their limits, live, and who uses them."""
    screen = Screen(sort=sort, standing=show, search=search)
    with api.connect() as rest:
        chosen = output.format()
        if once or chosen != "table" or not _is_person():
            _print_once(rest, screen, rows, chosen)
        else:
            _watch(rest, screen, every, str(api.resolved().url))


def question_of(screen: Screen, rows: int) -> Question:
    """Return the request that fills `rows` rows of the current view."""
    if screen.view == "group":
        return Question(f"{group_path(screen.group)}/use")
    if screen.view == "agents":
        return Question(AGENTS)
    query: dict[str, str | int | float] = {
        "sort": screen.sort,
        "search": screen.search,
        "offset": screen.first,
        "limit": max(1, min(rows, MAX_ROWS)),
    }
    if screen.standing != "all":
        query["standing"] = screen.standing
    return Question(OVERVIEW, query)


def _is_person() -> bool:
    """Return whether both stdin and stdout are a capable terminal."""
    if find_spec("termios") is None:  # Windows
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and not console().is_dumb_terminal


def _print_once(rest: "Rest", screen: Screen, rows: int, chosen: Format) -> None:
    from headgate.cli.top.drawing import grid_of

    question = question_of(screen, rows)
    document = rest.call("GET", question.path, query=question.query)
    answer = Answer(question, document, at_s=time.monotonic())
    if print_document(document, chosen, names=lambda: dict.fromkeys(_names(answer))):
        return
    grid = grid_of(screen, answer, 200)
    names = [f"{column.name}{'>' * column.right}" for column in grid.columns]
    print_table(names, grid.rows, in_full=chosen == "wide")


def _watch(rest: "Rest", screen: Screen, every_s: float, url: str) -> None:
    from headgate.cli.process.children import termination_as_interrupt
    from headgate.cli.top.terminal import Terminal

    rest.call(
        "GET", OVERVIEW, query={"limit": 1}
    )  # refused or unreachable: fail before taking the terminal
    with termination_as_interrupt(), Terminal(console()) as terminal:
        rows = _height(terminal)
        question = question_of(screen, rows)
        with Feed(rest, question, every_s=every_s, tell=terminal.wake) as feed:
            _run(terminal, feed, screen, url)


def _run(terminal: "Terminal", feed: Feed, screen: Screen, url: str) -> None:
    """Draw, wait, and handle keys until the user quits."""
    from headgate.cli.top.drawing import grid_of, picture

    while not screen.ended:
        size, height = terminal.size(), _height(terminal)
        answer = feed.newest
        grid = grid_of(screen, answer, size[0])
        seen = Seen(_names(answer), grid.first, grid.total, height)
        if grid.columns:
            screen = fitted(screen, seen)
        now_s = time.monotonic()
        terminal.show(picture(screen, answer, grid, size=size, url=url, now_s=now_s))
        feed.ask(question_of(screen, height), paused=screen.paused)
        keys = terminal.keys(LOOK_S)
        if keys is None:
            return
        for key in keys:
            screen = pressed(screen, key, seen)


def _height(terminal: "Terminal") -> int:
    """Return the number of rows that fit."""
    from headgate.cli.top.drawing import FOOTER, HEADING

    return max(1, terminal.size()[1] - HEADING - FOOTER)


def _names(answer: Answer) -> tuple[str, ...]:
    rows = cast("list[dict[str, object]]", answer.document.get("rows", []))
    return tuple(str(row["group"]) for row in rows)
