"""Random bursts in groups inside others, in the simulation.

``PYTHONPATH=. python bench/rules/trees.py [--seeds 1-120] [--workers 2]``.  One to
eight agents use a group, up to six groups inside it, and perhaps one in between; it
holds half a second to a minute of its rate.  Up to three times, all of them or one ask
one of these groups for up to twice that, within 0.1 to 5 s, and where that takes two
seconds or more for what flows in as well.  Hardly any callers return.

Prints each run that admitted less than 0.97 of one central bucket, or more than
README's bound for groups with others inside them; then how many there were.
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from bench.rules.herds import Herd, measured, options_of, show

from headgate.simulation.scenario.parsing import parse_scenario

if TYPE_CHECKING:
    from headgate.simulation.scenario.scenario import Scenario


def main() -> None:
    """Run the trees, and print those that miss the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    options = options_of(parser)
    with ProcessPoolExecutor(options.workers) as pool:
        show("trees", pool.map(run, options.seeds))


def run(seed: int) -> Herd | None:
    """Run a tree; None if nothing was admitted."""
    return measured(*tree_of(seed), seed)


def tree_of(seed: int) -> tuple[Scenario, str]:
    """Return random bursts in a random tree, and its description."""
    chance = random.Random(seed)
    rate = chance.choice([5.0, 20.0, 100.0, 1000.0])
    burst = max(rate * chance.choice([0.5, 1.0, 5.0, 20.0, 60.0]), 4.0)
    agents, inside = chance.choice([1, 1, 2, 4, 8]), chance.choice([1, 2, 3, 6])
    cost = max(chance.choice([1.0, 1.0, burst / 200, burst / 30, burst / 8]), 0.5)
    limit = {"rate": rate, "burst": burst, "may_owe": chance.random() < 0.7}
    groups: list[dict[str, object]] = [{"name": "above", **limit}]
    if chance.random() < 0.3:
        groups.append({"name": "between", "parent": "above", **limit})
    around = [str(group["name"]) for group in groups]
    for number in range(inside):
        own = {
            "name": f"inside-{number}",
            "parent": chance.choice(around),
            "rate": rate * chance.choice([0.5, 1.0, 1.0]),
            "burst": burst * chance.choice([0.3, 1.0, 1.0]),
            "weight": chance.choice([1.0, 1.0, 4.0]),
        }
        groups.append({**limit, **own})
    names = [str(group["name"]) for group in groups]
    lightly = [name for name in names if chance.random() < 0.5]
    demand: list[dict[str, object]] = [
        {
            "group": name,
            "rate": rate * chance.choice([0.01, 0.1, 0.4]) / agents,
            "cost": min(cost, max(1.0, burst / 100)),
        }
        for name in lightly
    ]
    ends_s = 10.0
    for _ in range(chance.choice([1, 2, 3])):
        lasts_s, starts_s = chance.choice([0.1, 0.5, 2.0, 5.0]), 6.0
        starts_s += chance.choice([0.0, 0.0, 0.05, 1.0])
        wanted = burst * chance.choice([0.3, 0.6, 1.0, 2.0])
        who = chance.choice([[*range(agents)], [0], [agents - 1]])
        flows = rate if lasts_s >= 2.0 else 0.0
        demand.append(
            {
                "group": chance.choice(names),
                "rate": (wanted / lasts_s + flows) / len(who),
                "cost": cost,
                "from": starts_s,
                "until": starts_s + lasts_s,
                "agents": who,
                "retry": chance.random() < 0.2,
            }
        )
        ends_s = max(ends_s, starts_s + lasts_s + 3.0)
    tables: dict[str, object] = {
        "seconds": ends_s,
        "group": groups,
        "agents": {"count": agents},
        "demand": demand,
    }
    title = f"{agents} agents, {len(groups)} groups, {rate:g}/s, burst {burst:g}"
    return parse_scenario(tables, name=f"tree-{seed}"), f"{title}, costs of {cost:g}"


if __name__ == "__main__":
    main()
