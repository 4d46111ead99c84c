"""Run any program so that it ends with its parent.

`python -m headgate.cli.process.child_process COMMAND…`

PR_SET_PDEATHSIG (see `headgate.cli.process.children`) survives `execve`, so this also
works for a program that knows nothing about it.
"""

from __future__ import annotations

import os
import sys

from headgate.cli.process.children import hold_to_parent

if __name__ == "__main__":
    hold_to_parent()
    os.execvp(sys.argv[1], sys.argv[1:])  # pragma: no cover - another program follows
