"""A server process that a test may stop and start again."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tools.ports import free_port

import headgate.agent

TIMEOUT_S = 60.0
"""Of a request or of a wait in the page; two slow cores are shared with others."""

SERVE = """
import json, sys
from pathlib import Path
from headgate.api import ServerSettings, run
given = json.loads(sys.argv[1])
run(ServerSettings(
    database=given["database"], port=given["port"], bus_ports=(0, 0),
    ready_file=Path(given["ready"]),
))
"""
"""A server process on the database and port that its argument names."""


@dataclass
class Server:
    """A server process that can be stopped and started again on its port."""

    folder: Path
    url: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> Path:
        return self.folder / "headgate.db"

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        given = {
            "database": str(self.database),
            "port": self.port,
            "ready": str(ready),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, json.dumps(given)]
        )
        deadline = time.monotonic() + TIMEOUT_S
        while not (ready.exists() and ready.read_text().endswith("\n")):
            assert self.process.poll() is None, "the server ended at its start"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)
        self.url = cast("str", json.loads(ready.read_text())["api"])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(TIMEOUT_S)
            self.process = None


STEP_S = 0.05
"""Between two bursts of what an agent's callers attempt."""


@contextmanager
def at_work(url: str, wanted: Mapping[str, Mapping[str, float]]) -> Generator[None]:
    """Real agents, by name, that attempt so many requests/s of each tenant."""
    stop = threading.Event()

    def work(name: str) -> None:
        with headgate.agent.connect(
            url, agent=name, keep_snapshot=False, wait_s=TIMEOUT_S
        ) as agent:
            limiters = [
                (agent.limiter(tenant=tenant), int(per_s * STEP_S))
                for tenant, per_s in wanted[name].items()
            ]
            while not stop.wait(STEP_S):
                for limiter, count in limiters:
                    for _ in range(count):
                        limiter.try_acquire(requests=1)

    threads = [threading.Thread(target=work, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
