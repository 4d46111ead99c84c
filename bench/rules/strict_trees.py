"""What a strict group admits where others are inside it, and whether it is ever over.

``.venv/bin/python bench/rules/strict_trees.py`` prints, for each case and two seeds,
what was admitted as a part of what may pass (what was asked for, or rate · time +
burst if that is less) in the first second and in the whole run, the same for a strict
group with all of that demand and nobody inside it, and by how many units the group was
over: none, if that is 0.  It takes some ten minutes of a core.
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


def main() -> None:
    """Print the table."""
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
