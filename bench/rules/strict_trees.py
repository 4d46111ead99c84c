"""What a strict group admits where others are inside it, and whether it is ever over.

``.venv/bin/python bench/rules/strict_trees.py`` prints, for each case and two seeds,
what was admitted as a part of what may pass (what was asked for, or rate · time +
burst if that is less) in the first second and in the whole run, the same for a strict
group with all of that demand and nobody inside it, and by how many units the group was
over: none, if that is 0.  Then, for two balanced groups inside that ask unevenly, what
each got of the rate in the last two thirds of a run: half is due to each that asks for
it.  It takes some twenty minutes of a core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headgate.simulation.measure.admissions import below, merged
from headgate.simulation.measure.excess import depths
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import simulate

RATE = 400.0
OFFERED = 2.0
"""Demand of all callers, as a multiple of the rate."""


class Case(NamedTuple):
    """How large the burst and requests are, and who asks.

    Attributes:
        agents: How many; each asks for as much in each group.
        burst: Units.
        cost: Units of a request.
        modes: Of the groups inside.
        seconds: Length of the run.
        own: The group has callers of its own, too.
        rate: Units/s of all groups, which have the same burst.
    """

    agents: int
    burst: float
    cost: float
    modes: tuple[str, ...] = ("strict", "strict")
    seconds: float = 8.0
    own: bool = False
    rate: float = RATE


CASES = (
    Case(1, 40, 20),
    Case(1, 400, 1, ("balanced",)),
    Case(4, 40, 20),
    Case(4, 200, 20),
    Case(4, 400, 20),
    Case(4, 400, 20, ("strict",)),
    Case(4, 400, 20, ("strict", "balanced")),
    Case(4, 400, 20, ("balanced", "balanced"), own=True),
    Case(4, 400, 1),
    Case(4, 4_000, 20, seconds=15),
    Case(4, 4_000, 20, ("balanced", "balanced"), seconds=15),
    Case(6, 60_000, 6_000, ("balanced", "strict"), seconds=90, rate=1_000),
    Case(50, 400, 1, ("balanced", "balanced"), seconds=5),
)


class Uneven(NamedTuple):
    """Two groups inside a strict one that ask for different amounts.

    Attributes:
        agents: How many; each asks for as much.
        rate: Units/s of the strict group; those inside may have ten times as much.
        burst: Units of it; of those inside ten times as many.
        costs: Units of a request in each group inside.
        asked: Demand of each, as a multiple of the rate.
        crashes: One agent does, a third into the run.
    """

    agents: int
    rate: float
    burst: float
    costs: tuple[float, float]
    asked: tuple[float, float]
    crashes: bool = False


UNEVEN = (
    Uneven(3, 100, 100, (1, 1), (0.5, 4)),
    Uneven(3, 100, 100, (1, 1), (0.5, 4), crashes=True),
    Uneven(1, 20, 10, (8, 1), (2, 2)),
    Uneven(1, 200, 100, (60, 1), (0.4, 3)),
    Uneven(3, 5, 0.5, (0.01, 0.01), (1, 1)),
)
UNEVEN_S = 45.0


def main() -> None:
    """Print both tables."""
    for uneven in UNEVEN:
        got = [parts_of(uneven, seed) for seed in (1, 2)]
        print(
            f"{uneven.agents} agents, burst {uneven.burst:g}, costs {uneven.costs}, "
            f"asking for {uneven.asked}{', one crashes' * uneven.crashes}: "
            + "; ".join(f"{a:.2f} and {b:.2f}" for a, b in got),
            flush=True,
        )
    for case in CASES:
        found = [measured(case, seed) for seed in (1, 2)]
        flat = [measured(case._replace(modes=(), own=True), seed) for seed in (1, 2)]
        first = ", ".join(f"{first:.2f}" for first, _, _ in found)
        whole = ", ".join(f"{whole:.3f}" for _, whole, _ in found)
        alone = ", ".join(f"{whole:.3f}" for _, whole, _ in flat)
        over = max(0.0, *(over for _, _, over in found))
        inside = ", ".join((*case.modes, *(("own callers",) if case.own else ())))
        print(
            f"{case.agents} agents, burst {case.burst:g}, cost {case.cost:g}, "
            f"{inside}: first second {first}; whole {whole} "
            f"(nobody inside {alone}); over by {over:.1f}",
            flush=True,
        )


def parts_of(uneven: Uneven, seed: int) -> tuple[float, float]:
    """Return what each group inside was admitted, as a part of the rate."""
    inside = {"rate": 10 * uneven.rate, "burst": 10 * uneven.burst}
    tables: dict[str, object] = {
        "seconds": UNEVEN_S,
        "group": [
            {
                "name": "around",
                "rate": uneven.rate,
                "burst": uneven.burst,
                "mode": "strict",
            },
            *({"name": name, "parent": "around", **inside} for name in "ab"),
        ],
        "agents": {"count": uneven.agents},
        "demand": [
            {"group": name, "rate": part * uneven.rate / uneven.agents, "cost": cost}
            for name, part, cost in zip("ab", uneven.asked, uneven.costs, strict=True)
        ],
    }
    from_s = UNEVEN_S / 3
    if uneven.crashes:
        tables["fault"] = [{"kind": "crash", "from": from_s, "agents": [0]}]
    scenario = parse_scenario(tables, name="uneven")
    _, run = simulate(scenario, seed=seed)
    a, b = (
        sum(float(units[time_s >= from_s].sum()) for time_s, units in group)
        / (uneven.rate * (UNEVEN_S - from_s))
        for group in run.admitted[1:]
    )
    return a, b


def measured(case: Case, seed: int) -> tuple[float, float, float]:
    """Return the parts of the first second and of the run, and the excess in units."""
    names = [f"inside-{place}" for place in range(len(case.modes))]
    asked = [*names, *(["around"] if case.own else [])]
    each = OFFERED * case.rate / case.agents / len(asked)
    scenario = parse_scenario(
        {
            "seconds": case.seconds,
            "group": [
                {
                    "name": "around",
                    "rate": case.rate,
                    "burst": case.burst,
                    "mode": "strict",
                },
                *(
                    {
                        "name": name,
                        "parent": "around",
                        "rate": case.rate,
                        "burst": case.burst,
                        "mode": mode,
                    }
                    for name, mode in zip(names, case.modes, strict=True)
                ),
            ],
            "agents": {"count": case.agents},
            "demand": [
                {"group": name, "rate": each, "cost": case.cost} for name in asked
            ],
        },
        name="strict-trees",
    )
    _, run = simulate(scenario, seed=seed)
    admitted = merged(below(run, 0))
    table = RateTable(scenario.limits(0), case.seconds)
    over = float(np.max(depths(admitted, table), initial=0.0))
    offered = np.concatenate([a.time_s for group in run.arrivals for a in group])

    def part(until_s: float) -> float:
        asked_for = case.cost * np.count_nonzero(offered < until_s)
        most = min(asked_for, case.rate * until_s + case.burst)
        return float(admitted[1][admitted[0] < until_s].sum()) / max(most, case.cost)

    return part(1.0), part(case.seconds), over


if __name__ == "__main__":
    main()
