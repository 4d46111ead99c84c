"""Check the layers with import-linter.

An editable install serves ``import headgate`` from one file (see `hatch_build.py`).
import-linter then takes `headgate` for an ordinary package, and its components for
mere parts of it; without that finder it sees the namespace that the sources are.
"""

import sys

from importlinter.cli import lint_imports

sys.meta_path[:] = [
    finder for finder in sys.meta_path if finder.__module__ != "_headgate_editable"
]

if __name__ == "__main__":
    sys.exit(lint_imports())
