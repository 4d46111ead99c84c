"""CPU and memory of this process and its children, for the benches of the pipeline."""

from __future__ import annotations

import threading
import time

import psutil

GONE = (psutil.Error, FileNotFoundError)
"""A process that ends while it is looked at."""


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
            now = resident()
            self.jvm = max(self.jvm, now["JVM"])
            self.workers = max(self.workers, now["workers"])
            time.sleep(0.2)


def resident() -> dict[str, float]:
    """Return MiB of the ``driver`` (this process), Spark's ``JVM`` and the ``workers``.

    Spark's is the largest: a broker has one as well.
    """
    this = psutil.Process()
    sizes = {"driver": this.memory_info().rss / 2**20, "JVM": 0.0, "workers": 0.0}
    for child in this.children(recursive=True):
        try:
            name, size = child.name(), child.memory_info().rss / 2**20
        except GONE:
            continue
        if name == "java":
            sizes["JVM"] = max(sizes["JVM"], size)
        else:
            sizes["workers"] += size
    return sizes


def cpu_s() -> float:
    """Return the CPU seconds of this process and all that it started."""
    # Idle Python workers end after a minute, and nobody counts what they had used.
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            key = process.pid, process.create_time()
            _USED_S[key] = sum(process.cpu_times()[:2])
        except GONE:
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
