"""Run any program so that it ends with this process.

`python -m headgate.cli.process.child_process COMMAND…`

The cord to the parent (see `headgate.cli.process.children`) stays tied when a process
becomes another program, so that one that knows nothing of it is held as well.
"""

from __future__ import annotations

import os
import sys

from headgate.cli.process.children import hold_to_parent

if __name__ == "__main__":
    hold_to_parent()
    os.execvp(sys.argv[1], sys.argv[1:])  # pragma: no cover - another program follows
