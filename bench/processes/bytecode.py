"""Bytecode for a checkout; for an installed package, pip compiles it."""

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

    Otherwise, with ``PYTHONDONTWRITEBYTECODE`` set as in many containers, each start of
    a checkout compiles every module: twice the CPU of what is to be measured.

    Args:
        stack: Deletes the bytecode when it is closed.
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
