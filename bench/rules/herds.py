"""Random herds: agents that want the same burst within a second, in the simulation.

``python bench/rules/herds.py [--seeds 1-120] [--workers 2] [--delay-ms 60]``.  Two to
sixteen agents share a bucket that holds one to thirty seconds of its rate.  They all
want it from the start, or after they hardly used it; each of them for a moment of its
own; or again and again, out of step.

Prints each herd that admitted less than 0.97 of one central bucket, or more than the
excess explains that requests on their way and the rate allow; then how many there were.
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.command import InvalidOption, parse_seeds
from headgate.simulation.controllers.controller import (
    real_coordinator,
)
from headgate.simulation.kept_runs import at_least_one
from headgate.simulation.measure.admissions import merged
from headgate.simulation.measure.excess import over_explained
from headgate.simulation.measure.reference_bucket import central_of
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.simulation.scenario.scenario import Scenario

Piece = dict[str, object]

SECONDS = 8
KINDS = ("from the start", "after light use", "one by one", "again and again")
LEAST_TOTAL = 0.97
LEAST_ADMISSIONS = 50


@dataclass(frozen=True, slots=True)
class Herd:
    """What one run admitted.

    Attributes:
        seed: Of the herd and the run.
        title: What it is.
        admissions: Requests that one central bucket admits.
        total: Admitted over that bucket's.
        unexplained: Excess that nothing explains, as a fraction of the burst.
    """

    seed: int
    title: str
    admissions: int
    total: float
    unexplained: float

    @property
    def over(self) -> bool:
        """Whether more was admitted than the excess allows."""
        return self.unexplained > 1e-9

    @property
    def under(self) -> bool:
        """Whether less was admitted than the goal for the total."""
        return self.admissions >= LEAST_ADMISSIONS and self.total < LEAST_TOTAL


def main() -> None:
    """Run the herds, and print those that miss the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--delay-ms", type=at_least_one, help="of all buses, with up to as much jitter"
    )
    options = options_of(parser)
    with ProcessPoolExecutor(options.workers) as pool:
        runs = pool.map(partial(run, delay_ms=options.delay_ms), options.seeds)
        show("herds", runs)


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return what the command line asks for, with `seeds` and `workers`."""
    parser.add_argument("--seeds", default="1-120", help="as in headgate simulate")
    parser.add_argument("--workers", type=at_least_one, default=2)
    options = parser.parse_args()
    try:
        options.seeds = parse_seeds(options.seeds)
    except InvalidOption as error:
        parser.error(str(error))
    return options


def show(name: str, runs: Iterable[Herd | None]) -> None:
    """Print the runs that miss the goal as they come, and then how many there were."""
    herds: list[Herd] = []
    for herd in runs:
        if herd is None:
            continue
        herds.append(herd)
        if herd.over or herd.under:
            print(
                f"{herd.seed:4} {herd.title}: total {herd.total:.3f}, "
                f"unexplained excess {max(0.0, herd.unexplained):.2f} of the burst",
                flush=True,
            )
    if not herds:
        print(f"no {name}: nothing was admitted")
        return
    over = sum(herd.over for herd in herds)
    worst = max(0.0, *(herd.unexplained for herd in herds))
    under = sum(herd.under for herd in herds)
    print(
        f"{len(herds)} {name}: {over} over, by {worst:.2f} of the burst at worst; "
        f"{under} below {LEAST_TOTAL}; mean total {mean(h.total for h in herds):.4f}"
    )


def run(seed: int, delay_ms: int | None = None) -> Herd | None:
    """Run a herd; None if nothing was admitted."""
    return measured(*herd_of(seed, delay_ms), seed)


def measured(scenario: Scenario, title: str, seed: int) -> Herd | None:
    """Run a scenario, and judge its first group with all inside it.

    None if nothing was admitted.
    """
    engine = SimulationEngine(
        scenario, seed=seed, strategy="headgate", make_controller=real_coordinator
    )
    run = engine.run()
    run.central = central_of(run)
    central = merged(run.central)[1]
    _, over, explained = over_explained(run, 0)
    if not len(over) or not len(central):
        return None
    admitted = sum(float(u.sum()) for group in run.admitted for _, u in group)
    return Herd(
        seed=seed,
        title=title,
        admissions=len(central),
        total=admitted / float(central.sum()),
        unexplained=float(np.max(over - explained))
        / float(scenario.groups[0].burst or 1.0),
    )


def herd_of(seed: int, delay_ms: int | None = None) -> tuple[Scenario, str]:
    """Return a random herd, on a bus with this delay if given, and its description."""
    chance = random.Random(seed)
    agents = chance.choice([2, 3, 4, 6, 8, 16])
    rate = chance.choice([5, 20, 50, 200])
    burst = max(chance.choice([1, 3, 10, 30]) * rate, 2 * agents)
    cost = float(chance.choice([1, 1, 1, max(1, burst // 30)]))
    network = {
        "delay": chance.choice([0.003, 0.01, 0.03]),
        "jitter": chance.choice([0.0, 0.01, 0.03]),
    }
    if delay_ms is not None:
        delay = delay_ms / 1e3
        of_bus = random.Random(f"bus of {seed}")  # the herds stay the same
        network = {"delay": delay, "jitter": of_bus.choice([0.0, 0.3, 1.0]) * delay}
    kind = seed % len(KINDS)
    make = (_together, partial(_together, at_s=3.0), _one_by_one, _again)[kind]
    demand = make(chance, agents=agents, rate=rate, burst=burst, cost=cost)
    tables: Piece = {
        "seconds": SECONDS,
        "group": {"rate": rate, "burst": burst},
        "agents": {"count": agents},
        "network": network,
        "demand": demand,
    }
    title = f"{agents} agents {KINDS[kind]}, {rate}/s, burst {burst}, costs of {cost:g}"
    return parse_scenario(tables, name=f"herd-{seed}"), title


def _together(
    chance: random.Random,
    *,
    agents: int,
    rate: float,
    burst: float,
    cost: float,
    at_s: float = 0.0,
) -> list[Piece]:
    within_s = chance.choice([0.01, 0.03, 0.1, 0.3, 1.0])
    wanted = chance.choice([1, 2, 4]) * burst / cost / agents
    lasts_s = min(2.0, 3.0 * within_s)
    flash = _flash("all", wanted * lasts_s / within_s, at_s, lasts_s, cost)
    lightly = (0.3 if at_s else 2.0) * rate / agents
    return [flash, {"agents": "all", "rate": lightly, "cost": cost}]


def _one_by_one(
    chance: random.Random, *, agents: int, rate: float, burst: float, cost: float
) -> list[Piece]:
    lightly = chance.choice([0.001, 0.1, 0.3]) * rate / agents
    demand: list[Piece] = [{"agents": "all", "rate": lightly, "cost": cost}]
    apart_s = chance.choice([0.05, 0.2, 1.0])
    for agent in range(agents):
        starts_s, lasts_s = 2.0 + chance.uniform(0, apart_s), chance.uniform(0.03, 1.0)
        wanted = chance.choice([0.5, 1, 2]) * burst / cost
        wanted /= chance.choice([1, agents])
        demand.append(_flash([agent], wanted, starts_s, lasts_s, cost))
    full = 2.0 * rate / agents
    return [*demand, {"agents": "all", "rate": full, "from": 5, "cost": cost}]


def _again(
    chance: random.Random, *, agents: int, rate: float, burst: float, cost: float
) -> list[Piece]:
    del burst
    demand: list[Piece] = []
    period_s = chance.choice([0.3, 1.0, 2.0])
    for agent in range(agents):
        starts_s = chance.uniform(0, period_s)
        while starts_s < SECONDS - 2:
            lasts_s = chance.uniform(0.05, 0.3) * period_s
            wanted = chance.choice([1, 3, 6]) * rate * period_s / agents / cost
            demand.append(_flash([agent], wanted, starts_s, lasts_s, cost))
            starts_s += chance.uniform(0.8, 1.2) * period_s
    return demand


def _flash(
    agents: object, wanted: float, starts_s: float, lasts_s: float, cost: float
) -> Piece:
    """Return a piece of demand in which so many requests are made by each agent."""
    return {
        "agents": agents,
        "rate": wanted * cost / lasts_s,
        "from": starts_s,
        "until": starts_s + lasts_s,
        "cost": cost,
    }


if __name__ == "__main__":
    main()
