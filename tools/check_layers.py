"""Check the layers with import-linter.

An editable install serves ``import headgate`` from one file (see `hatch_build.py`).
With it, import-linter takes `headgate` for an ordinary package; without it, for the
namespace package that the sources form.
"""

import sys

from importlinter.cli import lint_imports

sys.meta_path[:] = [
    finder for finder in sys.meta_path if finder.__module__ != "_headgate_editable"
]

if __name__ == "__main__":
    sys.exit(lint_imports())
