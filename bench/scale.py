"""One real agent on a real Kafka broker at the size of a large cluster.

::

    python bench/scale.py                    the table of docs/benchmarks.md, 5 minutes
    python bench/scale.py --grow             how it grows, by agents and groups

The agent is a process of its own with everything that agents have: Kafka client,
decoding, ledgers, shares, reports; its callers make one attempt per cycle on every
group, and their CPU time is subtracted.  The others are played by two processes that
encode real reports and send them over the same broker.  It prints CPU time per cycle
(one report of each other agent), not wall time, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.kafka_broker import Broker  # noqa: E402 - the folder of the repository

from headgate.agent import connect  # noqa: E402
from headgate.agent.bus.kafka.topic import ensure_topic  # noqa: E402
from headgate.agent.bus.open import open_bus  # noqa: E402
from headgate.agent.bus.port import BusSettings  # noqa: E402
from headgate.agent.follow.snapshot import Snapshot  # noqa: E402
from headgate.agent.follow.snapshot_file import store  # noqa: E402
from headgate.agent.wire.codec import encode  # noqa: E402
from headgate.coordinator import (  # noqa: E402
    Attachment,
    Configuration,
    Group,
    Limit,
    Report,
    Rows,
)

DIMENSIONS = ("publish_messages", "publish_bytes")
PLAYERS = 2
"""Processes that play the others; the machine has two cores."""

WARM_CYCLES, CYCLES = 3, 10
SETTLE_S = 8.0
"""Time after all were heard: the one-off cost of a start is not part of a cycle."""

TROUBLE = ("agent_failed_turns", "bus_dropped_unread", "bus_dropped_old")
"""Counters that stay constant while the agent keeps up."""

NOBODY = "http://127.0.0.1:9"
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Size:
    """One point of the table.

    Attributes:
        agents: Number in all, including the measured one.
        groups: Groups that each agent uses.
        shared: How many groups of another agent the measured one uses too.
        changed: Fraction of the rows that each report carries.
        interval_s: T; longer where two cores can't play the others in a second.  Work
            at a fixed rate, such as looking at buckets, then counts T times.
    """

    agents: int
    groups: int
    shared: int
    changed: float
    interval_s: float


def settings_of(bootstrap: str, topic: str) -> BusSettings:
    """Return the bus of one run."""
    return BusSettings(kind="kafka", bootstrap=bootstrap, topic=topic)


def snapshot(size: Size, bus: BusSettings) -> Snapshot:
    """Return the groups of the measured agent, a tenant for each."""
    limits = tuple(Limit(dimension=d, rate=1e6, burst=1e6) for d in DIMENSIONS)
    ids = range(1, size.groups + 1)
    return Snapshot(
        configuration=Configuration(
            revision=1,
            groups=tuple(Group(id=g, name=f"g{g}", limits=limits) for g in ids),
            attachments=tuple(Attachment((("tenant", f"t{g}"),), g) for g in ids),
        ),
        bus=bus,
        report_interval_s=size.interval_s,
    )


def play(size: Size, bus_settings: BusSettings, numbers: range) -> None:
    """Play these agents until killed: a report of each in every interval."""
    bus = open_bus(bus_settings)
    random = np.random.default_rng(numbers.start)
    own = max(size.groups - size.shared, 0)
    ids = {}
    for number in numbers:
        mine = random.choice(size.groups, size.shared, replace=False) + 1
        theirs = size.groups + 1 + np.arange(own) * size.agents + number
        ids[number] = np.sort(np.concatenate([mine, theirs])).astype(np.int64)
    admitted = {number: np.zeros(len(ids[number])) for number in numbers}
    incarnation = time.time_ns() // 1_000
    for sequence in range(1, 1 << 30):
        began_s = time.monotonic()
        for number in numbers:
            admitted[number] += random.integers(1, 200, len(ids[number]))
            report = one_report(size, number, sequence, ids[number], admitted[number])
            bus.publish(encode(_stamped(report, incarnation)))
            bus.receive(0.0)
            part_s = size.interval_s / len(numbers)
            due_s = began_s + part_s * (number - numbers.start + 1)
            time.sleep(max(due_s - time.monotonic(), 0.0))


def one_report(
    size: Size,
    number: int,
    sequence: int,
    ids: np.ndarray,
    admitted: np.ndarray,
) -> Report:
    """Return a report of another agent: all rows at first, then those that changed."""
    first = sequence == 1
    part = 1.0 if first else size.changed
    chosen = (
        np.random.default_rng(number * 1_000_003 + sequence).random(len(ids)) < part
    )
    count = int(chosen.sum())

    def rows(dimension: str, scale: float) -> Rows:
        return Rows(
            dimension=dimension,
            group_ids=ids[chosen],
            refused=np.zeros(count),
            admitted=admitted[chosen] * scale,
            demand=np.full(count, 90.0 * scale),
            held=np.full(count, 10.0),
            cost=np.ones(len(ids[chosen])),
        )

    columns = tuple(rows(d, 100.0**i) for i, d in enumerate(DIMENSIONS))
    return Report(
        cluster="default",
        agent=f"player-{number}",
        incarnation=1,
        sequence=sequence,
        sent_at_s=time.time(),
        keyframe=first,
        rows=columns if count else (),
        interval_s=size.interval_s,
    )


def _stamped(report: Report, incarnation: int) -> Report:
    from dataclasses import replace

    return replace(report, incarnation=incarnation)


def rss_mb() -> float:
    """Return the resident memory of this process, MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def measure(size: Size, path: Path) -> dict[str, float]:
    """Run the measured agent: wait for the others, then measure CPU for some cycles."""
    agent = connect(NOBODY, agent="measured", snapshot_path=path, wait_s=30.0)
    limiters = [agent.limiter(tenant=f"t{g}") for g in range(1, size.groups + 1)]
    callers_s = 0.0
    ending = threading.Event()

    def call() -> None:
        nonlocal callers_s
        while not ending.is_set():
            began_s, began = time.monotonic(), time.thread_time()
            for limiter in limiters:
                limiter.try_acquire(publish_messages=90, publish_bytes=9_000)
            callers_s += time.thread_time() - began
            ending.wait(max(size.interval_s - (time.monotonic() - began_s), 0.01))

    caller = threading.Thread(target=call, daemon=True)
    if size.changed:
        caller.start()

    def heard() -> float:
        return agent.metrics().get("agent_reports_heard", 0.0)

    others = size.agents - 1
    deadline_s = time.monotonic() + 180
    while others and len(agent.status().members) < size.agents:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"only {len(agent.status().members)} agents came")
        time.sleep(0.2)
    _wait(heard, heard() + WARM_CYCLES * others, size)
    time.sleep(SETTLE_S)
    from_reports, from_cpu, from_callers = heard(), own_cpu_s(), callers_s
    before, told = thread_cpu_ms(), agent.metrics()
    began_s = time.monotonic()
    _wait(heard, from_reports + CYCLES * others, size)
    cpu_s = own_cpu_s() - from_cpu - (callers_s - from_callers)
    elapsed_s = time.monotonic() - began_s
    metrics = agent.metrics()
    cycles = (heard() - from_reports) / max(others, 1) if others else elapsed_s
    ending.set()
    result = {
        "cpu_ms_per_cycle": 1e3 * cpu_s / cycles,
        "core_share": cpu_s / elapsed_s,
        "rss_mb": rss_mb(),
        "cycle_s": elapsed_s / cycles,
        **{
            name: metrics.get(name, 0.0) - told.get(name, 0.0)
            for name in ("agent_reports_published", *TROUBLE)
        },
        "load": os.getloadavg()[0],
    }
    for name, spent_ms in thread_cpu_ms().items():
        result[f"thread {name}"] = (spent_ms - before.get(name, 0.0)) / cycles
    agent.close()
    return result


def own_cpu_s() -> float:
    """Return the CPU time of this process without this thread, which only waits."""
    return time.process_time() - time.thread_time()


def thread_cpu_ms() -> dict[str, float]:
    """Return the CPU time of each thread of this process so far, by name."""
    tick_ms = 1e3 / os.sysconf("SC_CLK_TCK")
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # a thread that has just ended
            continue
        name = names.get(int(task.name), "other")
        used = (int(fields[11]) + int(fields[12])) * tick_ms
        spent[name] = spent.get(name, 0.0) + used
    return spent


def _wait(heard: object, wanted: float, size: Size) -> None:
    """Wait until that many reports came; without other agents, wait a few seconds."""
    assert callable(heard)
    if size.agents == 1:
        time.sleep(6.0)
        return
    deadline_s = time.monotonic() + 240.0
    while heard() < wanted:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{heard()} of {wanted} reports came")
        time.sleep(0.2)


def run(size: Size, broker: Broker, topic: str) -> dict[str, float]:
    """Play one point of the table."""
    bus = settings_of(broker.bootstrap, topic)
    ensure_topic(bus)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.json")
        store(path, snapshot(size, bus))
        told = [
            json.dumps([getattr(size, f) for f in Size.__slots__]),
            broker.bootstrap,
        ]
        command = [sys.executable, __file__]
        step = -(-(size.agents - 1) // PLAYERS) or 1
        players = [
            subprocess.Popen([*command, "--play", *told, topic, str(first), str(last)])
            for first in range(1, size.agents, step)
            for last in [min(first + step, size.agents)]
        ]
        try:
            done = subprocess.run(
                [*command, "--measure", *told, str(path)],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
        finally:
            for player in players:
                player.kill()
                player.wait()
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def own_bytes(size: Size) -> int:
    """Return the bytes of one agent's report at this size."""
    ids = np.arange(1, size.groups + 1) * 20
    report = one_report(size, 0, 2, ids, np.full(len(ids), 1e6))
    return len(encode(report))


def table(sizes: dict[str, Size], *, threads: bool) -> None:
    """Print one row for each size."""
    idle_mb = 0.0
    print(
        "| | CPU ms per cycle | of a core | RSS over idle, MB | report, bytes | load |"
    )
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        for index, (name, size) in enumerate(sizes.items()):
            got = run(size, broker, f"scale-{index}")
            idle_mb = idle_mb or got["rss_mb"]
            print(
                f"| {name} | {got['cpu_ms_per_cycle']:.1f} | {got['core_share']:.1%} "
                f"(T = {got['cycle_s']:.1f} s) | {got['rss_mb'] - idle_mb:.1f} "
                f"| {own_bytes(size):,} | {got['load']:.1f} |",
                flush=True,
            )
            if threads:
                parts = {n: round(ms, 1) for n, ms in got.items() if n[:6] == "thread"}
                print(f"  {parts}", flush=True)
            if trouble := {name: got[name] for name in TROUBLE if got[name]}:
                print(f"  not to be trusted: {trouble}", flush=True)


IDLE = Size(1, 1, 0, 0.0, 1.0)

PIP_82 = {
    "idle agent": IDLE,
    "PIP-82's size, all rows change": Size(100, 5_000, 202, 1.0, 1.0),
    "PIP-82's size, 10 % change": Size(100, 5_000, 202, 0.1, 1.0),
    "PIP-82's size, steady": Size(100, 5_000, 202, 0.0, 1.0),
    "dense, all rows change": Size(100, 5_000, 5_000, 1.0, 2.0),
    "dense, 10 % change": Size(100, 5_000, 5_000, 0.1, 1.0),
    "dense, steady": Size(100, 5_000, 5_000, 0.0, 1.0),
}

GROWTH = {
    "idle agent": IDLE,
    **{
        f"{agents} agents, 1,000 groups, all shared": Size(agents, 1_000, 1_000, 1, 3.0)
        for agents in (10, 30, 100, 300)
    },
    **{
        f"30 agents, {groups:,} groups, all shared": Size(30, groups, groups, 1, 4.0)
        for groups in (100, 1_000, 5_000, 20_000)
    },
    **{
        f"30 agents, {groups:,} groups, 5 agents a group": Size(
            30, groups, max(groups * 4 // 29, 1), 1, 4.0
        )
        for groups in (100, 1_000, 5_000, 20_000)
    },
}


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--grow", action="store_true", help="measure growth by agents and groups"
    )
    parser.add_argument(
        "--only", help="only rows with this in their name, and the idle one"
    )
    parser.add_argument(
        "--threads", action="store_true", help="show the CPU of each thread"
    )
    parser.add_argument("--play", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        told, bootstrap, topic, first, last = arguments.play
        numbers = range(int(first), int(last))
        play(Size(*json.loads(told)), settings_of(bootstrap, topic), numbers)
    elif arguments.measure:
        told, _, path = arguments.measure
        print(json.dumps(measure(Size(*json.loads(told)), Path(path))))
    else:
        sizes = GROWTH if arguments.grow else PIP_82
        if arguments.only:
            if not any(arguments.only in name for name in sizes):
                parser.exit(
                    2, f"scale: --only: no row has {arguments.only!r} in its name\n"
                )
            sizes = {n: s for n, s in sizes.items() if s == IDLE or arguments.only in n}
        table(sizes, threads=arguments.threads)


if __name__ == "__main__":
    main()
