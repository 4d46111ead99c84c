"""What groups inside another one spend of it together, where all want it at once.

``.venv/bin/python bench/rules/inside.py`` prints, for several numbers of groups inside,
what the one around them admits against one central bucket, and by how much it exceeds
README's bound, units.  Callers don't return.  First, the same where its own callers
want it.  It takes two minutes of a core.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.simulation.measure.excess import over_explained
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.simulate import simulate

RATE, BURST = 200.0, 1000.0
STARTS_S = 3.0

LIGHTLY = 1.0
"""Units/s of each agent in each group, from the start, before own callers want more."""


class Case(NamedTuple):
    """Demand of each agent in each of the groups inside, or of own callers."""

    name: str
    inside: int
    rate: float
    cost: float
    lasts_s: float
    agents: int = 4
    own: bool = False


CASES = (
    Case("flash of one agent's own callers", 2, 6000.0, 2.0, 0.1, 1, own=True),
    Case("flash of three agents' own callers", 2, 2000.0, 2.0, 0.1, 3, own=True),
    Case("flash", 1, 5000.0, 2.0, 0.1),
    Case("flash", 4, 5000.0, 2.0, 0.1),
    Case("flash", 8, 5000.0, 2.0, 0.1),
    Case("flash, large requests", 8, 5000.0, 100.0, 0.1),
    Case("steady, large requests", 4, 50.0, 40.0, 17.0),
)


def main() -> None:
    """Print the table."""
    for case in CASES:
        found = [measured(case, seed) for seed in (1, 2, 3)]
        totals = ", ".join(f"{total:.2f}" for total, _ in found)
        over = max(0.0, *(over for _, over in found))
        print(
            f"{case.name}, {case.inside} groups inside: total {totals}; "
            f"over by {over:.0f} units"
        )


def measured(case: Case, seed: int) -> tuple[float, float]:
    """Return admitted / central, and the excess beyond what the bound explains."""
    names = [f"inside-{i}" for i in range(case.inside)]
    limit = {"rate": RATE, "burst": BURST}
    until_s = STARTS_S + case.lasts_s
    demand = {
        "rate": case.rate,
        "cost": case.cost,
        "from": STARTS_S,
        "until": until_s,
    }
    groups = ["around"] if case.own else names
    lightly = ["around", *names] if case.own else []
    scenario = parse_scenario(
        {
            "seconds": max(6.0, until_s),
            "group": [
                {"name": "around", **limit},
                *({"name": name, "parent": "around", **limit} for name in names),
            ],
            "agents": {"count": case.agents},
            "demand": [
                *({"group": name, "rate": LIGHTLY} for name in lightly),
                *({"group": name, **demand} for name in groups),
            ],
        },
        name=case.name,
    )
    result, run = simulate(scenario, seed=seed)
    _, over, explained = over_explained(run, 0)
    total = result.as_json()["whole_total_ratio"]
    assert isinstance(total, float)
    return total, float((over - explained).max())


if __name__ == "__main__":
    main()
