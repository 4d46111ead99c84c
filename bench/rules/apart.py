"""Agents that don't all use the same groups, and callers that heed delays.

``PYTHONPATH=. .venv/bin/python bench/rules/apart.py`` prints what real agents on a
simulated clock admit, against one central bucket with more demand than it can admit.
It takes a minute of a core.
"""

from __future__ import annotations

from tests.simulation.members.members import (
    Members,
    admitted,
    configured,
    family,
    met,
    spend,
    told_and_admitted,
)

RATE = 100.0
"""Units/s of the group around the others; its burst is as much."""


def sharded() -> None:
    """Each agent calls one of many groups inside one; from 5 to 15 s."""
    for agents, inside in ((2, 2), (2, 10), (4, 10), (8, 100)):
        members = Members(configured(*family(inside)), agents)
        wants = {n: f"c{n}" for n in range(agents)}
        passed = sum(admitted(members, wants, 6.0 * RATE / agents, 15.0))
        total = passed / (10.0 * RATE)
        print(f"{agents} agents, each its own of {inside} groups: {total:.3f}")


def heeding() -> None:
    """Two callers of each group return when they are told to, for 40 s."""
    for agents, inside in ((1, 1), (1, 4), (3, 1), (3, 2), (3, 4)):
        members = Members(configured(*family()), agents)
        groups = [f"c{n}" for n in range(inside)]
        delays, units = told_and_admitted(members, groups, RATE, 40.0)
        total = units / (41.0 * RATE)
        print(
            f"{agents} agents, {inside} groups, requests of a second: {total:.2f}; "
            f"longest delay {max(delays):.1f} s"
        )


def begun() -> None:
    """Agents begin to use 100 an hour that another one has used up."""
    for gone in (False, True):
        members = met(4, 100.0 / 3600.0, 100.0)
        spend(members, "g", 100)
        members.run(members.now + 1.0)
        if gone:
            members.leave(0)
        members.run(members.now + 5.0)
        passed = 0
        for _ in range(100):
            passed += sum(bool(members.ask(n, "g")) for n in (1, 2, 3) for _ in "12")
            members.run(members.now + 0.01)
        what = "has left" if gone else "is there"
        print(f"three agents begin to use what one has used up that {what}: {passed}")


if __name__ == "__main__":
    sharded()
    heeding()
    begun()
