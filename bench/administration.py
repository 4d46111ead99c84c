"""What 100,000 attachments and 5,000 groups cost: apply, list, snapshot, one change.

    .venv/bin/python -m bench.administration [postgresql://…]

The server is a process of its own, as `headgate up` is; the agent is in this one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

import headgate.agent

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = 5_000
ATTACHMENTS = 100_000
CHANGES = 21
"""Changes whose time to reach the agent is measured; the median is printed."""

SERVE = """
import json, sys
from pathlib import Path
from headgate.api import ServerSettings, run
given = json.loads(sys.argv[1])
run(ServerSettings(database=given["database"], port=0, bus_ports=(0, 0),
                   ready_file=Path(given["ready"])))
"""


def served(stack: ExitStack, database: str | None) -> tuple[str, int]:
    """Start a server; return its URL and its process's id."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    ready = folder / "ready.json"
    given = {"database": database or str(folder / "x.db"), "ready": str(ready)}
    server = subprocess.Popen([sys.executable, "-c", SERVE, json.dumps(given)])
    stack.callback(server.wait)
    stack.callback(server.terminate)
    while not ready.exists() or not ready.read_text().endswith("\n"):
        time.sleep(0.05)
    told = json.loads(ready.read_text())
    return str(told["api"]), int(told["pid"])


def timed(what: str, do: Callable[[], httpx.Response]) -> httpx.Response:
    """Print how long a request takes, and how large its answer is."""
    began = time.perf_counter()
    answer = do()
    answer.raise_for_status()
    elapsed_s = time.perf_counter() - began
    size = len(answer.content)
    print(f"{what:44} {elapsed_s:8.3f} s {size:12,} bytes")
    return answer


def main() -> None:
    """Fill a store and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "database", nargs="?", help="postgresql://…; by default, SQLite"
    )
    database = parser.parse_args().database
    if database is not None and not database.startswith("postgresql"):
        parser.error(f"database: expected postgresql://…, got {database!r}")
    with ExitStack() as stack:
        url, _ = served(stack, database)
        rest = stack.enter_context(
            httpx.Client(base_url=f"{url}/api/v1", timeout=600.0)
        )
        limits = [{"dimension": "requests", "rate": 100}]
        quotas: dict[str, Any] = {
            "groups": {f"g{n}": {"limits": limits} for n in range(GROUPS)},
            "attachments": [
                {"subject": {"user": f"u{n}"}, "group": f"g{n % GROUPS}"}
                for n in range(ATTACHMENTS)
            ],
        }
        timed("apply", lambda: rest.post("/apply", json=quotas))
        timed("apply again", lambda: rest.post("/apply", json=quotas))
        timed("snapshot, first", lambda: rest.get("/snapshot"))
        timed("snapshot", lambda: rest.get("/snapshot"))
        timed("a page of 1,000", lambda: rest.get("/attachments?limit=1000"))
        deep = f"/attachments?limit=1000&after={ATTACHMENTS - 2_000}"
        timed("the last page", lambda: rest.get(deep))
        query = {"kind": "user", "name": "u777"}
        timed("one by name", lambda: rest.get("/attachments", params=query))
        change(url, rest)


def change(url: str, rest: httpx.Client) -> None:
    """Time a change until a full read, a read of changes and an agent have it."""
    revision = rest.get("/snapshot").json()["revision"]
    body = {"subject": {"user": "u1"}, "group": "g7"}
    rest.put("/attachments", json=body).raise_for_status()
    told = {"revision": revision, "changes": True}
    timed("what changed", lambda: rest.get("/snapshot", params=told))
    whole = {"revision": revision}
    timed("the whole after a change", lambda: rest.get("/snapshot", params=whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.json"
        with headgate.agent.connect(url, agent="bench", snapshot_path=path) as agent:
            while agent.status().revision != revision + 1:
                time.sleep(0.05)
            took: list[float] = []
            for number in range(CHANGES):
                body["group"] = f"g{100 + number}"
                began = time.perf_counter()
                answer = rest.put("/attachments", json=body)
                wanted = int(answer.headers["Headgate-Revision"])
                while agent.status().revision != wanted:
                    time.sleep(0.002)
                took.append(time.perf_counter() - began)
            told_s = statistics.median(took)
            print(f"{'PUT until in force in the agent, median':44} {told_s:8.3f} s")
            print(f"{'  slowest of ' + str(CHANGES):44} {max(took):8.3f} s")


if __name__ == "__main__":
    main()
