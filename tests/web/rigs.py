"""A server process that a test may stop and start again."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

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
    port: int = 0
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
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(TIMEOUT_S)
            self.process = None
