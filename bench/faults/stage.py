"""Callers in processes of their own, and what they recorded while something failed.

Every 100 ms a caller writes what it was admitted, the 99th percentile of its calls, and
what its agent explains.  `happen` causes one fault and prints a row of the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING, cast

from bench.faults.billing import WATCHED_S, Total, billed_units

from headgate.agent import HeadgateError, connect
from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.follow.snapshot_file import store
from headgate.coordinator import Attachment, Configuration, Group, Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headgate.agent import Agent
    from headgate.agent.bus.port import BusSettings

QUOTA, BURST, ASKED = 1_000.0, 1_000.0, 1_800.0
STEADY_S = 6.0
PATIENCE_S = 90.0
LEASE_S = 3.0
PRESUMED_DEAD_S = 30.0
NOBODY = "http://127.0.0.1:9"

HEAD = (
    "| fault | for | p99, us: before / during | in force and seen after "
    "| each spent, of its part | fair again: equal, of Q | over (bound) "
    "| spent apart, of it billed | memory, threads | load |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def call(told: dict[str, object]) -> None:
    """Be one caller with its agent until stdin ends."""
    agent = connect(
        cast("str", told["url"]),
        agent=cast("str", told["name"]),
        snapshot_path=cast("str", told["path"]),
        bus_options=cast("dict[str, str]", told["options"]),
        wait_s=30.0,
    )
    threading.Thread(target=_end_with_stdin, args=(agent,), daemon=True).start()
    limiter = agent.limiter(tenant="acme")
    rate = cast("float", told["rate"])
    due_s = next_s = time.monotonic()
    admitted, took = 0, list[float]()
    while True:
        now_s = time.monotonic()
        # After this process was paused, its callers do not make up for the pause.
        due_s = max(due_s, now_s - 0.5)
        while due_s <= now_s:
            due_s += 1.0 / rate
            began = time.perf_counter_ns()
            admitted += bool(limiter.try_acquire(requests=1))
            took.append((time.perf_counter_ns() - began) / 1e3)
        if now_s >= next_s:
            next_s = now_s + 0.1
            said: dict[str, object] = {"t": now_s, "admitted": admitted}
            said["p99"] = sorted(took)[int(len(took) * 0.99)] if took else 0.0
            took.clear()
            print(json.dumps(said | explained(agent)), flush=True)
        time.sleep(0.002)


def explained(agent: Agent) -> dict[str, object]:
    """Return what an agent says about its share and its process."""
    said: dict[str, object] = {
        "rss": int(Path("/proc/self/statm").read_text().split()[1]),
        "threads": threading.active_count(),
    }
    with suppress(HeadgateError):
        why = agent.explain("gold", "requests")
        said |= {"cut": why.cut_off, "kept": why.reserved, "bound": why.bound}
        said |= {"share": why.share, "free": why.available, "level": why.level}
        said |= {"n_agents": why.members}
    return said


def _end_with_stdin(agent: Agent) -> None:
    sys.stdin.read()
    agent.close()
    os._exit(0)


@dataclass
class Caller:
    """A caller's process and what it recorded."""

    process: subprocess.Popen[str]
    lines: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def read(self) -> None:
        """Record its output, in a thread of its own."""
        for line in cast("IO[str]", self.process.stdout):
            self.lines.append(json.loads(line))

    def leave(self) -> None:
        """Make it leave the cluster and end."""
        cast("IO[str]", self.process.stdin).close()
        self.process.wait(PATIENCE_S)


def start(told: dict[str, object]) -> Caller:
    """Start a caller."""
    program = "from bench.faults.stage import *; call(json.loads(sys.argv[1]))"
    caller = Caller(
        subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(told)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )
    threading.Thread(target=caller.read, daemon=True).start()
    return caller


class Stage:
    """Callers that share one quota."""

    def __init__(
        self,
        folder: Path,
        *,
        bus: BusSettings,
        url: str = NOBODY,
        options: Sequence[dict[str, str]] = ({}, {}, {}),
        traces: Path | None = None,
    ) -> None:
        """Start a caller for each of `options`, which are added to those of the bus.

        Without `url` the configuration comes from a snapshot on disk.  What callers
        record is left in the folder `traces`.
        """
        self.traces = traces
        for n in range(len(options)):
            store(folder / f"{n}.json", snapshot_of(bus))
        self.told = [
            {"name": f"agent-{n}", "url": url, "path": str(folder / f"{n}.json")}
            | {"rate": ASKED / len(options), "options": own}
            for n, own in enumerate(options)
        ]
        self.callers = [start(told) for told in self.told]
        self.ended: list[Caller] = []

    def close(self) -> None:
        """End all callers."""
        for caller in self.callers:
            caller.process.kill()
            caller.process.wait()

    def pids(self) -> list[int]:
        """Return the callers' processes."""
        return [caller.process.pid for caller in self.callers]

    def restart(self, number: int) -> None:
        """End one caller as a deployment does, and restart it under its id."""
        self.callers[number].leave()
        self.ended.append(self.callers[number])
        self.callers[number] = start(self.told[number])

    def is_fair(self) -> bool:
        """Return whether all callers have their part, within 15 %, as agents see it."""
        part = QUOTA / len(self.callers)
        return all(
            c.lines
            and not c.lines[-1].get("cut", True)
            and abs((c.lines[-1].get("share") or 0.0) - part) < 0.15 * part
            for c in self.callers
        )

    def await_fair(self) -> float:
        """Wait until shares are right for a second; return when that began."""
        deadline_s = time.monotonic() + PATIENCE_S
        since_s = 0.0
        while time.monotonic() < deadline_s:
            if not self.is_fair():
                since_s = 0.0
            elif not since_s:
                since_s = time.monotonic()
            elif time.monotonic() - since_s > 1.0:
                return since_s
            time.sleep(0.02)
        return float("nan")


def equal_s(callers: list[Caller], since_s: float) -> float:
    """Return how long it took until all shares were equal to 15 % of Q'/n for a second.

    Unlike `Stage.await_fair`, this does not check how much is shared out: what was not
    used while agents were apart is handed out afterwards, above Q.
    """
    lines = sorted(
        ((x["t"], n, x) for n, c in enumerate(callers) for x in c.lines),
        key=lambda each: each[:2],
    )
    newest: dict[int, dict[str, float]] = {}
    began_s = float("nan")
    for t, n, line in lines:
        newest[n] = line
        if t < since_s:
            continue
        free = sum(x.get("free", 0.0) for x in newest.values()) / len(callers)
        part = free / len(callers)
        equal = len(newest) == len(callers) and all(
            not x.get("cut", True) and abs(x.get("share", 0.0) - part) < 0.15 * part
            for x in newest.values()
        )
        if not equal:
            began_s = float("nan")
        elif began_s != began_s:
            began_s = t
        elif t - began_s > 1.0:
            break
    return began_s - since_s


def snapshot_of(bus: BusSettings, *, interval_s: float = 1.0) -> Snapshot:
    """Return the configuration: one group, gold, to which acme belongs."""
    limit = Limit(dimension="requests", rate=QUOTA, burst=BURST)
    configuration = Configuration(
        revision=1,
        groups=(Group(id=1, name="gold", limits=(limit,)),),
        attachments=(Attachment((("tenant", "acme"),), 1),),
    )
    return Snapshot(configuration=configuration, bus=bus, report_interval_s=interval_s)


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
    """Return the median over time of the 99th percentiles, microseconds."""
    found = [x["p99"] for c in callers for x in c.lines if since_s < x["t"] < until_s]
    return median(found) if found else float("nan")


def spent(caller: Caller, since_s: float, until_s: float) -> float:
    """Return what a caller was admitted between two times, units/s."""
    lines = [x for x in caller.lines if since_s <= x["t"] <= until_s]
    if len(lines) < 2:
        return float("nan")
    return (lines[-1]["admitted"] - lines[0]["admitted"]) / (
        lines[-1]["t"] - lines[0]["t"]
    )


@dataclass(frozen=True)
class Fault:
    """Something that fails, and the bound that the design gives for it.

    Attributes:
        name: In the table.
        strike: Causes it.
        lasts_s: How long it lasts.
        heal: Ends it.
        bound_s: Most that may be spent above B + Q·W, seconds of quota.
    """

    name: str
    strike: Callable[[], None]
    lasts_s: float = 0.0
    heal: Callable[[], None] = lambda: None
    bound_s: float = LEASE_S


def happen(fault: Fault, stage: Stage) -> None:
    """Cause one fault and print its row."""
    stage.await_fair()
    began_s = time.monotonic()
    time.sleep(STEADY_S)
    before = [caller.lines[-1] for caller in stage.callers]
    striking_s = time.monotonic()
    fault.strike()
    struck_s = time.monotonic()
    time.sleep(fault.lasts_s)
    healing_s = time.monotonic()
    fault.heal()
    healed_s = time.monotonic()
    fair_s = stage.await_fair()
    time.sleep(max(healed_s + WATCHED_S - time.monotonic(), 0.0))
    everyone = [*stage.callers, *stage.ended]
    if stage.traces is not None:
        told = [{"n": n, **x} for n, c in enumerate(everyone) for x in c.lines]
        marks = {"struck": struck_s, "healing": healing_s, "healed": healed_s}
        path = stage.traces / f"{fault.name}.json"
        path.write_text(json.dumps({**marks, "lines": told}), encoding="utf-8")
    after = [caller.lines[-1] for caller in stage.callers]
    grown = max(b["rss"] - a["rss"] for a, b in zip(before, after, strict=True))
    grown *= os.sysconf("SC_PAGE_SIZE")
    threads = max(
        b["threads"] - a["threads"] for a, b in zip(before, after, strict=True)
    )
    print(
        f"| {fault.name} | {healed_s - striking_s:.0f} s "
        f"| {p99_us(everyone, began_s, striking_s):.0f} / "
        f"{p99_us(everyone, striking_s, healing_s):.0f} "
        f"| {_in_force(stage, struck_s, healing_s)} "
        f"| {equal_s(stage.callers, healed_s):.1f} s, {fair_s - healed_s:.1f} s "
        f"| {overshoot_s(everyone, began_s):+.2f} s ({fault.bound_s:.0f} s) "
        f"| {_billed(everyone, struck_s, healing_s, healed_s)} "
        f"| {grown / 1e6:+.1f} MB, {threads:+.0f} | {os.getloadavg()[0]:.0f} |",
        flush=True,
    )


def _billed(
    everyone: list[Caller], struck_s: float, healing_s: float, healed_s: float
) -> str:
    """Return how much all spent while something was wrong, and how much was billed."""
    lines = [list(caller.lines) for caller in everyone]
    apart = Total(lines).between(struck_s, healing_s)
    billed = billed_units(
        lines, rate_per_s=QUOTA, healing_s=healing_s, healed_s=healed_s
    )
    return f"{apart / QUOTA:.1f} s, {billed / QUOTA:.2f} s"


def _in_force(stage: Stage, struck_s: float, healing_s: float) -> str:
    """Return when agents knew that they or others were cut off, and what they spent.

    Spending counts from a second after the lease on, as a multiple of Q/n.
    """
    seen: list[float] = []
    cut = list[int]()
    rates: list[float] = []
    lines = [x for c in stage.callers for x in c.lines if struck_s < x["t"] < healing_s]
    for number, caller in enumerate(stage.callers):
        told = [x for x in caller.lines if struck_s < x["t"] < healing_s]
        since_s = [x["t"] for x in told if x.get("cut") or x.get("kept")]
        seen += [since_s[0] - struck_s] if since_s else []
        cut += [number] if any(x.get("cut") for x in told) else []
        rates.append(spent(caller, struck_s + LEASE_S + 1.0, healing_s))
    if not seen:
        return "none | "
    part = QUOTA / len(stage.callers)
    spending = ", ".join(f"{rate / part:.2f}" for rate in rates)
    bound = max(x.get("bound", 0.0) for x in lines)
    return (
        f"{max(seen):.1f} s, {len(cut)} of {len(rates)} cut off, the others keep "
        f"for them | {spending}; said: {bound:.0f} Q more"
    )
