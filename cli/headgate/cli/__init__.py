"""The command `headgate`: groups, attachments, status, a server, a demo.

`main` is all that others use.  What a command needs is imported when it runs, so
that ``headgate --help`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.cli.failure import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: Without the program's name; those of the process by default.

    Returns:
        0 when it was done, 1 when it failed or was refused, 2 when it was not
        understood, 130 after Ctrl-C.
    """
    try:
        from headgate.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # before there was anything to end
        return INTERRUPTED
