"""An agent while nobody asks: CPU and memory of its whole process, and of `connect`.

    .venv/bin/python -m bench.processes.agent_at_rest [--seconds 30]

One attached tenant and one request; 45 s later the measurement begins.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import active_count

SETTLED_S = 45.0
"""Long after the agent has reported, and heard that nobody wants anything."""


def status(name: str) -> str:
    """Return a field of this process's status."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}:")).split(":")[1]


def cpu_s() -> float:
    """Return the CPU time of this process, seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def agent(url: str, seconds: float) -> None:
    """Run as the process that is measured."""
    started = cpu_s()
    import headgate

    with headgate.connect(url, keep_snapshot=False) as joined:
        connected = cpu_s()
        limiter = joined.limiter(tenant="acme")
        assert limiter.try_acquire(requests=1)
        if not seconds:
            return
        time.sleep(SETTLED_S)
        before, began = cpu_s(), time.monotonic()
        time.sleep(seconds)
        part = (cpu_s() - before) / (time.monotonic() - began)
        print(f"python itself           {started:8.2f} s CPU")
        print(f"import and connect      {connected - started:8.2f} s CPU")
        print(f"at rest                 {100 * part:8.2f} % of a core")
        print(
            f"resident memory         {int(status('VmRSS').split()[0]) / 1024:8.0f} MB"
        )
        tasks = len(os.listdir("/proc/self/task"))
        print(f"threads                 {tasks:8} ({active_count()} of Python)")


def main() -> None:
    """Start a server and the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.url is not None:
        agent(options.url, options.seconds)
        return
    from bench.administration import served
    from bench.processes.bytecode import compiled  # not needed by the agent's process

    with ExitStack() as stack:
        url, _ = served(stack, None)
        base = [sys.executable, "-m", "headgate.cli"]
        for command in (
            "group create gold --limit requests=1000/s",
            "tenant create acme",
            "attach gold --tenant acme",
        ):
            subprocess.run([*base, *command.split(), "--url", url], check=True)
        this = ["-m", "bench.processes.agent_at_rest", "--url", url]
        environment = compiled(stack, [*this, "--seconds", "0"])
        subprocess.run(
            [sys.executable, *this, "--seconds", str(options.seconds)],
            env=environment,
            check=True,
        )


if __name__ == "__main__":
    main()
