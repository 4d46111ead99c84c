"""Output of the commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

Item = TypeVar("Item")

PLAIN_WIDTH = 200
"""Width of a table that goes to a file, so that nothing wraps."""


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
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


def print_list(
    headings: Sequence[str],
    items: Sequence[Item],
    row: Callable[[Item], Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print a table with a row for each item, or all items for a program."""
    if as_json:
        print_json(items)
    else:
        print_table(headings, [row(item) for item in items])


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; a heading that ends in ``>`` right-aligns its column."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        right = heading.endswith(">")
        table.add_column(
            heading.removesuffix(">"),
            justify="right" if right else "left",
            no_wrap=True,
        )
    for row in rows:
        table.add_row(*row)
    console().print(table)


def console() -> Console:
    """Return a console on stdout that never wraps output to a file."""
    from rich.console import Console

    to_person = sys.stdout.isatty()
    return Console(
        width=None if to_person else PLAIN_WIDTH, markup=False, highlight=False
    )
