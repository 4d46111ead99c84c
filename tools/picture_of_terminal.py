"""Render the output of a terminal as SVG: ``picture_of_terminal.py OUT < ANSI``."""

import io
import sys

from rich.console import Console
from rich.text import Text

COLUMNS = 100
"""Wide enough for the demo's summary."""


def main() -> int:
    """Read ANSI text from standard input and write the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in sys.stdin.read().splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    console.save_svg(sys.argv[1], title="Headgate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
