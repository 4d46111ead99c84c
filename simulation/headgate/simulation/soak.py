"""Random scenarios until time is up: `python -m headgate.simulation.soak --minutes N`.

Demand, faults, limits and parameters are drawn from the seed: one to a dozen agents,
rates from a request in two minutes to a thousand in a second, bursts from a single
request to an hour's worth, costs from a unit to above the burst.  In every fifth
scenario the group has others inside it.  For a run that breaks
an invariant, it prints the seed, the command that replays it, and a line for
tests/simulation/regressions.toml.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from math import ceil, exp, inf, log
from random import Random
from typing import TYPE_CHECKING

from headgate.simulation.scenario.scenario import (
    DemandPiece,
    Fault,
    FaultKind,
    GroupSpec,
    LimitChange,
    Network,
    Scenario,
)
from headgate.simulation.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.simulation.simulate import Result

SECONDS = 40.0
"""Length of each scenario: enough for a partition and a recovery."""

MOST_AGENTS = 12
"""Most agents of a scenario: the work grows quadratically."""

KINDS: tuple[FaultKind, ...] = (
    "crash",
    "leave",
    "pause",
    "partition",
    "cut",
    "loss",
    "duplicate",
    "reorder",
    "delay",
    "clock-jump",
    "duplicate-id",
    "liar",
    "corrupt",
)


PER_DELAY = (0.01, 30.0)
"""Range of Q·δ/cost, with δ the delay of 25 ms; its logarithm is uniform."""

PERIODS_S = (0.1, 1.0, 1.0, 10.0, 60.0, 3600.0)
"""B/Q: a quota per period may be used all at once."""

TREES = 5
"""One seed in so many stands for a tree."""

DELAY_S = 0.025
"""δ, as in the grid of regimes."""


def random_scenario(seed: int, *, narrow: bool = False) -> Scenario:
    """Return the scenario that a seed stands for.

    Args:
        seed: The source of all randomness.
        narrow: Draw as the soak did before it covered all regimes: many small
            requests of one cost.  Old regressions are replayed this way.
    """
    if narrow:
        return _narrow(seed)
    scenario = _wide(seed)
    return _grown(seed, scenario) if seed % TREES == 2 else scenario


def _wide(seed: int) -> Scenario:
    random = Random(f"soak/wide/{seed}")
    agents = random.choice((1, 2, 2, 3, 4, 6, 8, MOST_AGENTS))
    cost = random.choice((1.0, 1.0, round(_log_uniform(random, 1.0, 5_000.0))))
    rate = _log_uniform(random, *PER_DELAY) / DELAY_S * cost
    # Never below a single request: a bucket that may not owe would admit nothing.
    burst = max(cost, rate * random.choice(PERIODS_S))
    if random.random() < 0.2:
        burst = cost * random.choice((1.0, 2.0, 6.0))
    strict = random.random() < 0.2
    group = GroupSpec(
        rate=rate,
        burst=burst,
        mode="strict" if strict else "balanced",
        may_owe=random.random() < 0.6,
        isolation=random.choice(("fair", "fair", "hold", "closed", "open")),
    )
    weights = (1.0,) * agents
    if random.random() < 0.3:
        weights = tuple(random.choice((0.5, 1.0, 2.0, 4.0)) for _ in range(agents))
    costs = _costs(random, cost, burst)
    faults = (*_late_starts(random, agents), *_faults(random, agents))
    return Scenario(
        name=f"soak-{seed}",
        seconds=SECONDS,
        seed=seed,
        groups=(group,),
        agents=agents,
        weights=weights,
        interval_s=random.choice((0.5, 1.0, 1.0, 1.0, 2.0)),
        network=_network(random),
        demands=_demands(random, agents, rate, costs),
        faults=faults if agents > 1 or random.random() < 0.3 else (),
        changes=_changes(random, rate),
    )


def _grown(seed: int, flat: Scenario) -> Scenario:
    """Return the same scenario with groups inside its group, and demand in them."""
    random = Random(f"soak/tree/{seed}")
    root = replace(flat.groups[0], name="root")
    cost = min(piece.cost for piece in flat.demands)
    groups = [root]
    for name in "abc"[: random.randint(1, 3)]:
        above = random.choice((root, groups[-1]))
        groups.append(_inside(random, name, above, root, cost))
    places = range(len(groups))
    demands = [replace(d, group=random.choice(places)) for d in flat.demands]
    wanted = root.rate / flat.agents
    demands += [
        DemandPiece(
            agents=tuple(range(random.randint(1, flat.agents))),
            start_s=0.0,
            until_s=SECONDS,
            rate=wanted * random.choice((0.1, 0.4, 0.9, 2.0)),
            cost=random.choice((cost, cost, float(ceil(cost * random.uniform(2, 8))))),
            group=group,
        )
        for group in places
        if random.random() < 0.7
    ]
    return replace(flat, groups=tuple(groups), demands=tuple(demands), tree=True)


def _inside(
    random: Random, name: str, above: GroupSpec, root: GroupSpec, cost: float
) -> GroupSpec:
    rate = root.rate * random.choice((0.3, 0.5, 1.0, 1.0))
    minimum = rate * random.choice((0.0, 0.0, 0.0, 0.1, 0.25))
    maximum = rate * random.choice((inf, inf, inf, 0.5, 0.8))
    burst = max(cost, rate * random.choice(PERIODS_S))
    unlimited = random.random() < 0.15
    return replace(
        root,
        name=name,
        parent=above.name,
        rate=inf if unlimited else rate,
        burst=None if unlimited else burst,
        mode=root.mode if random.random() < 0.8 else "balanced",
        may_owe=random.random() < 0.6,
        weight=random.choice((1.0, 1.0, 0.5, 2.0, 4.0)),
        minimum=minimum,
        maximum=maximum,
    )


def _narrow(seed: int) -> Scenario:
    random = Random(f"soak/{seed}")
    agents = random.randint(2, MOST_AGENTS)
    rate = float(random.choice((50, 200, 1000, 1000, 1000)))
    strict = random.random() < 0.25
    group = GroupSpec(
        rate=rate,
        burst=rate * random.choice((0.2, 1.0, 1.0, 3.0)),
        mode="strict" if strict else "balanced",
        may_owe=random.random() < 0.8,
        isolation=random.choice(("fair", "fair", "hold", "closed", "open")),
    )
    weights = (1.0,) * agents
    if random.random() < 0.3:
        weights = tuple(random.choice((0.5, 1.0, 2.0, 4.0)) for _ in range(agents))
    return Scenario(
        name=f"soak-{seed}",
        seconds=SECONDS,
        measure_from=5.0,
        seed=seed,
        groups=(group,),
        agents=agents,
        weights=weights,
        interval_s=random.choice((0.5, 1.0, 1.0, 1.0, 2.0)),
        network=_network(random),
        demands=_demands(random, agents, rate, (1.0, 1.0, 1.0, 5.0), mixed=False),
        faults=_faults(random, agents),
        changes=_changes(random, rate),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run random scenarios; return 1 if any broke an invariant."""
    parser = argparse.ArgumentParser(prog="python -m headgate.simulation.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument(
        "--narrow", action="store_true", help="only many small requests of equal cost"
    )
    parser.add_argument(
        "--first", type=int, help="first seed; by default, from the clock"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return 1 if _one(options.seed, narrow=options.narrow) else 0
    # A soak uses new seeds each time; each of them can be replayed.
    first = options.first if options.first is not None else int(time.time()) % 10**7
    end_s = time.monotonic() + 60 * options.minutes
    broken = runs = 0
    while time.monotonic() < end_s:
        broken += _one(first + runs, narrow=options.narrow)
        runs += 1
    last = first + runs - 1
    sys.stdout.write(f"{runs} scenarios (seeds {first} to {last}), {broken} broken\n")
    return 1 if broken else 0


def _one(seed: int, *, narrow: bool) -> bool:
    """Run one seed and print its violations; return whether there were any."""
    result, _ = simulate(random_scenario(seed, narrow=narrow), seed=seed)
    if not result.violations:
        return False
    sys.stdout.write(_told(seed, result, narrow=narrow))
    sys.stdout.flush()
    return True


def _told(seed: int, result: Result, *, narrow: bool) -> str:
    lines = [f"seed {seed} broke an invariant:"]
    lines += [f"  {v.name} at {v.time:.3f} s: {v.detail}" for v in result.violations]
    option = " --narrow" if narrow else ""
    lines.append(f"  replay: python -m headgate.simulation.soak --seed {seed}{option}")
    names = ", ".join(sorted({v.name for v in result.violations}))
    lines.append(f'  keep it: [[soak]]  seed = {seed}  broke = "{names}"')
    return "\n".join(lines) + "\n"


def _network(random: Random) -> Network:
    return Network(
        delay_s=random.choice((0.002, 0.02, 0.02, 0.1)),
        jitter_s=random.choice((0.0, 0.01, 0.05)),
        loss=random.choice((0.0, 0.0, 0.0, 0.05, 0.2)),
        duplicate=random.choice((0.0, 0.0, 0.2)),
        reorder=random.choice((0.0, 0.0, 0.2)),
    )


def _log_uniform(random: Random, least: float, most: float) -> float:
    return least * exp(random.random() * log(most / least))


def _costs(random: Random, cost: float, burst: float) -> tuple[float, ...]:
    """Return the costs that pieces of demand choose from."""
    if random.random() < 0.4:
        return (cost,)
    large = max(cost, burst * random.choice((0.1, 0.5, 1.0, 1.5)))
    return cost, cost, float(ceil(cost * random.uniform(2, 10))), large


def _late_starts(random: Random, agents: int) -> tuple[Fault, ...]:
    """Return the agents that join while the others are running already."""
    if agents == 1 or random.random() < 0.7:
        return ()
    late = random.sample(range(agents), random.randint(1, agents - 1))
    return tuple(
        Fault(
            kind="leave", agents=(agent,), start_s=0.0, until_s=random.uniform(0.2, 8)
        )
        for agent in late
    )


def _demands(
    random: Random,
    agents: int,
    rate: float,
    costs: tuple[float, ...],
    *,
    mixed: bool = True,
) -> tuple[DemandPiece, ...]:
    """Return a base load and a few pieces: steps, walks, waves, storms."""
    everyone = tuple(range(agents))
    cost = random.choice(costs)
    base = rate / agents * random.choice((0.1, 0.5, 0.9, 2.0, 3.0))
    pieces = [
        DemandPiece(agents=everyone, start_s=0.0, until_s=SECONDS, rate=base, cost=cost)
    ]
    for _ in range(random.randint(0, 3)):
        start = random.uniform(0, SECONDS - 5)
        until = random.uniform(start + 1, SECONDS)
        wanted = rate * random.uniform(0.1, 1.5)
        walks = random.random() < 0.3
        wave = not walks and random.random() < 0.3
        if mixed:
            cost = random.choice(costs)
        pieces.append(
            DemandPiece(
                agents=(random.randrange(agents),) if not wave else everyone,
                start_s=start,
                until_s=until,
                rate=wanted / agents if wave else wanted,
                cost=cost,
                poisson=random.random() < 0.8,
                retry=random.random() < 0.2,
                moves_every_s=random.uniform(1, 8) if walks else None,
                period_s=random.uniform(4, 20) if wave else None,
                phase_per_agent=random.random() if wave else 0.0,
            )
        )
    return tuple(pieces)


def _faults(random: Random, agents: int) -> tuple[Fault, ...]:
    if random.random() < 0.2:
        return _swizzled(random, agents)
    faults: list[Fault] = []
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        kind = random.choice(KINDS)
        if kind == "duplicate-id" and agents == 1:
            continue
        start = random.uniform(3, SECONDS - 15)
        until = start + random.uniform(0.5, 14)
        most = max(1, agents // 2)
        chosen = random.sample(range(agents), random.randint(1, most))
        if kind == "duplicate-id":
            chosen = random.sample(range(agents), 2)
        faults.append(
            Fault(
                kind=kind,
                agents=tuple(chosen),
                start_s=start,
                until_s=until,
                amount=_amount(random, kind),
            )
        )
    return tuple(faults)


def _amount(random: Random, kind: FaultKind) -> float:
    if kind == "delay":
        return random.uniform(0.1, 3.0)
    if kind == "clock-jump":
        return random.choice((-3600.0, -2.0, 0.5, 3600.0))
    if kind == "liar":
        return random.choice((0.0, 10.0, 1e6, 1e9))
    return random.uniform(0.05, 0.9)


def _swizzled(random: Random, agents: int) -> tuple[Fault, ...]:
    """Cut off some agents one by one and bring them back in another order.

    FoundationDB calls it swizzled clogging; it finds what single faults don't.
    """
    chosen = random.sample(range(agents), random.randint(1, agents))
    starts = sorted(random.uniform(5, 12) for _ in chosen)
    ends = [random.uniform(14, SECONDS - 12) for _ in chosen]
    return tuple(
        Fault(kind="partition", agents=(agent,), start_s=start, until_s=end)
        for agent, start, end in zip(chosen, starts, ends, strict=True)
    )


def _changes(random: Random, rate: float) -> tuple[LimitChange, ...]:
    if random.random() < 0.6:
        return ()
    times = sorted(random.uniform(5, SECONDS - 5) for _ in range(random.randint(1, 3)))
    return tuple(
        LimitChange(
            at_s=at, rate=random.choice((0.0, rate / 2, rate, rate * 2, float("inf")))
        )
        for at in times
    )


if __name__ == "__main__":
    sys.exit(main())
