"""The targets that the system must reach in each scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Bounds = dict[str, tuple[float, float]]
"""Least and most of each figure, by its name in the result."""

ROUNDING = 1.1e-3
"""Overshoot counts as none up to the one request that the central bucket owes as
well: a thousandth of a second of quota in most scenarios."""


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of one scenario, for every seed.

    Attributes:
        scenario: Name in the library.
        bounds: Least and most of each figure.
        mostly: The same, on nine seeds of ten.
    """

    scenario: str
    bounds: Bounds
    mostly: Bounds = field(default_factory=dict[str, tuple[float, float]])

    def missed(self, values: Mapping[str, object]) -> dict[str, str]:
        """Return the figures that are out of bounds, in words by name.

        From time 0, where a figure is told both with and without the warm-up.

        Args:
            values: Of one run, as `Result.as_json` has them.
        """
        told: dict[str, str] = {}
        for name, (least, most) in self.bounds.items():
            value = values.get(f"whole_{name}", values[name])
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
    over: float = 0.0,
    **more: tuple[float, float],
) -> Bounds:
    bounds: Bounds = {"total_ratio": total}
    if error is not None:
        bounds["error_1s_mean"] = (-inf, error)
    bounds["overshoot_seconds"] = (-inf, over + ROUNDING)
    return bounds | more


def _regime(costs: float, one: float = 0.0) -> Bounds:
    """Return what a regime of large or rare requests is held to.

    Args:
        costs: How many of the largest requests admissions may be deeper than the
            central bucket: as many as agents ask for them at a time.
        one: What part of the total the largest request is: two empty buckets may
            differ by it when the run ends.
    """
    least, most = REGIME
    return {
        "total_ratio": (least - one, most + one),
        "excess_costs": (-inf, costs),
        "delays_kept": (0.9, inf),
    }


EXACT = (0.995, 1.005)
"""Of a total: within half a per cent of one central bucket."""

REGIME = (0.97, 1.02)
"""Of a total, from time 0, wherever 50 requests or more are admitted."""

LONG = (0.97, 1.01)
"""Of a total with heartbeats of 5 s."""

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
        _bounds(EXACT, 0.02, settle_seconds=(-inf, 0.6)),
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
    Target("fifty-on-ten", _bounds((0.98, inf), over=0.3)),
    Target("fifty-on-ten-light", _bounds((0.995, inf))),
    Target("kip599", _regime(2, one=0.04)),
    Target("tokens-a-minute", _regime(6, one=0.04)),
    Target("per-user", _regime(8, one=0.02)),
    Target("cold-start", _regime(10)),
    Target("hourly", _regime(6)),
    Target("debt", _regime(2, one=0.02)),
    Target("herd-dear", _regime(20, one=0.03)),
    Target("rolling-restart", _bounds((0.97, 1.02), healed_intervals=(-inf, 3.0))),
    Target("halves-skewed", _bounds((0.97, 1.02), over=0.3)),
    Target("halves-skewed-fair", _bounds((0.88, 1.02))),
    Target("zipf-t5", _bounds(LONG, 0.035)),
    Target("zipf-loss-t5", _bounds(LONG, 0.035)),
    Target("zipf-crash-t5", _bounds(LONG, 0.035)),
    Target("swap-t5", _bounds(LONG, 0.035)),
    Target("mover-t5", _bounds(LONG, 0.035)),
    Target("wave-t5", _bounds(LONG, 0.035)),
)
"""In the order of the published table."""

BY_NAME = {target.scenario: target for target in TARGETS}
