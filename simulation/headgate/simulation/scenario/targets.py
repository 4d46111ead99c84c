"""The targets that the system must reach in each scenario.

One rule says when the judging of a scenario begins.  The figures in its targets count
from its `measure_from` on: 0 s for a scenario about starts, restarts or large requests,
the end of the warm-up for one about a steady state.  From time 0 on, every scenario is
held to two more bounds:

- **excess**: a bucket charged with all admissions goes below the central bucket's own
  depth by at most one request of each agent that was active within the age of
  information, plus what the rate earns in that age.  Both follow from the scenario's
  file (`headgate.simulation.measure.excess`), and the invariant `safety` checks them
  at every admission of every run.  A strict group is never over at all.
- **total**: within `REGIME`, or within the scenario's own bounds if these are wider.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Bounds = dict[str, tuple[float, float]]
"""Least and most of each figure, by its name in the result."""

ROUNDING = 1.1e-3
"""Overshoot up to the one request that the central bucket may owe as well counts as
none: a thousandth of a second of quota in most scenarios."""


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of one scenario, for every seed.

    Attributes:
        scenario: Name in the library.
        bounds: Least and most of each figure.
        mostly: The same, for bounds that nine seeds of ten must keep.
    """

    scenario: str
    bounds: Bounds
    mostly: Bounds = field(default_factory=dict[str, tuple[float, float]])

    def missed(self, values: Mapping[str, object]) -> dict[str, str]:
        """Return the figures that are out of bounds, in words by name.

        Args:
            values: Of one run, as `Result.as_json` returns them.
        """
        told: dict[str, str] = {}
        for name, (least, most) in self.bounds.items():
            value = values[name]
            if not isinstance(value, float):
                continue
            if not least <= value <= most:
                told[name] = f"{name} {value:g}, expected {shown(least, most)}"
        return told


def shown(least: float, most: float) -> str:
    """Return bounds in words."""
    if least == -inf:
        return f"≤ {most:g}"
    return f"≥ {least:g}" if most == inf else f"{least:g} to {most:g}"


def _bounds(
    total: tuple[float, float],
    error: float | None = None,
    *,
    over: float | None = 0.0,
    **more: tuple[float, float],
) -> Bounds:
    """Return the targets of a scenario.

    Args:
        total: Least and most of the total.
        error: Largest mean error.
        over: Seconds of quota above the burst, after the warm-up; None if the bound
            on the excess (see above) is all that can be asked.
        more: Further figures.
    """
    least, most = total
    whole = (min(least, REGIME[0]), max(most, REGIME[1]))
    bounds: Bounds = {"total_ratio": total, "whole_total_ratio": whole}
    if error is not None:
        bounds["error_1s_mean"] = (-inf, error)
    if over is not None:
        bounds["steady_overshoot_seconds"] = (-inf, over + ROUNDING)
    return bounds | more


def _regime(one: float = 0.0) -> Bounds:
    """Return the targets for a regime of large or rare requests.

    Args:
        one: The largest request as a fraction of the total: two empty buckets may
            differ by it when the run ends.
    """
    least, most = REGIME
    return {
        "total_ratio": (least - one, most + one),
        "delays_kept": (0.9, inf),
    }


REGIME = (0.97, 1.02)
"""Bounds on a total, from time 0, wherever at least 50 requests are admitted."""

EXACT = (0.995, 1.005)
"""Bounds on a total: within half a per cent of one central bucket."""

LONG = (0.97, 1.01)
"""Bounds on a total with heartbeats of 5 s."""

TARGETS: tuple[Target, ...] = (
    Target(
        "zipf",
        _bounds(
            EXACT,
            0.025,
            fairness=(0.995, inf),
            worst_agent=(0.95, inf),
            reports_per_agent_second=(-inf, 1.5),
        ),
    ),
    Target("zipf-loss", _bounds(EXACT, 0.025, worst_agent=(0.93, inf))),
    Target("zipf-crash", _bounds(EXACT, 0.025)),
    Target(
        "swap",
        _bounds(EXACT, 0.025, settle_seconds=(-inf, 0.6)),
        {"settle_seconds": (-inf, 0.4)},
    ),
    Target("mover", _bounds((0.998, inf), 0.005, falsely_refused=(-inf, 0.002))),
    Target("wave", _bounds(EXACT, 0.02, reports_per_agent_second=(-inf, 3.0))),
    Target("small-burst", _bounds((0.99, inf), 0.025)),
    Target("slow-network", _bounds((0.99, 1.01), 0.03, swing=(-inf, 0.05))),
    Target("halves-fair", _bounds((0.99, 1.005), 0.035)),
    Target("halves-hold", _bounds((0.99, 1.005), 0.035, over=0.3)),
    Target("one-cut-off", _bounds((0.975, inf), 0.03)),
    Target("retry-storm", _bounds(EXACT, 0.025, fairness=(0.995, inf))),
    Target("strict-zipf", _bounds((0.95, inf))),
    Target("strict-mover", _bounds((0.98, inf), falsely_refused=(-inf, 0.025))),
    Target("strict-flashes", _bounds((0.9, inf))),
    Target("strict-loss", _bounds((0.98, inf))),
    Target("strict-halves", _bounds((0.98, inf))),
    Target("strict-crash", _bounds((0.98, inf))),
    Target("strict-rolling", _bounds((0.95, inf), worst_agent=(0.9, inf))),
    Target("strict-rolling-loss", _bounds((0.93, inf), worst_agent=(0.85, inf))),
    Target("fifty-on-ten", _bounds((0.98, inf), over=None)),
    Target("fifty-on-ten-light", _bounds((0.995, inf))),
    Target("kip599", _regime(one=0.04)),
    Target("tokens-a-minute", _regime(one=0.04)),
    Target("per-user", _regime(one=0.02)),
    Target("cold-start", _regime()),
    Target("hourly", _regime()),
    Target("debt", _regime(one=0.02)),
    Target("herd", _regime()),
    Target("herd-dear", _regime(one=0.03)),
    Target(
        "rolling-restart",
        _bounds(REGIME, healed_intervals=(-inf, 3.0)),
    ),
    Target("halves-skewed", _bounds((0.97, 1.02), over=0.3)),
    Target("halves-skewed-fair", _bounds((0.88, 1.02), over=None)),
    Target("zipf-t5", _bounds(LONG, 0.035)),
    Target("zipf-loss-t5", _bounds(LONG, 0.035)),
    Target("zipf-crash-t5", _bounds(LONG, 0.035)),
    Target("swap-t5", _bounds(LONG, 0.035)),
    Target("mover-t5", _bounds(LONG, 0.035)),
    Target("wave-t5", _bounds(LONG, 0.035)),
)
"""In the order of the published table."""

BY_NAME = {target.scenario: target for target in TARGETS}
