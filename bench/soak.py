"""Ten minutes of random kills: real agents on one quota, and what one bucket would do.

``python bench/soak.py [--minutes 10] [--agents 12] [--kept 3] [--kill-every 4]
[--bus zeromq|curve|kafka] [--kill-bus-every 60] [--costs one|mixed]``.
Starts a bus, `headgate up` and a process for each agent, all under load.  Every few
seconds one is killed (SIGKILL) and started again some seconds later, half of the time
under another id, as a platform would do.  Those that are kept alive show whether
anything grows.

The callers log every attempt and its outcome in memory that survives a kill; the
yardstick is one central bucket with the very same attempts.

With ``--costs mixed`` requests cost 1 to 2,000 units, the whole burst.  The exit status
is 1 if the total is not within 0.97 to 1.02 of the central bucket's, or if admissions
go deeper than its own depth by more than one largest request of each agent.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import select
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from bench.soak_bus import BUSES, Killer, open_middle  # noqa: E402 - of the repository

from headgate.agent import connect  # noqa: E402
from headgate.cli.client.rest import Rest  # noqa: E402
from headgate.cli.demo.callerlog import CallerLog, read_log  # noqa: E402
from headgate.cli.demo.replay import (  # noqa: E402
    admitted_by_one_bucket,
    deepest_debt,
    ratio_of_totals,
    worst_window,
)
from headgate.cli.demo.summary import RATIO_BOUNDS, RATIO_COSTS  # noqa: E402
from headgate.cli.process.children import Child, Children, hold_to_parent  # noqa: E402

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUOTA = 2_000.0
BURST = 2_000.0

DEMAND = (0.2, 3.0)
"""An agent's demand is between these multiples of Q/n, drawn again now and then:
1.6 times the quota in all while everyone is alive."""

REDRAW_S = 15.0
AWAY_S = (0.5, 8.0)
"""A killed agent is started again after a time between these."""

LOOK_S = 5.0
TICK_S = 0.005
WARM_UP_S = 60.0
"""From the start to the first look at memory, and to the first attempt that counts."""

START_S = 120.0
WINDOW_S = 10.0

COSTS = {"one": (1, 1), "mixed": (1, 2_000)}
"""Least and most units of a request; the logarithm is uniform."""


def mean_cost(costs: tuple[int, int]) -> float:
    """Return the units of the average request."""
    least, most = costs
    return least if least == most else (most - least) / math.log(most / least)


def call(url: str, agent: str, log: Path, seconds: float, kind: str) -> None:
    """Run one caller: ``rate N`` (units/s) and ``status`` come on stdin."""
    hold_to_parent()
    least, most = COSTS[kind]
    mean = mean_cost((least, most))
    records = CallerLog(log, int(seconds * QUOTA * 2 / mean) + 1000)
    random.seed(agent)
    joined = connect(url, agent=agent, keep_snapshot=False, wait_s=60.0)
    limiter = joined.limiter(tenant="acme")
    rate, due_s = 0.0, time.monotonic()
    while True:
        if select.select([sys.stdin], [], [], TICK_S)[0]:
            for told in os.read(sys.stdin.fileno(), 4096).decode().splitlines():
                if told == "status":
                    print(len(joined.status().members), flush=True)
                else:
                    rate, due_s = float(told.removeprefix("rate ")), time.monotonic()
        now_s = time.monotonic()
        while rate > 0 and due_s <= now_s:
            due_s += random.expovariate(rate / mean)
            cost = round(least * (most / least) ** random.random())
            begun_ns = time.monotonic_ns()
            admitted = bool(limiter.try_acquire(requests=cost))
            records.record(begun_ns, time.monotonic_ns() - begun_ns, admitted, cost)


@dataclass(slots=True)
class Slot:
    """A place for an agent; processes fill it one after another.

    Attributes:
        child: The process; None after it was killed.
        back_s: When the next one is started, on the monotonic clock.
        lives: Lives started so far.
        log: Log of the newest life.
    """

    agent: str
    log: Path
    child: Child | None = None
    back_s: float = 0.0
    lives: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What the kernel says about one process; `heap_mb` is its private memory."""

    at_s: float
    heap_mb: float
    threads: int
    files: int

    @staticmethod
    def at(pid: int) -> Look:
        """Look now."""
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        told = dict(line.split(":", 1) for line in lines)
        return Look(
            at_s=time.monotonic(),
            heap_mb=int(told["RssAnon"].split()[0]) / 1024,
            threads=int(told["Threads"]),
            files=len(os.listdir(f"/proc/{pid}/fd")),
        )


@dataclass(slots=True)
class Soak:
    """The cluster under test, and what was observed."""

    options: argparse.Namespace
    folder: Path
    children: Children
    killer: Killer
    url: str = ""
    kills: int = 0
    renamed: int = 0
    slots: list[Slot] = field(default_factory=list[Slot])
    logs: list[Path] = field(default_factory=list[Path])
    looks: dict[str, list[Look]] = field(default_factory=dict[str, list[Look]])
    loads: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def run(self) -> tuple[float, float]:
        """Run it; return the times between which it counts."""
        chance = random.Random(self.options.seed)
        server = self._serve()
        ids = [f"agent-{number}" for number in range(self.options.agents)]
        self.slots = [Slot(agent, self.folder / agent) for agent in ids]
        for slot in self.slots:
            self._start(slot, chance)
        began_s = time.monotonic()
        self._await_all()
        from_s = max(time.monotonic(), began_s + WARM_UP_S)
        until_s = from_s + self.options.minutes * 60
        look_s = redraw_s = time.monotonic()
        kill_s = look_s if self.options.kill_every else math.inf
        self.killer.begin()
        while (now_s := time.monotonic()) < until_s:
            if now_s >= kill_s:
                kill_s = now_s + chance.expovariate(1 / self.options.kill_every)
                self._kill_one(chance)
            if now_s >= redraw_s:
                redraw_s = now_s + REDRAW_S
                for slot in self.slots:
                    self._tell_rate(slot, chance)
            for slot in self.slots:
                if slot.child is None and now_s >= slot.back_s:
                    self._start(slot, chance)
            if now_s >= look_s:
                look_s = now_s + LOOK_S
                self._look(server)
            self.killer.look()
            self.children.check()
            time.sleep(0.05)
        self.killer.end()
        return from_s, until_s

    def members(self) -> int:
        """Return how many agents the longest-lived one knows of."""
        child = self.slots[0].child
        assert child is not None, "the first is never killed"
        child.tell("status")
        return int(child.line(START_S))

    def attempts(self) -> NDArray[np.void]:
        """Return all attempts of all lives, by time."""
        records = np.concatenate([read_log(log) for log in self.logs if log.exists()])
        return records[np.argsort(records["at_ns"], kind="stable")]

    def _serve(self) -> Child:
        ready = self.folder / "ready.json"
        command = [sys.executable, "-m", "headgate.cli", "up", "--port", "0"]
        command += ["--bus", self.killer.middle.address, "--ready-file", str(ready)]
        command += ["--database", str(self.folder / "headgate.db")]
        log = self.folder / "up.log"
        server = self.children.start("the server", command, log=log, talks=False)
        self.url = json.loads(server.file(ready, START_S))["api"]
        limit = {"dimension": "requests", "rate": QUOTA, "burst": BURST}
        with Rest(self.url) as rest:
            rest.call("POST", "/api/v1/groups", body={"name": "g", "limits": [limit]})
            rest.call("PUT", "/api/v1/tenants/acme", body={})
            attachment = {"subject": {"tenant": "acme"}, "group": "g"}
            rest.call("PUT", "/api/v1/attachments", body=attachment)
        return server

    def _start(self, slot: Slot, chance: random.Random) -> None:
        if slot.lives and chance.random() < 0.5:
            self.renamed += 1
            slot.agent = f"{slot.agent.split('.')[0]}.{slot.lives}"
        slot.lives += 1
        slot.log = self.folder / f"{slot.agent}-{slot.lives}.log"
        self.logs.append(slot.log)
        seconds = self.options.minutes * 60 + WARM_UP_S + START_S
        command = [sys.executable, __file__, "--call", self.url, slot.agent]
        command += [str(slot.log), str(seconds / self.options.agents)]
        command += [self.options.costs]
        errors = self.folder / "agents.log"
        slot.child = self.children.start(slot.agent, command, log=errors)
        self._tell_rate(slot, chance)

    def _tell_rate(self, slot: Slot, chance: random.Random) -> None:
        if slot.child is not None:
            part = chance.uniform(*DEMAND) / self.options.agents
            slot.child.tell(f"rate {QUOTA * part}")

    def _kill_one(self, chance: random.Random) -> None:
        mortal = [s for s in self.slots[self.options.kept :] if s.child is not None]
        if not mortal:
            return
        slot = chance.choice(mortal)
        assert slot.child is not None
        self.children.forget(slot.child)
        slot.child, slot.back_s = None, time.monotonic() + chance.uniform(*AWAY_S)
        if slot.log.exists():  # otherwise it was killed before it began
            os.truncate(slot.log, read_log(slot.log).nbytes)
        self.kills += 1

    def _look(self, server: Child) -> None:
        self.loads.append((time.monotonic(), os.getloadavg()[0]))
        watched = {"headgate up": server}
        for slot in self.slots[: self.options.kept]:
            assert slot.child is not None
            watched[slot.agent] = slot.child
        for name, child in watched.items():
            self.looks.setdefault(name, []).append(Look.at(child.pid))

    def _await_all(self) -> None:
        deadline_s = time.monotonic() + START_S
        while (met := self.members()) < len(self.slots):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{met} of {len(self.slots)} met")
            time.sleep(0.2)


def tell_load(loads: list[tuple[float, float]], from_s: float, until_s: float) -> None:
    """Print the load average, minute by minute, to compare the ratios with."""
    at_s, load = np.array(loads).T
    minutes = edges(from_s, until_s)
    part = np.histogram(at_s, minutes, weights=load)[0]
    means = part / np.maximum(np.histogram(at_s, minutes)[0], 1)
    print(f"load average                {load[at_s >= from_s].mean():.1f}")
    print(f"  minute by minute          {' '.join(f'{one:.0f}' for one in means)}")


def edges(from_s: float, until_s: float) -> NDArray[np.float64]:
    """Return the edges of the minutes between two times."""
    minutes = max(round((until_s - from_s) / 60), 1)
    return np.linspace(from_s, until_s, minutes + 1)


def tell_accuracy(
    records: NDArray[np.void], from_s: float, until_s: float, largest: int, agents: int
) -> list[str]:
    """Print how much was admitted compared with one bucket, minute by minute.

    Args:
        records: All attempts of all lives, by time.
        from_s: When it began to count.
        until_s: When it ended.
        largest: Units of the largest request.
        agents: How many processes admitted at a time.

    Returns:
        What breaks the promises, a sentence each.
    """
    at_s, cost = records["at_ns"] / 1e9, records["cost"].astype(np.float64)
    admitted = records["admitted"].astype(bool)
    bucket = {"rate_per_s": QUOTA, "burst_units": BURST}
    central = admitted_by_one_bucket(at_s, cost, **bucket)
    counts = (at_s >= from_s) & (at_s < until_s)
    minutes = edges(from_s, until_s)
    got, due = (
        np.histogram(at_s[x], minutes, weights=cost[x])[0] for x in (admitted, central)
    )
    whole = ratio_of_totals(
        at_s[counts],
        cost[counts],
        admitted[counts],
        central[counts],
        last_s=RATIO_COSTS * largest / QUOTA,
    )
    inside = admitted & counts
    passed, units = at_s[inside], cost[inside]
    over = deepest_debt(passed, units, **bucket)
    own = deepest_debt(at_s[central & counts], cost[central & counts], **bucket)
    fullest = worst_window(passed, units, window_s=WINDOW_S)
    p50, p99 = np.percentile(records["spent_ns"][counts], (50, 99)) / 1e3
    asked = cost[counts].sum() / (QUOTA * (until_s - from_s))
    print(f"asked of Q                  {asked:.2f}, {counts.sum():,} attempts")
    print(f"admitted of one bucket      {whole:.4f}")
    tell_drift(got / due)
    print(f"most over Q·W + B           {over / QUOTA:.2f} s of quota")
    print(
        f"  in largest requests       {over / largest:.2f}, "
        f"one bucket's own {own / largest:.2f}"
    )
    full = fullest / (QUOTA * WINDOW_S + BURST)
    print(f"fullest {WINDOW_S:g} s of Q·W + B     {full:.3f}")
    print(f"try_acquire p50 / p99       {p50:.1f} / {p99:.1f} µs")
    return broken_promises(whole, over - own, largest, agents)


def tell_drift(ratios: NDArray[np.float64]) -> None:
    """Print the ratio of each minute, and their trend."""
    slope = np.polyfit(np.arange(len(ratios)), ratios, 1)[0] if len(ratios) > 1 else 0.0
    print(f"  minute by minute          {' '.join(f'{one:.3f}' for one in ratios)}")
    print(f"  drift                     {slope * 100:+.3f} % a minute")


def broken_promises(
    whole: float, deeper: float, largest: int, agents: int
) -> list[str]:
    """Return what breaks the promises, a sentence each.

    Args:
        whole: What was admitted, as a part of what one bucket admits.
        deeper: Units by which the debt was deeper than that bucket's own.
        largest: Units of the largest request.
        agents: How many processes admitted at a time.
    """
    low, high = RATIO_BOUNDS
    faults: list[str] = []
    if not low <= whole <= high:
        faults.append(f"admitted {whole:.3f} of one bucket, expected {low} to {high}")
    if largest > 1 and deeper > agents * largest:
        told = f"{deeper / largest:.1f} largest requests over one bucket's depth"
        faults.append(f"{told}, expected at most one of each of {agents} processes")
    return faults


def tell_growth(looks: dict[str, list[Look]], from_s: float) -> None:
    """Print memory, threads and files of processes that lived through the whole run."""
    for name, seen in looks.items():
        counted = [look for look in seen if look.at_s >= from_s] or seen
        first, last = counted[0], counted[-1]
        minutes = [(look.at_s - first.at_s) / 60 for look in counted]
        half = len(counted) // 2
        late = counted[half:]
        slope = np.polyfit(minutes[half:], [look.heap_mb for look in late], 1)[0]
        print(
            f"{name:<27} {first.heap_mb:.1f} → {last.heap_mb:.1f} MB "
            f"({slope:+.3f} MB a minute in the second half), threads {first.threads} "
            f"→ {last.threads}, files {first.files} → {last.files}"
        )


def mistake(options: argparse.Namespace) -> str:
    """Return what is wrong with the command line; empty if nothing is."""
    if not 0 < options.minutes < math.inf:
        return f"--minutes {options.minutes:g}: expected a number > 0"
    if options.agents < 1:
        return f"--agents {options.agents}: expected at least 1"
    if not 1 <= options.kept <= options.agents:
        return f"--kept {options.kept}: expected 1 to {options.agents}"
    for name in ("kill_every", "kill_bus_every"):
        value = getattr(options, name)
        if not 0 <= value < math.inf:
            told = name.replace("_", "-")
            return f"--{told} {value:g}: expected a number ≥ 0"
    return ""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--kept", type=int, default=3)
    parser.add_argument(
        "--kill-every",
        type=float,
        default=4.0,
        help="mean seconds between kills; 0 for never",
    )
    parser.add_argument("--bus", choices=BUSES, default="zeromq")
    parser.add_argument(
        "--kill-bus-every",
        type=float,
        default=0.0,
        help="mean seconds between kills; 0 for never",
    )
    parser.add_argument("--costs", choices=COSTS, default="one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--call", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        url, agent, log, seconds, kind = options.call
        call(url, agent, Path(log), float(seconds), kind)
        return
    if wrong := mistake(options):
        parser.exit(2, f"soak: {wrong}\n")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children = stack.enter_context(Children())
        middle = open_middle(options.bus, folder, children)
        stack.callback(middle.close)
        chance = random.Random(f"{options.seed}/bus")
        killer = Killer(middle, options.kill_bus_every, chance)
        soak = Soak(options, folder, children, killer)
        from_s, until_s = soak.run()
        members, alive = soak.members(), sum(s.child is not None for s in soak.slots)
        print(
            f"{options.agents} agents, {options.minutes:g} minutes, "
            f"{soak.kills} kills, {soak.renamed} came back under another id; "
            f"{options.bus}, killed {killer.kills} times"
        )
        largest = COSTS[options.costs][1]
        faults = tell_accuracy(
            soak.attempts(), from_s, until_s, largest, options.agents
        )
        tell_growth(soak.looks, from_s)
        print(f"agents known at the end     {members}, {alive} of them alive")
        tell_load(soak.loads, from_s, until_s)
        for fault in faults:
            print(f"FAILED: {fault}")
    if faults:
        sys.exit(1)


if __name__ == "__main__":
    main()
