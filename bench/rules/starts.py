"""Agents that begin while the API is silent, and agents whose looks take long.

``PYTHONPATH=. .venv/bin/python bench/rules/starts.py`` prints in how many of some cases
an agent that begins to use a limit beside others takes it for nearly empty, how many
rows a second agents report that begin to use limits all the time, and by how much three
agents exceed a burst that they all want at once.  It takes ten minutes of a core.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from tests.simulation.members.members import (
    Members,
    begin_beside_one,
    burst_at_once,
    configured,
    limit,
)

from headgate.coordinator import Group

if TYPE_CHECKING:
    from collections.abc import Callable

RATE, BURST = 50.0, 1500.0
NEAR = 200.0
"""Units by which a level may be off here: what all spend within a second or two."""

RUNS = 250
PACES_MS = ((26, 30), (30, 60), (44, 49), (60, 90), (100, 200), (300, 450))
EXPLAINED = RATE * 0.5 + 3.0
"""Units of excess: what half a second earns, and a request of each agent."""


def beside_one() -> None:
    """Two begin within 30 ms beside one that asks often, at several times."""
    delays, rates = (0.002, 0.005, 0.01, 0.02), (10.0, 14.0, 20.0, 40.0)
    cases = list(product(delays, rates, np.arange(0.04, 0.4, 0.02).tolist()))
    wrong = 0
    for delay_s, per_s, begins_s in cases:
        members = begin_beside_one(delay_s, per_s, begins_s)
        members.run(2.0)
        wrong += min(_level(members, n, 1) for n in range(3)) < BURST - NEAR
    print(f"two begin beside one: {wrong} of {len(cases)} with a level far off")


def all_the_time(every_s: float) -> None:
    """Two begin to use a group so often, a third one groups that one of them uses."""
    bucket = limit(RATE, BURST)
    used = [Group(id=n, name=f"used{n}", limits=(bucket,)) for n in range(1, 13)]
    new = [
        Group(id=100 + n, name=f"new{n}", limits=(bucket,))
        for n in range(int(9.0 / every_s))
    ]
    members, chance = Members(configured(*used, *new), 3), Random(0)

    def ask(member: int, group: str, per_s: float, until_s: float) -> None:
        members.ask(member, group)
        next_s = members.now + chance.expovariate(per_s)
        if next_s < until_s:
            members.at(next_s, partial(ask, member, group, per_s, until_s))

    for n, group in enumerate(used):
        members.at(0.1, partial(ask, 0, group.name, 3.0, 13.0))
        begins_s = 6.0 + 0.5 * n + chance.uniform(0.0, 0.3)
        members.at(begins_s, partial(ask, 2, group.name, 2.0, 13.0))
    for n, group in enumerate(new):
        for member, later_s in ((0, 0.0), (1, chance.uniform(0.03, 0.09))):
            begins_s = 4.0 + n * every_s + later_s
            call = partial(ask, member, group.name, 1.0, begins_s + 3.0)
            members.at(begins_s, call)
    wrong = 0

    def look(group_id: int) -> None:
        nonlocal wrong
        wrong += _level(members, 2, group_id) < BURST - NEAR

    for n, group in enumerate(used):
        members.at(7.0 + 0.5 * n, partial(look, group.id))
    members.run(4.0)
    before = members.rows
    members.run(13.0)
    per_s = (members.rows - before) / 9.0 / len(members.all)
    print(
        f"two begin with a group each {every_s:g} s: {wrong} of {len(used)} levels of "
        f"a third one far off, {per_s:.0f} rows/s of each"
    )


def slow_looks() -> None:
    """Three whose looks take long want the same burst at once."""
    for least, most in PACES_MS:
        pace_s = partial(_between, 1e-3 * least, 1e-3 * most)
        _show_bursts(f"looks {least} to {most} ms apart", pace_s)
    _show_bursts("looks 20 ms apart, each second one 100 to 200 ms", _held_up)


def _between(least_s: float, most_s: float, chance: Random) -> float:
    return chance.uniform(least_s, most_s)


def _held_up(chance: Random) -> float:
    return chance.uniform(0.1, 0.2) if chance.random() < 0.5 else 0.02


def _show_bursts(what: str, pace_s: Callable[[Random], float]) -> None:
    runs = [burst_at_once(seed, pace_s, RATE, BURST) for seed in range(RUNS)]
    over = [over for over, _ in runs]
    many = sum(each > EXPLAINED for each in over)
    print(f"{what}: {many} of {RUNS} over, by {max(0.0, *over):.0f} units at worst")


def _level(members: Members, member: int, group_id: int) -> float:
    """Return what an agent believes that a bucket holds, units."""
    coordinator = members.all[member].coordinator
    return coordinator.explain(group_id, "requests", members.now).level


if __name__ == "__main__":
    beside_one()
    for each_s in (0.25, 0.15):
        all_the_time(each_s)
    slow_looks()
