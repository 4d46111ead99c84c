"""Rendering of the current view: a heading, rows, and a line of keys.

Each fills the width of the terminal and is readable without colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, cast

from rich.cells import cell_len
from rich.text import Text

from headgate.cli.options.limits import show_period, show_quantity
from headgate.cli.output.plain_words import of_period
from headgate.cli.output.printing import counted, cut_middle
from headgate.cli.output.slot_holders import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.cli.client.rest import JsonObject
    from headgate.cli.output.slot_holders import SlotHolderJson
    from headgate.cli.output.use_json import UseJson
    from headgate.cli.top.feed import Answer
    from headgate.cli.top.screen import Screen

HEADING = 4
"""Lines above the rows: two of state, one empty, and the column names."""

FOOTER = 1
"""Lines below the rows."""

BAR = 12
"""Width of a bar between its brackets."""

_OTHERS = 127
"""Width that a row needs besides the group's name."""

LONG = 100_000
"""From here on a limit is shown as 100k, so that it fits its column."""

_MULTIPLES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

_STYLES = {"over": "bold red", "near": "yellow", "calm": "green", "idle": "dim"}

_NOTHING = {
    "groups": "no limit matches",
    "group": "not in use",
    "agents": "no agent has reported yet",
}
"""Shown on a page without rows."""

HELP = """
  up, down, k, j       select           page up, page down, home, end
  enter, right         the agents of the selected group
  escape, left         back to the groups
  s                    sort by standing, use, refused, name
  f                    show only over, near, calm or idle; then all again
  /                    search names and dimensions; escape ends the search
  a  g                 all agents; all groups
  p                    pause or resume
  q                    quit

  A bar shows what is admitted, against the limit; of a calendar limit, such as
  50/month, what is used of the present period. over: refusing; near: above
  the soft threshold, or 80 % of the rate; idle: not in use. The level is what
  is left in the group's bucket, or of the period; negative if in debt.
  In flight: slots that are held, of those that the group has; an agent's row
  of slots_in_flight shows the slots that it wants (demand), may hand out
  (share) and holds (admitted).
"""


class _PeriodJson(TypedDict, total=False):
    """What an API of an earlier version does not tell of a limit."""

    period: str | None
    used: float | None


class LimitRowJson(_PeriodJson):
    """One limit in the overview, in the API's JSON."""

    group: str
    dimension: str
    scope: str
    rate: float | str
    period_s: float
    standing: str
    admitted: float | None
    demand: float | None
    refused: float | None
    level: float | None
    agents: int
    slots: int | None
    in_flight: int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its width, and whether it is right-aligned."""

    name: str
    width: int
    right: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of figures under their columns.

    Attributes:
        columns: In order; the last ones are dropped on a narrow terminal.
        rows: Cells of each row, as many as columns.
        styles: Style of each row.
        total: Number of rows in all, including those not in `rows`.
        first: Number of the first row in `rows`.
    """

    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]]
    styles: list[str]
    total: int
    first: int = 0


_AGENT_COLUMNS = (
    Column("agent", 24, right=False),
    Column("dimension", 16, right=False),
    Column("demand/s", 10),
    Column("share/s", 10),
    Column("admitted/s", 10),
    Column("refused/s", 10),
    Column("held", 8),
    Column("ceiling/s", 10),
    Column("age", 7),
    Column("", 11, right=False),
)

_MEMBER_COLUMNS = (
    Column("agent", 24, right=False),
    Column("", 11, right=False),
    Column("age", 8),
    Column("lag", 8),
    Column("loss", 7),
    Column("limits", 7),
    Column("revision", 9),
)


def grid_of(screen: Screen, answer: Answer, width: int) -> Grid:
    """Return the rows of the current view; none until its answer arrives."""
    document = answer.document
    if screen.view == "groups" and "rows" in document:
        return _groups(document, width)
    if screen.view == "group" and "uses" in document:
        return _window(_agents_of_group(document), screen)
    if screen.view == "agents" and "bus_open" in document:
        return _window(_members(document), screen)
    return Grid((), [], [], 0)


def picture(
    screen: Screen,
    answer: Answer,
    grid: Grid,
    *,
    size: tuple[int, int],
    url: str,
    now_s: float,
) -> Text:
    """Return the whole picture, one line per row of the terminal.

    Args:
        screen: The current view.
        answer: The newest answer.
        grid: Its rows, from `grid_of`.
        size: Columns and rows of the terminal.
        url: Address of the API.
        now_s: Time on the monotonic clock, seconds.
    """
    width, height = size
    lines = [*_heading(screen, answer, url, now_s)]
    if screen.view == "help":
        lines += [Text(line) for line in HELP.splitlines()]
    else:
        lines += _lines(grid, screen, width)
    room = max(0, height - FOOTER)
    lines = lines[:room] + [Text()] * (room - len(lines))
    lines.append(_footer(screen, grid))
    for line in lines:
        line.truncate(max(1, width), overflow="crop")
    return Text("\n").join(lines[-height:])


def _heading(screen: Screen, answer: Answer, url: str, now_s: float) -> list[Text]:
    document = answer.document
    first = Text("headgate top", style="bold").append(f"  {url}", style="not bold")
    first.append(f"  revision {document.get('revision', '-')}", style="not bold")
    second = Text(_state(screen, document))
    if answer.failure:
        told = answer.failure if not answer.is_away else f"retrying: {answer.failure}"
        if document:
            told = f"figures are {now_s - answer.at_s:.0f} s old; {told}"
        second = Text(told, style="bold reverse")
    elif screen.paused:
        second.append("  PAUSED", style="bold reverse")
    return [first, second, Text()]


def _state(screen: Screen, document: JsonObject) -> str:
    """Return a one-line summary of the page."""
    if screen.view == "group":
        slots = _slots(document)
        said = "" if slots is None else _in_flight(slots)
        for use in cast("list[UseJson]", document.get("uses", [])):
            if told := of_period(use):
                said += f"; {told[0].lower()}{told[1:]}"
        return f"group {screen.group}: agents that use it{said}"
    if screen.view == "agents":
        bus = "open" if document.get("bus_open") else "closed"
        return f"{counted(document.get('total', 0), 'agent')}; the bus is {bus}"
    standings = cast("dict[str, int]", document.get("standings", {}))
    total = cast("int", document.get("total", 0))
    counts = ", ".join(f"{count:,} {name}" for name, count in standings.items())
    return (
        f"{counted(f'{total:,}', 'limit')}: {counts}; agents: "
        f"{document.get('agents', 0)} present, {document.get('silent', 0)} silent"
    )


def _in_flight(slots: JsonObject) -> str:
    used, most = cast("int", slots["in_use"]), cast("int", slots["slots"])
    return f"; {used:,} of {most:,} slots in flight are in use"


def _lines(grid: Grid, screen: Screen, width: int) -> list[Text]:
    """Return the column names and the rows, with the selected row marked."""
    columns = _that_fit(grid.columns, width - 2)
    names = "  ".join(_cell(column.name, column) for column in columns)
    lines = [Text(f"  {names}".ljust(width), style="reverse")]
    for index, (row, style) in enumerate(zip(grid.rows, grid.styles, strict=True)):
        cells = zip(row, columns, strict=False)
        told = "  ".join(_cell(cell, column) for cell, column in cells)
        if grid.first + index == screen.selected:
            line = Text(f"> {told}".ljust(width), style=f"{style} reverse")
        else:
            line = Text(f"  {told}", style=style)
        lines.append(line)
    if not grid.columns:
        return [Text("  loading ...")]
    if not grid.rows:
        lines.append(Text(f"  {_NOTHING.get(screen.view, '')}"))
    return lines


def _footer(screen: Screen, grid: Grid) -> Text:
    """Return the keys of this page, rarely used ones last in case they are cut off."""
    if screen.typing:
        return Text(f"search: {screen.search}_   enter keeps it, escape cancels")
    if screen.view == "help":
        return Text("escape back  q quit")
    number = f"{min(screen.selected + 1, grid.total):,} of {grid.total:,}"
    if screen.view != "groups":
        return Text(f"{number}  q quit  ? help  escape back  p pause")
    search = f": {screen.search}" if screen.search else ""
    return Text(
        f"{number}  q quit  ? help  enter who  s sort: {screen.sort}  "
        f"f show: {screen.standing}  / search{search}  a agents"
    )


def _groups(document: JsonObject, width: int) -> Grid:
    rows = cast("list[LimitRowJson]", document["rows"])
    name = max(12, min(32, width - _OTHERS))
    columns = (
        Column("group", name, right=False),
        Column("dimension", 16, right=False),
        Column("use of the limit", BAR + 8, right=False),
        Column("admitted/s", 10),
        Column("limit", 12),
        Column("refused/s", 9),
        Column("demand/s", 10),
        Column("level", 9),
        Column("agents", 6),
        Column("", 6, right=False),
        Column("in flight", 9),
    )
    return Grid(
        columns=columns,
        rows=[_group(row) for row in rows],
        styles=[_STYLES.get(row["standing"], "") for row in rows],
        total=cast("int", document.get("matching", len(rows))),
        first=cast("int", document.get("offset", 0)),
    )


def _group(row: LimitRowJson) -> tuple[str, ...]:
    node = " /node" if row["scope"] == "node" else ""
    return (
        row["group"],
        f"{row['dimension'] or '(no limit)'}{node}",
        _bar_of(row),
        _figure(row["admitted"]),
        _limit(row),
        _figure(row["refused"]),
        _figure(row["demand"]),
        _figure(row["level"]),
        str(row["agents"] or ""),
        row["standing"],
        "" if row["slots"] is None else f"{row['in_flight']}/{row['slots']}",
    )


def _limit(row: LimitRowJson) -> str:
    """Return a limit in the unit in which it was set, such as 60/h or 50/month."""
    rate = row["rate"]
    if isinstance(rate, str):
        return rate
    return f"{_amount(rate)}/{row.get('period') or show_period(row['period_s'])}"


def _bar_of(row: LimitRowJson) -> str:
    rate = row["rate"]
    if row.get("period") or isinstance(rate, str):
        return bar(row.get("used"), rate)
    return bar(row["admitted"], rate / row["period_s"])


def bar(admitted: float | None, limit: float | str) -> str:
    """Return a bar of what is admitted against a limit, both in the same unit.

    >>> bar(500.0, 1000.0)
    '[||||||      ]  50 %'
    >>> bar(None, 1000.0), bar(5.0, "unlimited"), bar(5.0, 0.0)
    ('', '', '')
    """
    if admitted is None or isinstance(limit, str) or limit <= 0:
        return ""
    part = admitted / limit
    filled = round(min(1.0, part) * BAR)
    percent = f"{min(999, round(part * 100)):>3} %"
    return f"[{'|' * filled}{' ' * (BAR - filled)}] {percent}"


def _agents_of_group(document: JsonObject) -> Grid:
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for use in cast("list[JsonObject]", document["uses"]):
        dimension = str(use["dimension"])
        for agent in cast("list[JsonObject]", use["agents"]):
            known = {k: cast("float | None", v) for k, v in agent.items()}
            figures = ("demand", "share", "admitted", "refused", "held", "ceiling")
            state = str(agent["state"])
            rows.append(
                (
                    str(agent["agent"]),
                    dimension,
                    *(_figure(known[name]) for name in figures),
                    _seconds(known["age_s"]),
                    "" if state == "present" else state,
                )
            )
            styles.append("" if state == "present" else "yellow")
    for holder in _holders(document):
        known_slots = holder["wanted"], holder["owned"], holder["in_use"]
        figures_shown = (_figure(number) for number in known_slots)
        rows.append((holder["agent"], IN_FLIGHT, *figures_shown, *[""] * 5))
        styles.append("")
    return Grid(_AGENT_COLUMNS, rows, styles, len(rows))


def _slots(document: JsonObject) -> JsonObject | None:
    """Return the slots of the group that is shown; None if it limits none."""
    return cast("JsonObject | None", document.get("slots"))


def _holders(document: JsonObject) -> list[SlotHolderJson]:
    slots = _slots(document)
    return [] if slots is None else cast("list[SlotHolderJson]", slots["agents"])


def _members(document: JsonObject) -> Grid:
    agents = cast("list[JsonObject]", document["agents"])
    rows: list[tuple[str, ...]] = [
        (
            str(agent["agent"]),
            str(agent["state"]),
            _seconds(cast("float", agent["age_s"])),
            f"{1000 * cast('float', agent['lag_s']):.0f} ms",
            f"{100 * cast('float', agent['loss']):.1f} %",
            str(agent["limits"]),
            str(agent["revision"]),
        )
        for agent in agents
    ]
    styles = ["" if agent["state"] == "present" else "yellow" for agent in agents]
    return Grid(_MEMBER_COLUMNS, rows, styles, len(rows))


def _window(grid: Grid, screen: Screen) -> Grid:
    """Return the rows from the first visible one on."""
    first = min(screen.first, max(0, grid.total - 1))
    return Grid(grid.columns, grid.rows[first:], grid.styles[first:], grid.total, first)


def _that_fit(columns: Sequence[Column], width: int) -> list[Column]:
    fitting: list[Column] = []
    for column in columns:
        width -= column.width + (2 if fitting else 0)
        if width < 0 and fitting:
            break
        fitting.append(column)
    return fitting


def _cell(text: str, column: Column) -> str:
    text = cut_middle(text, column.width)
    room = " " * (column.width - cell_len(text))
    return room + text if column.right else text + room


def _figure(value: float | None) -> str:
    """Return a number that fits into its column."""
    if value is None:
        return "-"
    if abs(value) >= 1e7:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _amount(value: float) -> str:
    """Return the number of a limit, with a multiple as it is written if it is long.

    >>> _amount(50.0), _amount(99_999.0), _amount(1_500_000.0)
    ('50', '99,999', '1.5M')
    """
    if value < LONG:
        return show_quantity(value)
    units, multiple = next(each for each in _MULTIPLES if value >= each[0])
    return f"{value / units:.4g}{multiple}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
