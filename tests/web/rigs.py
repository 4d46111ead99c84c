"""A server process that a test may stop and start again."""

import json
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from headgate.api import ServerSettings, run

TIMEOUT_S = 60.0
"""Of a request or of a wait in the page; two slow cores are shared with others."""

FORKING = multiprocessing.get_context("forkserver")
"""Servers are forks of a process that has imported the API already: the import takes
a second of a core, and nearly every test here starts a server."""

FORKING.set_forkserver_preload(["headgate.api"])


@dataclass
class Server:
    """A server process that can be stopped and started again on its port."""

    folder: Path
    url: str = ""
    port: int = 0
    process: BaseProcess | None = None

    @property
    def database(self) -> Path:
        return self.folder / "headgate.db"

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        settings = ServerSettings(
            database=str(self.database),
            port=self.port,
            bus_ports=(0, 0),
            ready_file=ready,
        )
        self.process = FORKING.Process(target=run, args=(settings,))
        self.process.start()
        deadline = time.monotonic() + TIMEOUT_S
        while not (ready.exists() and ready.read_text().endswith("\n")):
            assert self.process.is_alive(), "the server ended at its start"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)
        self.url = cast("str", json.loads(ready.read_text())["api"])
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.join(TIMEOUT_S)
            assert self.process.exitcode is not None, "the server does not stop"
            self.process = None
