"""CPU of a server's start, with and without what spares the garbage collector.

``python -m bench.processes.server_start``: nine pairs of starts of a server process,
which ends as soon as it listens; medians, and the median of the ratios within a pair.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import ExitStack
from statistics import median

from bench.processes.bytecode import compiled

PAIRS = 9

START = """
import os, signal, sys, tempfile
from pathlib import Path
if sys.argv[1] == "collected":
    import gc
    gc.disable = gc.freeze = gc.unfreeze = lambda: None
from headgate.api import ServerSettings, run

with tempfile.TemporaryDirectory() as folder:
    settings = ServerSettings(
        database=str(Path(folder, "x.db")), port=0, bus_ports=(0, 0)
    )
    run(settings, lambda addresses: os.kill(os.getpid(), signal.SIGTERM))
"""


def cpu_s(kind: str, environment: dict[str, str]) -> float:
    """Return the seconds of CPU that one start takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", START, kind], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        environment = compiled(stack, ["-c", START, "spared"])
        pairs = [
            (cpu_s("spared", environment), cpu_s("collected", environment))
            for _ in range(PAIRS)
        ]
    spared, collected = zip(*pairs, strict=True)
    ratio = median(one / other for one, other in pairs)
    sys.stdout.write(
        f"{os.cpu_count()} cores: a start takes {median(spared):.2f} s of CPU, "
        f"{median(collected):.2f} s with the collector; {ratio:.2f} times as much\n"
    )


if __name__ == "__main__":
    main()
