"""Formats results as a text table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.simulation.simulate import Result

MOST_VIOLATIONS = 20
"""Most violations printed for one run; `--json` has them all."""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _intervals(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} T"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} s"


FROM_START: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("offered", lambda r: f"{r.figures.offered:,.0f}"),
    ("admitted", lambda r: f"{r.figures.admitted:,.0f}"),
    ("central", lambda r: f"{r.figures.central:,.0f}"),
    ("admitted / central", lambda r: _ratio(r.figures.total_ratio)),
    ("error per second, mean", lambda r: _percent(r.figures.error_1s_mean)),
    ("error per second, worst", lambda r: _percent(r.figures.error_1s_max)),
    ("overshoot", lambda r: _seconds(r.figures.overshoot_seconds)),
    ("falsely refused", lambda r: _percent(r.figures.falsely_refused)),
    ("excess, largest costs", lambda r: f"{r.figures.excess_costs:.2f}"),
    ("sensible delays told", lambda r: _percent(r.figures.delays_kept)),
    ("settle", lambda r: _seconds(r.figures.settle_seconds)),
    ("healed after a fault", lambda r: _intervals(r.figures.healed_intervals)),
    ("violations", lambda r: str(len(r.violations))),
)
"""The lines with figures that count from time 0."""

STEADY: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("admitted / central", lambda r: _ratio(r.figures.steady_total_ratio)),
    ("error per second, mean", lambda r: _percent(r.figures.steady_error_1s_mean)),
    ("overshoot", lambda r: _seconds(r.figures.steady_overshoot_seconds)),
    ("falsely refused", lambda r: _percent(r.figures.steady_falsely_refused)),
    ("fairness (Jain)", lambda r: _ratio(r.figures.fairness)),
    ("worst agent", lambda r: _ratio(r.figures.worst_agent)),
    ("swing", lambda r: _percent(r.figures.swing)),
    (
        "reports / agent / s",
        lambda r: f"{r.traffic.reports_per_agent_second:.2f}",
    ),
    ("bytes / agent / s", lambda r: f"{r.traffic.bytes_per_agent_second:.0f}"),
)
"""The lines with figures that exclude the warm-up."""

MOST_COLUMNS = 6
"""Most seeds side by side; further ones go into blocks below."""


def table(results: list[Result]) -> str:
    """Return the results of one scenario as text, a column for each seed."""
    first = results[0]
    scenario = first.scenario
    lines = [
        f"{scenario.name}: {scenario.agents} agents, {scenario.seconds:g} s, "
        f"strategy {first.strategy}"
    ]
    for start in range(0, len(results), MOST_COLUMNS):
        lines.extend(_block(results[start : start + MOST_COLUMNS]))
    for result in results:
        lines.extend(_violations(result))
    return "\n".join(lines) + "\n"


def _block(results: list[Result]) -> list[str]:
    cells = [["seed", *(str(result.seed) for result in results)]]
    blank = [""] * len(results)
    warm_up_s = results[0].scenario.measure_from
    for title, rows in (("from time 0", FROM_START), (f"from {warm_up_s:g} s", STEADY)):
        cells.append([f"-- {title} --", *blank])
        cells += [[name, *(show(result) for result in results)] for name, show in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _violations(result: Result) -> list[str]:
    shown = [
        f"seed {result.seed}: {v.name} broken at {v.time:.3f} s: {v.detail}"
        for v in result.violations[:MOST_VIOLATIONS]
    ]
    more = len(result.violations) - len(shown)
    return [*shown, f"seed {result.seed}: and {more} more"] if more > 0 else shown
