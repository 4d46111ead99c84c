"""The command `headgate`: groups, attachments, status, a server, a demo.

Other components use `main` alone.  A command imports what it needs when it runs, so
``headgate --help`` is quick.
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
        arguments: Without the program's name; the process's own by default.

    Returns:
        0 on success, 1 if the command failed or was refused, 2 on a usage error,
        130 after Ctrl-C.
    """
    try:
        from headgate.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # before there was anything to stop
        return INTERRUPTED
