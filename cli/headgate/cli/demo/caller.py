"""One of the demo's processes: an embedded limiter under an open-loop load.

Started as ``python -m headgate.cli.demo.caller``.  It prints ``prepared``, waits
for a line on stdin, connects an agent, prints ``ready``, reads from stdin when the run
began and when its own load begins, makes the attempts when they are due, and logs each
with its true time.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from headgate.agent import connect
from headgate.cli.demo.arrivals import PhasedArrivals
from headgate.cli.demo.callerlog import CallerLog
from headgate.cli.demo.script import SHAPES, Script, script
from headgate.cli.process.children import hold_to_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.agent import Limiter

TENANT, NAMESPACE = "acme", "acme/orders"
"""The subject that all callers share."""

PREPARED = "prepared"
"""Printed by a caller once it has imported everything."""

READY = "ready"
"""Printed by a caller once its agent has a configuration."""

TICK_S = 0.002
"""Arrivals due within 2 ms are made together: five such processes cost a machine
of two cores a few per cent, and the log has the true time of each attempt."""

LONGEST_SLEEP_S = 0.1
"""An idle caller wakes this often, so that it ends on time."""

_SPARE = 1.5
"""Room in the log, as a multiple of the expected attempts: Poisson needs 3 % more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one caller to the end of the script and return 0."""
    hold_to_parent()
    options = _options(arguments)
    shape = SHAPES[options.shape]
    plan = script(options.seconds, shape)
    index = shape.agents.index(options.agent)
    units = sum(p.demand_per_s[index] * (p.ends_s - p.begins_s) for p in plan.phases)
    expected = units / shape.mean_cost
    log = CallerLog(options.log, capacity=1000 + int(expected * _SPARE))
    _say(PREPARED)
    if not sys.stdin.readline():
        return 1
    with connect(
        options.url,
        agent=options.agent,
        snapshot_path=options.directory / "snapshot.json",
    ) as agent:
        limiter = agent.limiter(tenant=TENANT, namespace=NAMESPACE)
        _say(READY)
        started_ns, from_s = _told_to_go(sys.stdin.readline())
        threading.Thread(target=_end_with_stdin, daemon=True).start()
        random = Random(options.seed)
        arrivals = PhasedArrivals(
            plan.phases,
            agent=index,
            random=random,
            from_s=from_s,
            cost=shape.mean_cost,
        )
        _make_attempts(limiter, arrivals, log, plan, random, started_ns=started_ns)
    log.close()
    return 0


def _make_attempts(
    limiter: Limiter,
    arrivals: PhasedArrivals,
    log: CallerLog,
    plan: Script,
    random: Random,
    *,
    started_ns: int,
) -> None:
    """Attempt what is due until the script ends, without waiting for answers."""
    clock, attempt, record = time.monotonic_ns, limiter.try_acquire, log.record
    shape = plan.shape
    units = {shape.dimension: shape.costs[0]}
    while (now_s := (clock() - started_ns) / 1e9) < plan.seconds:
        for _ in range(arrivals.due(now_s)):
            cost = units[shape.dimension] = shape.draw_cost(random)
            begun_ns = clock()
            decision = attempt(**units)
            record(begun_ns, clock() - begun_ns, bool(decision), cost)
        until_next_s = min(arrivals.next_s, plan.seconds) - now_s
        time.sleep(min(max(until_next_s, TICK_S), LONGEST_SLEEP_S))


def _told_to_go(line: str) -> tuple[int, float]:
    """Return when the run began, and the second of it in which the load begins."""
    started, begin = line.split()
    late_s = (time.monotonic_ns() - int(started)) / 1e9
    return int(started), max(float(begin), late_s)


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    """End at once when the parent closes the pipe, which means that it is gone."""
    while sys.stdin.readline():
        pass
    os._exit(1)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--shape", required=True, choices=SHAPES)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--log", required=True, type=Path)
    parser.add_argument("--directory", required=True, type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
