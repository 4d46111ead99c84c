"""A hundred agents that start within one second.

``python bench/faults/run.py --play hundred`` plays it.

Their processes are forked from one that has imported everything, and wait for a signal;
then each connects.  They share one quota over ZeroMQ, and are asked for 1.8 times it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from bench.faults.stage import ASKED, BURST, NOBODY, QUOTA, explained

from headgate.agent import connect

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

LOOK_S = 0.25


def crowd(agents: int, path: Path, seconds: float) -> None:
    """Fork callers, start them together, and let them write to stdout."""
    reading, writing = os.pipe()
    children: list[int] = []
    for number in range(agents):
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)  # ends when the parent closes its end
            _call(number, agents, path, seconds, sys.stdout)
            os._exit(0)
        children.append(pid)
    time.sleep(1.0)
    os.close(writing)
    for pid in children:
        os.waitpid(pid, 0)


def _call(number: int, agents: int, path: Path, seconds: float, out: TextIO) -> None:
    began_s = time.monotonic()
    agent = connect(
        NOBODY, agent=f"agent-{number}", snapshot_path=path, keep_snapshot=True
    )
    limiter = agent.limiter(tenant="acme")
    started_s = next_s = due_s = time.monotonic()
    admitted, took = 0, list[float]()
    while time.monotonic() < began_s + seconds:
        now_s = time.monotonic()
        due_s = max(due_s, now_s - 0.5)
        while due_s <= now_s:
            due_s += agents / ASKED
            clock = time.perf_counter_ns()
            admitted += bool(limiter.try_acquire(requests=1))
            took.append((time.perf_counter_ns() - clock) / 1e3)
        if now_s >= next_s:
            next_s = now_s + LOOK_S
            said = {"n": number, "t": now_s, "began": began_s, "started": started_s}
            said |= {"admitted": admitted, "p99": max(took, default=0.0)}
            said |= {"sent": agent.metrics().get("bus_published", 0)}
            took.clear()
            line = json.dumps(said | explained(agent)) + "\n"
            os.write(out.fileno(), line.encode())  # one write each: lines stay whole
        time.sleep(0.02)
    agent.close()


def judged(lines: list[dict[str, float]], agents: int) -> str:
    """Return the row of the table."""
    by_agent: dict[int, list[dict[str, float]]] = {}
    for line in lines:
        by_agent.setdefault(int(line["n"]), []).append(line)
    first_s = min(line["began"] for line in lines)
    last_s = max(line["started"] for line in lines)
    part = QUOTA / agents
    fair_s, met_s = _since(by_agent, agents, part)
    debt = worst = 0.0
    at_s = first_s
    steps = sorted(
        (after["t"], after["admitted"] - before["admitted"])
        for told in by_agent.values()
        for before, after in zip([{"admitted": 0.0}, *told], told, strict=False)
    )
    for t, admitted in steps:
        debt = max(debt - QUOTA * (t - at_s), 0.0) + admitted
        at_s, worst = t, max(worst, debt)
    newest = [told[-1] for told in by_agent.values()]
    threads = max(x["threads"] for x in newest)
    return (
        f"| {agents} agents start, all within {last_s - first_s:.1f} s "
        f"| all have met after {met_s - last_s:.1f} s "
        f"| nine tenths have their part after {fair_s - last_s:.1f} s "
        f"| over {(worst - BURST) / QUOTA:+.2f} s | {threads:.0f} threads "
        f"| load {os.getloadavg()[0]:.0f} |"
    )


def _since(
    by_agent: dict[int, list[dict[str, float]]], agents: int, part: float
) -> tuple[float, float]:
    """Return when nine tenths had their part for good, and when all had met."""
    if len(by_agent) < agents:
        return float("nan"), float("nan")
    met = max(
        next((x["t"] for x in told if x.get("n_agents") == agents), float("inf"))
        for told in by_agent.values()
    )
    off = sorted(
        max(
            (x["t"] for x in told if abs((x.get("share") or 0.0) - part) > 0.15 * part),
            default=0.0,
        )
        for told in by_agent.values()
    )
    return off[int(0.9 * agents)], met
