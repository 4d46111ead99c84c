"""Faults on a real broker and real processes: what callers notice, and how it heals.

``python bench/scale_faults.py [--only NAME]`` prints a table for docs/benchmarks.md.
Three agents, a process each, share 1,000 units/s over Kafka (over ZeroMQ where it says
so) and are asked for 600/s each.  Every 100 ms a caller writes down what it was
admitted, the 99th percentile of its calls, and what its agent explains.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import kafka  # noqa: E402 - after the folder of the repository
from tools.kafka_broker import Broker  # noqa: E402

from headgate.agent import HeadgateError, connect  # noqa: E402
from headgate.agent.bus import BusSettings  # noqa: E402
from headgate.agent.bus_proxy import ZeroMQProxy  # noqa: E402
from headgate.agent.kafka_topic import ensure_topic  # noqa: E402
from headgate.agent.snapshot import Snapshot  # noqa: E402
from headgate.agent.snapshot_file import store  # noqa: E402
from headgate.coordinator import Attachment, Configuration, Group, Limit  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

QUOTA, BURST, ASKED = 1_000.0, 1_000.0, 600.0
AGENTS = 3
STEADY_S = 6.0
PATIENCE_S = 60.0
NOBODY = "http://127.0.0.1:9"


def call(name: str, path: Path, rate: float) -> None:
    """Be one caller with its agent until stdin ends."""
    agent = connect(NOBODY, agent=name, snapshot_path=path, wait_s=30.0)
    limiter = agent.limiter(tenant="acme")
    threading.Thread(target=_end_with_stdin, args=(agent.close,), daemon=True).start()
    due_s = next_s = time.monotonic()
    admitted, took = 0, list[float]()
    while True:
        now_s = time.monotonic()
        # After a pause of this process its callers do not make up for it.
        due_s = max(due_s, now_s - 0.5)
        while due_s <= now_s:
            due_s += 1.0 / rate
            began = time.perf_counter_ns()
            admitted += bool(limiter.try_acquire(requests=1))
            took.append((time.perf_counter_ns() - began) / 1e3)
        if now_s >= next_s:
            next_s = now_s + 0.1
            said: dict[str, object] = {"t": now_s, "n": name, "admitted": admitted}
            said["p99"] = sorted(took)[int(len(took) * 0.99)] if took else 0.0
            with suppress(HeadgateError):
                why = agent.explain("gold", "requests")
                said |= {
                    "cut": why.cut_off,
                    "share": why.share,
                    "n_agents": why.members,
                }
            said["rss"] = int(Path("/proc/self/statm").read_text().split()[1])
            said["threads"] = threading.active_count()
            took.clear()
            print(json.dumps(said), flush=True)
        time.sleep(0.002)


def _end_with_stdin(close: Callable[[], None]) -> None:
    sys.stdin.read()
    close()
    os._exit(0)


@dataclass
class Caller:
    """A caller's process and what it wrote down."""

    process: subprocess.Popen[str]
    lines: list[dict[str, float]] = field(default_factory=list)

    def read(self) -> None:
        """Take down what it says, in a thread of its own."""
        for line in cast("IO[str]", self.process.stdout):
            self.lines.append(json.loads(line))


def start(name: str, path: Path) -> Caller:
    """Start a caller."""
    command = [sys.executable, __file__, "--call", name, str(path)]
    caller = Caller(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )
    threading.Thread(target=caller.read, daemon=True).start()
    return caller


class Stage:
    """Three callers on one bus."""

    def __init__(self, bus: BusSettings, folder: Path) -> None:
        self.path = folder / "snapshot.json"
        limit = Limit(dimension="requests", rate=QUOTA, burst=BURST)
        configuration = Configuration(
            revision=1,
            groups=(Group(id=1, name="gold", limits=(limit,)),),
            attachments=(Attachment((("tenant", "acme"),), 1),),
        )
        store(self.path, Snapshot(configuration=configuration, bus=bus))
        self.callers = [start(f"agent-{n}", self.path) for n in range(AGENTS)]

    def close(self) -> None:
        """End all callers."""
        for caller in self.callers:
            caller.process.kill()
            caller.process.wait()

    def is_fair(self) -> bool:
        """Return whether each has a third, within 15 %, by its agent's own word."""
        return all(_is_third(caller.lines[-1]) for caller in self.callers)

    def await_fair(self) -> float:
        """Wait until shares are right for a second; return when that began."""
        deadline_s = time.monotonic() + PATIENCE_S
        since_s = 0.0
        while time.monotonic() < deadline_s:
            ready = all(caller.lines for caller in self.callers)
            if not (ready and self.is_fair()):
                since_s = 0.0
            elif not since_s:
                since_s = time.monotonic()
            elif time.monotonic() - since_s > 1.0:
                return since_s
            time.sleep(0.02)
        return float("nan")


def _is_third(line: dict[str, float]) -> bool:
    share = line.get("share") or 0.0
    return abs(share - QUOTA / AGENTS) < 0.15 * QUOTA / AGENTS and not line.get(
        "cut", True
    )


def overshoot_s(callers: list[Caller], since_s: float) -> float:
    """Return the worst excess over B + Q·W of any window, seconds of quota."""
    events = sorted(
        (after["t"], after["admitted"] - before["admitted"])
        for caller in callers
        for before, after in zip(caller.lines, caller.lines[1:], strict=False)
        if before["t"] >= since_s
    )
    debt = worst = 0.0
    at_s = since_s
    for t, admitted in events:
        debt = max(debt - QUOTA * (t - at_s), 0.0) + admitted
        at_s, worst = t, max(worst, debt)
    return (worst - BURST) / QUOTA


def p99_us(callers: list[Caller], since_s: float, until_s: float) -> float:
    """Return the median over time of the 99th percentile, microseconds."""
    found = [x["p99"] for c in callers for x in c.lines if since_s < x["t"] < until_s]
    return median(found) if found else float("nan")


def fault(
    name: str, stage: Stage, strike: Callable[[], None], heal: Callable[[], None]
) -> None:
    """Let one fault happen and print its row."""
    stage.await_fair()
    began_s = time.monotonic()
    time.sleep(STEADY_S)
    memory = [caller.lines[-1] for caller in stage.callers]
    struck_s = time.monotonic()
    strike()
    healing_s = time.monotonic()
    heal()
    healed_s = time.monotonic()
    fair_s = stage.await_fair()
    cuts = [
        next(
            (x["t"] - struck_s for x in c.lines if x["t"] > struck_s and x.get("cut")),
            None,
        )
        for c in stage.callers
    ]
    seen = [cut for cut in cuts if cut is not None]
    after = [caller.lines[-1] for caller in stage.callers]
    grown = max(b["rss"] - a["rss"] for a, b in zip(memory, after, strict=True))
    threads = max(
        b["threads"] - a["threads"] for a, b in zip(memory, after, strict=True)
    )
    print(
        f"| {name} | {healed_s - struck_s:.0f} s "
        f"| {p99_us(stage.callers, began_s, struck_s):.0f} / "
        f"{p99_us(stage.callers, struck_s, healing_s):.0f} "
        f"| {f'{max(seen):.1f} s, {len(seen)} agents' if seen else 'none'} "
        f"| {fair_s - healed_s:.1f} s | {overshoot_s(stage.callers, began_s):+.2f} s "
        f"| {grown * os.sysconf('SC_PAGE_SIZE') / 1e6:+.1f} MB, {threads:+d} "
        f"| {os.getloadavg()[0]:.0f} |",
        flush=True,
    )


class KafkaFaults:
    """What can happen to a broker, its topic, and the first of the callers."""

    def __init__(self, broker: Broker, bus: BusSettings, stage: Stage) -> None:
        self.broker, self.bus = broker, bus
        self.victim = stage.callers[0].process

    def stop(self) -> None:
        """Stop the broker for half a minute."""
        self.broker.stop()
        time.sleep(30.0)

    def freeze(self) -> None:
        """Let the broker hang."""
        self.broker.freeze()
        time.sleep(20.0)

    def delete(self) -> None:
        """Delete the topic."""
        administrator = kafka.KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        administrator.delete_topics([self.bus.topic])
        administrator.close()
        time.sleep(10.0)

    def fill(self) -> None:
        """Let no file grow any more: to the broker that is a disk that is full."""
        pid = cast("int", self.broker.pid)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1))
        time.sleep(15.0)

    def empty(self) -> None:
        """Make room, and start the broker again: it ends when it can't write."""
        self.broker.stop(kill=True)
        self.broker.start()

    def pause(self) -> None:
        """Let a caller's process stand still."""
        self.victim.send_signal(signal.SIGSTOP)
        time.sleep(15.0)

    def resume(self) -> None:
        """Let it go on."""
        self.victim.send_signal(signal.SIGCONT)


def on_kafka(only: str, folder: Path) -> None:
    """Strike a broker and its callers."""
    with Broker(folder / "kafka") as broker:
        bus = BusSettings(kind="kafka", bootstrap=broker.bootstrap)
        ensure_topic(bus)
        stage = Stage(bus, folder)
        on = KafkaFaults(broker, bus, stage)
        faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "broker stopped": (on.stop, lambda: void(broker.start())),
            "broker frozen": (on.freeze, broker.thaw),
            "topic deleted and made again": (on.delete, lambda: remake(bus)),
            "an agent paused": (on.pause, on.resume),
            "disk full": (on.fill, on.empty),
        }
        try:
            for name, (strike, heal) in faults.items():
                if only in name:
                    fault(name, stage, strike, heal)
        finally:
            stage.close()


def void(_: object) -> None:
    """Forget a result."""


def remake(bus: BusSettings) -> None:
    """Make the topic again; the broker takes a moment to forget the old one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not ensure_topic(bus) and time.monotonic() < deadline_s:
        time.sleep(0.2)


def on_zeromq(only: str, folder: Path) -> None:
    """Take the proxy away, and let a hundred agents start within a second."""
    proxy = ZeroMQProxy()
    addresses = proxy.publish_address, proxy.subscribe_address
    bus = BusSettings(kind="zeromq", publish=addresses[:1], subscribe=addresses[1:])
    stage = Stage(bus, folder)

    def stop() -> None:
        proxy.close()
        time.sleep(30.0)

    def again() -> None:
        nonlocal proxy
        proxy = ZeroMQProxy(publish=addresses[0], subscribe=addresses[1])

    try:
        if only in "ZeroMQ's proxy stopped":
            fault("ZeroMQ's proxy stopped", stage, stop, again)
    finally:
        stage.close()
        proxy.close()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="faults whose name holds this")
    parser.add_argument("--call", nargs=2)
    arguments = parser.parse_args()
    if arguments.call:
        call(arguments.call[0], Path(arguments.call[1]), ASKED)
        return
    print(
        "| fault | for | p99, us: before / during | cut off seen after | fair again |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for play in (on_kafka, on_zeromq):
        with tempfile.TemporaryDirectory() as folder:
            play(arguments.only, Path(folder))


if __name__ == "__main__":
    main()
