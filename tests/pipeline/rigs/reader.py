"""A reader in a process of its own: all tables again and again, by another library.

``python -m tests.pipeline.rigs.reader OUT``: reads with delta-rs until its standard
input is closed, then says how many times.  A table that can't be read, that has lost
rows or units, or that holds a row twice, ends it with an error.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLACED = ("usage_open", "bill")
"""Tables that are made anew; all others are only added to."""


def main(out: str) -> None:
    """Read until told to stop."""
    told = threading.Event()
    threading.Thread(target=_until_closed, args=(told,), daemon=True).start()
    sums: dict[str, Counter[str]] = {}
    rounds = 0
    while not told.wait(0.2):
        for name, table in tables_of(Path(out)):
            keys = [name for name in table.column_names if _is_key(table, name)]
            different = table.select(keys).group_by(keys).aggregate([]).num_rows
            assert different == table.num_rows, f"{name}: a row is there twice"
            now = Counter({"rows": table.num_rows})
            if "admitted" in table.column_names:
                now["admitted"] = round(table.column("admitted").to_numpy().sum())
            before = sums.get(name, Counter())
            grown = all(now[each] >= before[each] for each in before)
            assert grown or name in REPLACED, f"{name}: {before} became {now}"
            sums[name] = now
        rounds += 1
    sys.stdout.write(f"{rounds} {sum(each['rows'] for each in sums.values())}\n")
    sys.stdout.flush()
    # Everything is written; Arrow's threads now and then abort a process that returns.
    os._exit(0)


def tables_of(out: Path) -> Iterator[tuple[str, pa.Table]]:
    """Yield all tables that are there, as they are now."""
    for log in sorted(out.glob("tables/*/_delta_log")):
        if any(log.glob("*.json")):
            yield log.parent.name, DeltaTable(str(log.parent)).to_pyarrow_table()
    if any(out.glob("steps/_delta_log/*.json")):
        steps = DeltaTable(str(out / "steps"))
        kinds = steps.to_pyarrow_table(columns=["kind"]).column("kind").to_pylist()
        assert kinds.count("head") == 1, f"steps: {Counter(kinds)}"


def _is_key(table: pa.Table, name: str) -> bool:
    """Whether a column tells rows apart: no amount, no list, and no batch."""
    kind = table.column(name).type
    other = pa.types.is_floating(kind) or pa.types.is_nested(kind)
    return not other and name != "batch"


def _until_closed(told: threading.Event) -> None:
    sys.stdin.read()
    told.set()


if __name__ == "__main__":
    main(sys.argv[1])
