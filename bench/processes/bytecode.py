"""Bytecode of a checkout, which an installed package has from pip."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import ExitStack


def compiled(stack: ExitStack, *commands: list[str]) -> dict[str, str]:
    """Return an environment in which the modules of some commands are compiled.

    Without it, and with ``PYTHONDONTWRITEBYTECODE`` set as in many containers, a start
    of a checkout compiles every module: twice the CPU of what is to be measured.

    Args:
        stack: Deletes the bytecode at its end.
        commands: Run once with this interpreter; they import the modules.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": folder}
    for command in commands:
        subprocess.run(
            [sys.executable, *command],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return environment
