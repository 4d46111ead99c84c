"""What a cycle of reports costs an agent, and how that grows.

``.venv/bin/python bench/coordinator.py`` prints medians in milliseconds of thread CPU
time: codec, ledger and shares apart, dense (100 agents × 5,000 groups), with a tenth
of the rows changed, in PIP-82's sparse size (5,000 own groups × 5 agents), for one
limit whose callers are busy at every look, and while an agent asks for levels.
``--grow FILE.svg`` measures how it grows in agents and groups, which five agents use
or all, and draws the latter.
"""

from __future__ import annotations

import argparse
import gc
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from time import thread_time

import numpy as np

from headgate.agent.wire.codec import decode, encode
from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Group,
    Heard,
    Keys,
    Limit,
    Publish,
    Report,
    Rows,
    Settings,
)
from headgate.coordinator.membership.bootstrap import ANSWERS_MAX, Bootstrap, Moves
from headgate.coordinator.table.arrays import FIELDS

DIMENSION = "requests"
RATE = 1000.0
T_S = 1.0
LOOKS_PER_S = 40


class Bench:
    """One agent that hears `agents` others, each using some of its groups."""

    def __init__(self, *, groups: int, agents: int, users: int, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.groups, self.agents, self.users = groups, agents, users
        self.now = 0.0
        self.coordinator = Coordinator(
            Settings(), agent="self", incarnation=1, seed=1, now=0.0
        )
        ids = np.arange(1, groups + 1)
        limit = Limit(dimension=DIMENSION, rate=RATE, burst=RATE)
        configured = Configuration(
            revision=1,
            groups=tuple(Group(id=int(i), name=f"g{i}", limits=(limit,)) for i in ids),
        )
        self.keys = Keys((DIMENSION,), np.zeros(groups, dtype=np.int64), ids)
        self.own = np.zeros(groups)
        self.coordinator.step(0.0, Configured(configured), wall_s=0.0)
        self.used = self._used()
        self.admitted = {j: np.zeros(len(ids)) for j, ids in self.used.items()}
        self.sequence = 0
        self.said: list[Report] = []

    def _used(self) -> dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Return the groups that each agent uses, with `users` agents per group."""
        chosen: dict[int, list[int]] = {j: [] for j in range(self.agents)}
        for group in range(1, self.groups + 1):
            if self.users == self.agents:
                users = range(self.agents)
            else:
                users = self.random.choice(self.agents, self.users, replace=False)
            for j in users:
                chosen[int(j)].append(group)
        return {j: np.array(ids, dtype=np.int64) for j, ids in chosen.items()}

    def messages(self, part: float) -> list[bytes]:
        """Return a cycle's reports as bytes, with the fraction `part` of the rows."""
        self.sequence += 1
        sent: list[bytes] = []
        changed = self.random.random(self.groups + 1) < part
        for j, ids in self.used.items():
            size = len(ids)
            rows = np.arange(size)
            if part < 1.0:
                # The load of some groups changes, at all agents that use them.
                rows = np.flatnonzero(changed[ids])
            self.admitted[j] += self.random.poisson(8.0, size)
            report = Report(
                cluster="default",
                agent=f"agent-{j}",
                incarnation=1,
                sequence=self.sequence,
                sent_at_s=self.now,
                keyframe=part >= 1.0,
            )
            column = Rows(
                dimension=DIMENSION,
                group_ids=ids[rows],
                refused=np.zeros(len(rows)),
                admitted=self.admitted[j][rows],
                demand=self.random.uniform(5, 15, len(rows)).round(),
                held=np.zeros(len(rows)),
                cost=np.ones(len(ids[rows])),
            )
            sent.append(encode(replace(report, rows=(column,))))
        return sent

    def cycle(self, part: float) -> tuple[float, float, int]:
        """Return (decode, ledger and shares) in ms and the bytes of one cycle."""
        messages = self.messages(part)
        # Busy ledgers are looked at anyway, so only the cost of reports is timed.
        self.now += T_S
        self.tick()
        self.echo()
        gc.collect()
        before = thread_time()
        reports = [decode(message) for message in messages]
        decoded = thread_time()
        self.now += 0.001
        event = Heard(tuple(reports))
        self.coordinator.step(self.now, event, wall_s=self.now)
        heard = thread_time()
        self.tick()
        shared = thread_time()
        self.echo()
        self.parts = (heard - decoded) * 1e3, (shared - heard) * 1e3
        size = sum(map(len, messages))
        return (decoded - before) * 1e3, (shared - decoded) * 1e3, size

    def second(self) -> float:
        """Return the ms of a second in which callers here are busy at every look."""
        reports = [decode(message) for message in self.messages(1.0)]
        before = thread_time()
        self.coordinator.step(self.now, Heard(tuple(reports)), wall_s=self.now)
        for _ in range(LOOKS_PER_S):
            self.now += T_S / LOOKS_PER_S
            self.own += 0.2
            self.tick()
            self.echo()
        return (thread_time() - before) * 1e3

    def table_mb(self) -> float:
        """Return the memory of all ledgers, MB."""
        blocks = self.coordinator._state.table.blocks
        return sum(getattr(b, name).nbytes for b in blocks for name in FIELDS) / 1e6

    def tick(self) -> None:
        """Step the counters."""
        zeros = np.zeros(self.groups)
        counted = Counted(
            self.keys,
            zeros,
            self.own,
            zeros,
            np.ones(self.groups),
            np.ones(self.groups, dtype=np.int64),
        )
        effects = self.coordinator.step(self.now, counted, wall_s=self.now)
        self.said += [each.report for each in effects if isinstance(each, Publish)]

    def echo(self) -> None:
        """Hear this agent's own reports: without an echo it would think it is mute."""
        for report in self.said:
            self.coordinator.step(self.now, Heard((report,)), wall_s=self.now)
        self.said.clear()


def measure(name: str, *, groups: int, agents: int, users: int, part: float) -> None:
    """Print one line: medians of nine cycles after three to warm up."""
    bench = Bench(groups=groups, agents=agents, users=users)
    bench.tick()
    for _ in range(3):
        bench.cycle(1.0)
    found = [(*bench.cycle(part), *bench.parts) for _ in range(9)]
    decoding, sharing, size, hearing, ticking = (
        median(run[i] for run in found) for i in range(5)
    )
    rows = groups * users * part
    print(
        f"{name:34s} {rows:9,.0f} rows  decode {decoding:6.1f} ms  "
        f"ledger + shares {sharing:6.1f} ms (hear {hearing:5.1f}, tick {ticking:5.1f})"
        f"  {size / max(rows, 1):5.1f} bytes a row"
    )


def measure_looks(agents: int) -> None:
    """Print what one busy limit costs an agent: the median and the least of 60 seconds.

    A look is so short that a machine that is used by others slows some seconds down by
    half, but rarely all.
    """
    bench = Bench(groups=1, agents=agents, users=agents)
    bench.tick()
    found = [bench.second() for _ in range(63)][3:]
    took, least = median(found), min(found)
    print(
        f"one busy limit, {agents} agents: {took:.1f} ms of CPU a second, "
        f"{least:.1f} at least"
    )


def measure_asking(groups: int) -> None:
    """Print what a report costs besides, while an agent asks for levels.

    It is compared with all that the agent heard since it asked, up to what is kept.
    """
    asking, numbers = Bootstrap(), np.arange(groups)
    asking.begin(0, None)
    units, took = np.ones(groups), list[float]()
    for n in range(4 * ANSWERS_MAX):
        at, member = 0.01 * n, n % 50
        began = thread_time()
        asking.answer(numbers, units, units, member=member, reported_at=at)
        asking.moved(Moves(numbers, units, np.full(groups, at + 0.1), member, at))
        took.append(thread_time() - began)
    each = 1e3 * median(took[2 * ANSWERS_MAX :])
    print(f"a report of {groups} rows while asking for levels: {each:.2f} ms besides")


GROW_AGENTS, GROW_GROUPS = (10, 30, 100, 300), (100, 1_000, 5_000, 20_000)
GROW_USERS = 5
"""Agents per group in the second table, as in PIP-82."""

GROW_RUNS, GROW_RUNS_LARGE, LARGE = 5, 1, 2_000_000
"""Cycles for the median, cycles of a large cluster, and how many rows make it large."""

Grown = dict[tuple[int, int], tuple[float, float, float, float]]
"""By agents and groups: decode ms, ledger + shares ms, MB of table, kB of a report."""


def grow(path: Path) -> None:
    """Print how the cost of a cycle in which every row changes grows, and draw it."""
    found: Grown = {}
    for users in (GROW_USERS, None):
        print(f"\n{users or 'all'} agents use a group\n")
        print("| agents | groups | decode | ledger + shares | table | one report |")
        print("|---|---|---|---|---|---|")
        for agents, groups in product(GROW_AGENTS, GROW_GROUPS):
            row = grown(agents, groups, users or agents)
            if users is None:
                found[agents, groups] = row
                draw(found, path)
            decoding, sharing, table_mb, heard_kb = row
            print(
                f"| {agents} | {groups:,} | {decoding:.1f} ms | {sharing:.1f} ms "
                f"| {table_mb:.1f} MB | {heard_kb / agents:.1f} kB |",
                flush=True,
            )


def grown(agents: int, groups: int, users: int) -> tuple[float, float, float, float]:
    """Return one row of the table: see `Grown`."""
    bench = Bench(groups=groups, agents=agents, users=users)
    bench.tick()
    bench.cycle(1.0)
    large = groups * users > LARGE
    runs = [bench.cycle(1.0) for _ in range(GROW_RUNS_LARGE if large else GROW_RUNS)]
    decoding, sharing, size = (median(run[i] for run in runs) for i in range(3))
    return decoding, sharing, bench.table_mb(), size / 1e3


def draw(found: Grown, path: Path) -> None:
    """Draw CPU, memory and bytes by groups, a line for each number of agents."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = (
        ("CPU of a cycle, ms", lambda row: row[0] + row[1]),
        ("table, MB", lambda row: row[2]),
        ("heard in a cycle, kB", lambda row: row[3]),
    )
    for axes, (title, value) in zip(figure.subplots(1, 3), panels, strict=True):
        for agents in GROW_AGENTS:
            of = {g: value(row) for (a, g), row in found.items() if a == agents}
            axes.loglog(list(of), list(of.values()), "o-", label=f"{agents} agents")
        axes.set(title=title, xlabel="groups, used by all agents")
        axes.grid(visible=True, which="major", alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(path)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure only the three budgets"
    )
    parser.add_argument(
        "--grow",
        metavar="FILE.svg",
        type=Path,
        help="draw agents × groups to this file",
    )
    arguments = parser.parse_args()
    quick = arguments.quick
    if arguments.grow:
        if arguments.grow.suffix != ".svg" or not arguments.grow.parent.is_dir():
            raise SystemExit(
                f"--grow {arguments.grow}: expected a file .svg in a folder that exists"
            )
        grow(arguments.grow)
        return
    measure("PIP-82: 5 of 100 agents a group", groups=5000, agents=100, users=5, part=1)
    measure("dense, every row changed", groups=5000, agents=100, users=100, part=1)
    measure(
        "dense, a tenth of the groups", groups=5000, agents=100, users=100, part=0.1
    )
    for agents in (3, 30):
        measure_looks(agents)
    for groups in (1, 200):
        measure_asking(groups)
    if quick:
        return
    for agents in (10, 30, 100, 300):
        measure(
            f"{agents} agents × 1,000 groups",
            groups=1000,
            agents=agents,
            users=agents,
            part=1,
        )
    for groups in (10, 100, 1000, 10_000):
        measure(
            f"{groups} groups × 30 agents", groups=groups, agents=30, users=30, part=1
        )


if __name__ == "__main__":
    main()
