"""An API with quotas, and the servers of applications that keep to them."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.api import Addresses
    from headgate.cli.process.children import Child, Children

EXAMPLES = Path(__file__).parents[3] / "examples" / "services"

PATIENCE_S = 60.0
"""How long a test waits for what must come; the machine may be busy."""

AGE_S = 1.0
"""Information may be this old on a busy machine: what may be admitted over Q·W + B is
this much of the rate, and a request for each process."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)


class Quotas:
    """What an operator does with the API of a test."""

    def __init__(self, server: Addresses) -> None:
        self.url = server.api
        self._rest = httpx.Client(base_url=f"{server.api}/api/v1", timeout=PATIENCE_S)

    def close(self) -> None:
        """Let the connections go."""
        self._rest.close()

    def put(
        self,
        tenant: str,
        *,
        refusal: str = "reject",
        period_s: float = 1.0,
        may_owe: bool = True,
        **rates: tuple[float, float],
    ) -> None:
        """Give a tenant a group of its own: rate and burst by dimension."""
        limits = [
            {"dimension": name, "rate": rate, "burst": burst, "period_s": period_s}
            for name, (rate, burst) in rates.items()
        ]
        group = {"limits": limits, "refusal": refusal, "may_owe": may_owe}
        self._call("PUT", f"/groups/{tenant}", group)
        self._call("PUT", f"/tenants/{tenant}", {})
        attachment = {"subject": {"tenant": tenant}, "group": tenant}
        self._call("PUT", "/attachments", attachment)

    def attach(self, group: str, **subject: str) -> None:
        """Attach a subject to a group that is there."""
        self._call("PUT", "/attachments", {"subject": subject, "group": group})

    def groups(self) -> set[str]:
        """Return the names of all groups."""
        return {group["name"] for group in self._rest.get("/groups").json()["items"]}

    def use(self, group: str) -> httpx.Response:
        """Return who uses a group."""
        return self._rest.get(f"/groups/{group}/use")

    def _call(self, method: str, path: str, body: object) -> None:
        answer = self._rest.request(method, path, json=body)
        assert answer.is_success, answer.text


def start_server(
    children: Children, name: str, command: list[str], log: Path
) -> tuple[Child, str]:
    """Start gunicorn or uvicorn on a free port; return it and its address."""
    child = children.start(name, [sys.executable, "-m", *command], log=log, talks=False)
    found: list[str] = []

    def listens() -> bool:
        assert child.returncode is None, log.read_text()
        said = log.read_text() if log.exists() else ""
        match = re.search(
            r"(?:Listening at:|running on) (http://127\.0\.0\.1:\d+)", said
        )
        if match:
            found.append(match[1])
        return bool(match)

    until(listens, f"{name} to listen: {log}")
    return child, found[0]


def gunicorn(app: str, *options: str) -> list[str]:
    """Return the command of gunicorn for an example."""
    command = ["gunicorn", app, "--chdir", str(EXAMPLES), "--bind", "127.0.0.1:0"]
    # Its heartbeat files belong where a busy disk does not delay them.
    shared = ["--worker-tmp-dir", "/dev/shm"] if os.path.isdir("/dev/shm") else []
    return [*command, "--no-control-socket", *shared, *options]


class Hammer:
    """Clients that ask as fast as they may, and what they were answered.

    Attributes:
        statuses: Answers by status.
        pids: Answers of status 200 by the process that gave them.
        elapsed_s: From the first request to the last answer.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float,
        clients: int = 4,
        pause_s: float = 0.005,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Ask for so many seconds.

        Each request has a connection of its own, so that each process gets its part.
        """
        self.statuses: Counter[int] = Counter()
        self.pids: Counter[int] = Counter()
        self._headers = headers or {}
        self._lock = threading.Lock()
        began = time.monotonic()
        threads = [
            threading.Thread(target=self._ask, args=(url, began + seconds, pause_s))
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.elapsed_s = time.monotonic() - began

    def _ask(self, url: str, end_s: float, pause_s: float) -> None:
        parts = urlsplit(url)
        while time.monotonic() < end_s:
            # httpx takes longer for a new connection than the service for its answer.
            connection = HTTPConnection(parts.netloc, timeout=PATIENCE_S)
            with closing(connection):
                connection.request("GET", parts.path or "/", headers=self._headers)
                answer = connection.getresponse()
                body = answer.read()
            with self._lock:
                self.statuses[answer.status] += 1
                if answer.status == HTTPStatus.OK:
                    self.pids[json.loads(body)["pid"]] += 1
            time.sleep(pause_s)


def check_admitted(
    admitted: int, *, rate: float, burst: float, elapsed_s: float, processes: int
) -> None:
    """Check that a quota was kept, and that it was not left unused."""
    most = rate * elapsed_s + burst + rate * AGE_S + processes
    least = 0.6 * rate * elapsed_s
    assert least <= admitted <= most, (admitted, least, most)
