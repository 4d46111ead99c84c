"""Output of the commands: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import codecs
import json
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from headgate.cli.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from headgate.cli.options.output import Format

Item = TypeVar("Item")

PLAIN_WIDTH = 200
"""Width of a live table that goes to a file, so that nothing wraps."""

GAP = "   "
"""Between two columns of a table."""

LEAST = 12
"""Cells that a column keeps when a table is too wide for the terminal."""


@dataclass(frozen=True)
class Listing(Generic[Item]):
    """How items are listed.

    Attributes:
        headings: Headings of the columns; one that ends in ``>`` aligns its column
            right.
        row: Returns the cells of an item.
        name: Returns the name by which other commands take an item.
        wide: Headings of the further columns of ``-o wide``.
        wide_row: Returns their cells.
    """

    headings: Sequence[str]
    row: Callable[[Item], Sequence[str]]
    name: Callable[[Item], str]
    wide: Sequence[str] = ()
    wide_row: Callable[[Item], Sequence[str]] | None = None


def counted(count: object, noun: str) -> str:
    """Return a count, or a figure as text, with its noun.

    >>> counted(1, "agent"), counted("-1", "unit"), counted("1.5", "unit")
    ('1 agent', '-1 unit', '1.5 units')
    """
    return f"{count} {noun}{'' if str(count) in {'1', '-1'} else 's'}"


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    print_line(json_text(value, indent=2))


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return `value` as JSON, escaped where stdout can't take every character."""
    return json.dumps(value, indent=indent, ensure_ascii=not _takes_unicode())


def print_yaml(value: object) -> None:
    """Print `value` as YAML.

    Raises:
        Failure: PyYAML is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise Failure(
            "YAML needs PyYAML: pip install 'headgate[cli]', or use -o json"
        ) from error
    text = yaml.dump(
        value,
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        allow_unicode=_takes_unicode(),
        default_flow_style=None,
        width=100,
    )
    sys.stdout.write(text)
    sys.stdout.flush()


def print_line(text: str) -> None:
    """Print one line, and flush."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_result(line: str, answer: object, *, as_json: bool) -> None:
    """Print `line` for a person, or `answer` for a program."""
    if as_json:
        print_json(answer)
    else:
        print_line(line)


def print_document(
    value: object, chosen: Format, *, names: Callable[[], Iterable[str]]
) -> bool:
    """Print `value` if a program asked for it; return whether one did.

    Args:
        value: What JSON and YAML hold.
        chosen: The format.
        names: Returns what ``-o name`` prints, one a line.
    """
    if chosen == "json":
        print_json(value)
    elif chosen == "yaml":
        print_yaml(value)
    elif chosen == "name":
        for name in names():
            print_line(name)
    else:
        return False
    return True


def print_items(listing: Listing[Item], items: Sequence[Item], chosen: Format) -> None:
    """Print items in the chosen format."""
    if print_document(items, chosen, names=lambda: map(listing.name, items)):
        return
    headings = [*listing.headings]
    rows = [[*listing.row(item)] for item in items]
    if chosen == "wide" and listing.wide_row is not None:
        headings += listing.wide
        for cells, item in zip(rows, items, strict=True):
            cells += listing.wide_row(item)
    print_table(headings, rows, in_full=chosen == "wide")


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, in_full: bool = False
) -> None:
    """Print a table; a heading that ends in ``>`` aligns its column right.

    At a terminal, long cells are cut in the middle so that a row fits one line,
    unless the table is wanted `in_full`.
    """
    to_person = sys.stdout.isatty() and not in_full
    width = shutil.get_terminal_size().columns if to_person else None
    for line in table_lines(headings, [list(row) for row in rows], width):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    """Return the lines of a table that is at most `width` cells wide, if it can be.

    >>> for line in table_lines(["name", "use>"], [["orders-eu-west-1", "7"]], 20):
    ...     print(line)
    name             use
    --------------------
    orders-…west-1     7
    """
    names = [heading.removesuffix(">") for heading in headings]
    cells = [names, *rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        _shrink(widths, width - len(GAP) * (len(widths) - 1))
    lines = [
        GAP.join(
            _padded(cut_middle(cell, size), size, right=heading.endswith(">"))
            for cell, size, heading in zip(row, widths, headings, strict=True)
        ).rstrip()
        for row in cells
    ]
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    return [lines[0], rule, *lines[1:]]


def cut_middle(text: str, width: int) -> str:
    """Return `text` in at most `width` cells: its beginning, ``…``, and its end.

    Names that share a long beginning differ at the end.

    >>> cut_middle("checkout-service-7f9c-prod-eu-west-1", 21)
    'checkout-s…-eu-west-1'
    """
    if cell_width(text) <= width:
        return text
    if width <= 0:
        return ""
    head, tail = width // 2, (width - 1) // 2
    kept = text[:head]
    while cell_width(kept) > head:
        kept = kept[:-1]
    end = text[-tail:] if tail else ""
    while cell_width(end) > tail:
        end = end[1:]
    return f"{kept}…{end}"


def cell_width(text: str) -> int:
    """Return how many cells of a terminal `text` takes.

    >>> cell_width("gold"), cell_width("金")
    (4, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _takes_unicode() -> bool:
    encoding = sys.stdout.encoding or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")


def _padded(cell: str, width: int, *, right: bool) -> str:
    room = " " * (width - cell_width(cell))
    return room + cell if right else cell + room


def _shrink(widths: list[int], total: int) -> None:
    """Take from the widest columns until all of them together fit `total` cells."""
    while sum(widths) > total:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= LEAST:
            return
        rest = [width for index, width in enumerate(widths) if index != widest]
        next_widest = max([LEAST, *(width for width in rest if width < widths[widest])])
        over = sum(widths) - total
        widths[widest] -= max(1, min(over, widths[widest] - next_widest))


def console() -> Console:
    """Return a console on stdout that never wraps output to a file."""
    from rich.console import Console

    to_person = sys.stdout.isatty()
    return Console(
        width=None if to_person else PLAIN_WIDTH, markup=False, highlight=False
    )
