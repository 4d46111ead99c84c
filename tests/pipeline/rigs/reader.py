"""A reader in a process of its own: all tables again and again, by another library.

``python -m tests.pipeline.rigs.reader TABLES``: reads with delta-rs until its standard
input is closed, then says how many times.  A table that can't be read, or that has
lost rows, ends it with an error.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from deltalake import DeltaTable

GROWING = ("usage_10s", "usage_1m", "unfairness", "starved", "noisy", "gaps")
"""Tables that are only added to."""


def main(root: str) -> None:
    """Read until told to stop."""
    told = threading.Event()
    threading.Thread(target=_until_closed, args=(told,), daemon=True).start()
    rows = dict.fromkeys(GROWING, 0)
    rounds = 0
    while not told.wait(0.05):
        for name in GROWING:
            if any(Path(root, name, "_delta_log").glob("*.json")):
                count = DeltaTable(str(Path(root, name))).to_pyarrow_table().num_rows
                assert count >= rows[name], f"{name}: {rows[name]} rows became {count}"
                rows[name] = count
        rounds += 1
    sys.stdout.write(f"{rounds} {sum(rows.values())}\n")


def _until_closed(told: threading.Event) -> None:
    sys.stdin.read()
    told.set()


if __name__ == "__main__":
    main(sys.argv[1])
