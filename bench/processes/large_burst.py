"""By how much three processes exceed a large burst that they all want at once.

``PYTHONPATH=. python bench/processes/large_burst.py [--bus kafka] [--busy 2]
[--runs 10]``.  The callers of each process ask 10,000 times a second for 30 s of a rate
of 50/s.  `--busy` processes do nothing but compute meanwhile, so reports are late.

Prints for each run by how many requests they exceed what one bucket holds and earns,
at worst, and what part of that they got; then the largest excess.  A run takes half a
minute.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e.conftest import BusKind, Cluster

from headgate.cli.process.children import Children
from headgate.simulation.kept_runs import at_least_one

RATE, BURST = 50.0, 1500.0

COMPUTE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Computes for as long as the process that started it runs."""


def main() -> None:
    """Print the excess of each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--bus", choices=["zeromq", "kafka"], default="zeromq")
    parser.add_argument("--busy", type=at_least_one)
    parser.add_argument("--runs", type=at_least_one, default=10)
    options = parser.parse_args()
    with ExitStack() as stack:
        for _ in range(options.busy or 0):
            busy = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", COMPUTE])
            )
            stack.callback(busy.kill)
        excesses = [run(options.bus) for _ in range(options.runs)]
    print(f"{len(excesses)} runs: over by {max(0.0, *excesses):.1f} at worst")


def run(bus: BusKind) -> float:
    """Return the excess of one run, in requests; print it."""
    with TemporaryDirectory() as folder, Children() as children:
        cluster = Cluster(children, Path(folder), bus)
        cluster.start()
        over, part = cluster.spend_a_burst(RATE, BURST)
    print(f"over by {over:5.1f}, got {part:.3f} of one bucket", flush=True)
    return over


if __name__ == "__main__":
    main()
