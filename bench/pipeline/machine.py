"""CPU and memory of this process and its children, for ``bench/pipeline/speed.py``."""

from __future__ import annotations

import threading
import time

import psutil


class Memory(threading.Thread):
    """Samples the memory and the CPU time of this process and its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jvm = self.workers = 0.0
        self.start()

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            cpu_s()
            jvm = workers = 0.0
            for child in psutil.Process().children(recursive=True):
                try:
                    size, name = child.memory_info().rss / 2**20, child.name()
                except psutil.Error:
                    continue
                if name == "java":
                    jvm = max(jvm, size)
                else:
                    workers += size
            self.jvm, self.workers = max(self.jvm, jvm), max(self.workers, workers)
            time.sleep(0.2)


def cpu_s() -> float:
    """Return the CPU seconds of this process and all that it started."""
    # Idle Python workers end after a minute, and nobody counts what they had used.
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            key = process.pid, process.create_time()
            _USED_S[key] = sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return sum(_USED_S.copy().values())


_USED_S: dict[tuple[int, float], float] = {}
"""CPU seconds of each process, also of those that are gone, as last seen."""


def rate(rows: int, seconds: float) -> str:
    """Return rows a second as text."""
    return f"{rows / seconds / 1e6:6.2f} M rows/s"


def cost(cpu: float, rows: int) -> str:
    """Return CPU a row as text, and the rate that it makes on two free cores."""
    each = cpu / rows * 1e6
    return f"{each:.2f} core-s per M rows: {2 / each:.2f} M rows/s on 2 free cores"
