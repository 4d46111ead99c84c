"""Many agents, a process each, on one quota: how near to one central bucket they are.

``python bench/scale_sharing.py [--agents 50] [--bus zeromq|kafka]``.  Half of them
ask for three times their part, half for a fifth of it; twice they change places.  It
prints how much was admitted compared with one bucket, how long the new half takes to
get nine tenths of its due, and how long a report takes, as agents measure by their own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.kafka_broker import Broker  # noqa: E402 - the folder of the repository

from headgate.agent import connect  # noqa: E402
from headgate.agent.bus.kafka.topic import ensure_topic  # noqa: E402
from headgate.agent.bus.port import BusSettings  # noqa: E402
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy  # noqa: E402
from headgate.agent.follow.snapshot import Snapshot  # noqa: E402
from headgate.agent.follow.snapshot_file import store  # noqa: E402
from headgate.coordinator import Attachment, Configuration, Group, Limit  # noqa: E402

QUOTA = 2_000.0
HEAVY, LIGHT = 3.0, 0.2
"""Demand as a multiple of an agent's part, Q/n: 1.6 times the quota in all."""

PHASE_S = 20.0
LOOK_S = 0.25
PATIENCE_S = 180.0
NOBODY = "http://127.0.0.1:9"


def call(index: int, agents: int, path: Path) -> None:
    """Run one caller; each SIGUSR1 makes it change places."""
    agent = connect(NOBODY, agent=f"agent-{index}", snapshot_path=path, wait_s=60.0)
    limiter = agent.limiter(tenant="acme")
    heavy = [index % 2 == 0]
    signal.signal(signal.SIGUSR1, lambda *_: heavy.append(not heavy.pop()))
    due_s = next_s = time.monotonic()
    attempted = admitted = 0
    while True:
        now_s = time.monotonic()
        due_s = max(due_s, now_s - 0.5)
        while due_s <= now_s:
            due_s += agents / (QUOTA * (HEAVY if heavy[0] else LIGHT))
            attempted += 1
            admitted += bool(limiter.try_acquire(requests=1))
        if now_s >= next_s:
            next_s = now_s + LOOK_S
            status = agent.status()
            said = {"t": now_s, "attempted": attempted, "admitted": admitted}
            print(
                json.dumps({**said, "lag": status.lag_s, "met": len(status.members)}),
                flush=True,
            )
        time.sleep(0.005)


class Callers:
    """All callers, and what they recorded."""

    def __init__(self, agents: int, path: Path) -> None:
        self.lines: list[list[dict[str, float]]] = [[] for _ in range(agents)]
        command = [sys.executable, __file__, "--call"]
        self.processes = [
            subprocess.Popen(
                [*command, str(index), str(agents), str(path)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for index in range(agents)
        ]
        for process, lines in zip(self.processes, self.lines, strict=True):
            args = (process, lines)
            threading.Thread(target=self._read, args=args, daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: list[dict[str, float]]) -> None:
        for line in cast("IO[str]", process.stdout):
            lines.append(json.loads(line))

    def await_all(self) -> None:
        """Wait until everyone knows everyone."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not all(x and x[-1]["met"] >= len(self.lines) for x in self.lines):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"met: {[x and x[-1]['met'] for x in self.lines]}")
            time.sleep(0.1)

    def flip(self) -> None:
        """Make all change places."""
        for process in self.processes:
            process.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        """End all."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def rate(self, name: str, from_s: float, until_s: float, odd: int | None) -> float:
        """Return how much per second the callers of one half, or all, counted."""
        total = 0.0
        for index, lines in enumerate(self.lines):
            if odd is not None and index % 2 != odd:
                continue
            total += at(lines, name, until_s) - at(lines, name, from_s)
        return total / (until_s - from_s)


def at(lines: list[dict[str, float]], name: str, when_s: float) -> float:
    """Return a counter at a time, interpolated between two looks."""
    before = lines[0]
    for line in lines:
        if line["t"] >= when_s:
            span = max(line["t"] - before["t"], 1e-9)
            part = min(max((when_s - before["t"]) / span, 0.0), 1.0)
            return before[name] + part * (line[name] - before[name])
        before = line
    return before[name]


def settled_s(callers: Callers, flipped_s: float, odd: int) -> float:
    """Return how long a half takes to get nine tenths of its due for half a second."""
    due = 0.9 * QUOTA * (1.0 - LIGHT / 2)
    at_s = flipped_s
    while at_s < flipped_s + PHASE_S - 1.0:
        if callers.rate("admitted", at_s, at_s + 0.5, odd) >= due:
            return at_s - flipped_s
        at_s += 0.05
    return float("nan")


def play(bus: BusSettings, agents: int, folder: Path) -> None:
    """Run the three phases and print a row."""
    limit = Limit(dimension="requests", rate=QUOTA, burst=QUOTA)
    configuration = Configuration(
        revision=1,
        groups=(Group(id=1, name="gold", limits=(limit,)),),
        attachments=(Attachment((("tenant", "acme"),), 1),),
    )
    path = folder / "snapshot.json"
    store(path, Snapshot(configuration=configuration, bus=bus))
    callers = Callers(agents, path)
    try:
        callers.await_all()
        time.sleep(5.0)
        began_s = time.monotonic()
        time.sleep(PHASE_S)
        flips: list[tuple[float, int]] = []
        for odd in (1, 0):
            flips.append((time.monotonic(), odd))
            callers.flip()
            time.sleep(PHASE_S)
        ended_s = time.monotonic() - 1.0
        settled = [settled_s(callers, when_s, odd) for when_s, odd in flips]
        got = callers.rate("admitted", began_s, ended_s, None)
        steady = callers.rate("admitted", began_s, flips[0][0], None)
        asked = callers.rate("attempted", began_s, ended_s, None)
        lags = sorted(x["lag"] for lines in callers.lines for x in lines[20:])
    finally:
        callers.close()
    print("| agents | asked of Q | admitted of one bucket: steady / all | ", end="")
    print("settled after | report p50 / p99 | load |\n|---|---|---|---|---|---|")
    p50, p99 = (lags[int(len(lags) * part)] * 1e3 for part in (0.5, 0.99))
    print(
        f"| {agents}, {bus.kind} | {asked / QUOTA:.2f} "
        f"| {steady / min(asked, QUOTA):.3f} / {got / min(asked, QUOTA):.3f} "
        f"| {settled[0]:.2f} s, {settled[1]:.2f} s | {p50:.0f} / {p99:.0f} ms "
        f"| {os.getloadavg()[0]:.0f} |"
    )


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--bus", choices=("zeromq", "kafka"), default="zeromq")
    parser.add_argument("--call", nargs=3)
    arguments = parser.parse_args()
    if arguments.call:
        index, agents, path = arguments.call
        call(int(index), int(agents), Path(path))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments.bus == "kafka":
            broker = stack.enter_context(Broker(folder / "kafka"))
            bus = BusSettings(kind="kafka", bootstrap=broker.bootstrap)
            ensure_topic(bus)
        else:
            proxy = stack.enter_context(ZeroMQProxy())
            bus = BusSettings(
                kind="zeromq",
                publish=(proxy.publish_address,),
                subscribe=(proxy.subscribe_address,),
            )
        play(bus, arguments.agents, folder)


if __name__ == "__main__":
    main()
