"""The command `headgate`: groups, attachments, status, a server, a demo.

Other components use `main` alone.  A command imports what it needs when it runs, so
``headgate --help`` is quick.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headgate.cli.failure import FAILED, INTERRUPTED

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
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(
            f"headgate: the command needs {missing.name}: pip install 'headgate[cli]',"
            " or 'headgate[server]' for the server as well\n"
        )
        return FAILED
    except KeyboardInterrupt:  # before there was anything to stop
        return INTERRUPTED
