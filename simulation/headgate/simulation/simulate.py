"""Runs one scenario with one seed and one strategy, and computes its result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from headgate.simulation.controllers.controller import real_coordinator
from headgate.simulation.controllers.other_strategies import PeriodicController
from headgate.simulation.invariants import InvariantWatch
from headgate.simulation.measure.metrics import group_figures, total_figures, traffic
from headgate.simulation.measure.reference_bucket import central_of
from headgate.simulation.world.engine import SimulationEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.simulation.controllers.controller import Birth, Controller, Strategy
    from headgate.simulation.measure.metrics import Figures, Traffic
    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import SimulationRun, Violation

DIGITS = 6
"""Decimals in the output: a thousandth of the tolerance of any figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run, as it is printed.

    Attributes:
        scenario: What was simulated.
        seed: Seed of all random numbers.
        strategy: Its name.
        noticed: Anomalies that agents noticed, counted by kind.
        figures: Figures of all groups together.
        groups: Figures of each group, by name; for `[[group]]` files.
        traffic: Number and size of reports.
        violations: Invariants broken, in order of time.
    """

    scenario: Scenario
    seed: int
    strategy: str
    noticed: dict[str, int]
    figures: Figures
    groups: dict[str, Figures]
    traffic: Traffic
    violations: tuple[Violation, ...]

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints, keys in the contract's order."""
        scenario = self.scenario
        result: dict[str, object] = {
            "scenario": scenario.name,
            "seed": self.seed,
            "strategy": self.strategy,
            "agents": scenario.agents,
            "seconds": scenario.seconds,
            **_rounded(_steady(self.figures)),
            **_rounded(asdict(self.traffic)),
            "violations": [
                {"name": v.name, "time": round(v.time, DIGITS), "detail": v.detail}
                for v in self.violations
            ],
            **_rounded(_besides(self.figures)),
        }
        if scenario.tree:
            result["groups"] = {
                name: _rounded(_steady(figures) | _besides(figures))
                for name, figures in self.groups.items()
            }
        result["noticed"] = dict(sorted(self.noticed.items()))
        return result


PLAIN = (
    "offered",
    "admitted",
    "central",
    "total_ratio",
    "error_1s_mean",
    "error_1s_max",
    "overshoot_seconds",
    "falsely_refused",
    "fairness",
    "worst_agent",
    "settle_seconds",
    "swing",
)
"""Figures of the contract, without the warm-up except for overshoot and settling."""

WHOLE = ("overshoot_seconds",)
"""Those that the contract counts from time 0, although both versions are known."""

BESIDES = (
    "steady_overshoot_seconds",
    "excess_costs",
    "delays_kept",
    "healed_intervals",
)
"""Further figures, from time 0 except for the first."""


def _steady(figures: Figures) -> dict[str, object]:
    """Return the figures of the contract, which exclude the warm-up."""
    values = asdict(figures)
    return {
        name: values[name]
        if name in WHOLE
        else values.get(f"steady_{name}", values[name])
        for name in PLAIN
    }


def _besides(figures: Figures) -> dict[str, object]:
    """Return the same from time 0, under names beginning with `whole`, and the rest."""
    values = asdict(figures)
    whole = {
        f"whole_{n}": values[n]
        for n in PLAIN
        if f"steady_{n}" in values and n not in WHOLE
    }
    return whole | {name: values[name] for name in BESIDES}


def controller_of(strategy: Strategy) -> Callable[[Scenario, Birth], Controller]:
    """Return the factory of a strategy's controllers."""
    if strategy == "headgate":
        return real_coordinator
    return partial(PeriodicController, strategy)


def simulate(
    scenario: Scenario,
    *,
    seed: int,
    strategy: Strategy = "headgate",
    make_controller: Callable[[Scenario, Birth], Controller] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[Result, SimulationRun]:
    """Run a scenario and return its result and its record.

    Invariants are promises of headgate, so only its runs are checked.

    Args:
        scenario: What to simulate.
        seed: Seed of all random numbers.
        strategy: What sets the ceilings.
        make_controller: Used in place of the strategy's own controller (for tests).
        progress: Called with the simulated time, once a simulated second.
    """
    make = make_controller or controller_of(strategy)
    watch = InvariantWatch(scenario, seed, make) if strategy == "headgate" else None
    engine = SimulationEngine(
        scenario,
        seed=seed,
        strategy=strategy,
        make_controller=make,
        observer=watch,
        progress=progress,
    )
    run = engine.run()
    run.central = central_of(run)
    if watch is not None:
        run.violations = watch.finish(run, engine.nodes, engine.end_s)
    result = Result(
        scenario=scenario,
        seed=seed,
        strategy=strategy,
        noticed=run.noticed,
        figures=total_figures(run),
        groups={
            spec.name: group_figures(run, place)
            for place, spec in enumerate(scenario.groups)
            if scenario.tree
        },
        traffic=traffic(run),
        violations=tuple(run.violations),
    )
    return result, run


def _rounded(values: dict[str, object]) -> dict[str, object]:
    return {
        key: round(value, DIGITS) + 0.0 if isinstance(value, float) else value
        for key, value in values.items()
    }
