"""CPU of one command from start to end, as a multiple of ``python -c pass``.

    .venv/bin/python -m bench.processes.command_line

The server is a process of its own. Each command runs `ROUNDS` times in turn with the
others, and the least counts, because whatever else the machine does only adds to it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import ExitStack

from bench.administration import served
from bench.processes.bytecode import compiled

ROUNDS = 15

COMMANDS = (
    "group list",
    "group show gold",
    "attachments -o json",
    "tenant list -o name",
    "status gold --once -o json",
    "audit",
    "--version",
    "--help",
)


def cpu_s(command: list[str], environment: dict[str, str]) -> float:
    """Return the CPU time of a process, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime
    return spent + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure and print a line for each command."""
    with ExitStack() as stack:
        url, _ = served(stack, None)
        base = [sys.executable, "-m", "headgate.cli"]
        limit = ["group", "create", "gold", "--limit", "requests=1000/s"]
        subprocess.run([*base, *limit, "--url", url], check=True)
        runs = {"python -c pass": [sys.executable, "-c", "pass"]}
        for command in COMMANDS:
            target = [] if command.startswith("--") else ["--url", url]
            runs[f"headgate {command}"] = [*base, *command.split(), *target]
        environment = compiled(stack, *(command[1:] for command in runs.values()))
        least = {
            name: min(cpu_s(command, environment) for _ in range(ROUNDS))
            for name, command in runs.items()
        }
    unit = least["python -c pass"]
    for name, seconds in least.items():
        print(f"{name:<40} {1000 * seconds:6.0f} ms {seconds / unit:6.1f} times")


if __name__ == "__main__":
    main()
