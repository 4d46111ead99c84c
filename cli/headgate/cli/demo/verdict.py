"""The demo's summary in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.cli.demo.script import REQUESTS
from headgate.cli.demo.summary import (
    LONG_WINDOW_S,
    RATIO_BOUNDS,
    WINDOW_TOLERANCE,
    WORST_PART,
)

if TYPE_CHECKING:
    from headgate.cli.demo.summary import DemoSummary


TOLD = "for information"


def lines(summary: DemoSummary) -> list[str]:
    """Return the summary, one fact per line, with the verdict last."""
    low, high = RATIO_BOUNDS
    small = summary.shape == REQUESTS.name
    parts = "  ".join(f"{one.agent} {one.part:.3f}" for one in summary.agents)
    settled = (
        "not before the demand changed again"
        if summary.settle_s is None
        else f"{summary.settle_s:.2f} s"
    )
    divided = summary.divided / max(1, summary.central)
    facts = [
        ("attempted", f"{summary.attempted:,}"),
        ("admitted", f"{summary.admitted:,}"),
        (
            "one central bucket",
            f"{summary.central:,} is what one bucket for all would have admitted of "
            "the same attempts",
        ),
        ("ratio", f"{summary.ratio:.4f} of that  (must be between {low} and {high})"),
        (
            "quota divided evenly",
            f"{divided:.4f} of that, {summary.divided:,}, is what a fixed part "
            "for each process would have admitted",
        ),
        ("worst window of 1 s", _window(summary, summary.worst_1_s, 1.0)),
        ("worst window of 10 s", _window(summary, summary.worst_10_s, LONG_WINDOW_S)),
        ("over quota + burst", _over(summary)),
        (
            "part of fair share",
            f"{parts}  ({f'each ≥ {WORST_PART}' if small else TOLD})",
        ),
        *([("settled after flip", f"{settled}  ({TOLD})")] if small else []),
        (
            "try_acquire",
            f"{summary.p50_s * 1e6:.1f} µs, 99 of 100 within "
            f"{summary.p99_s * 1e6:.1f} µs  ({TOLD})",
        ),
    ]
    told = [
        "",
        f"One quota of {summary.quota_per_s:,.0f} {summary.dimension}/s, burst "
        f"{summary.burst_units:,.0f}, over {len(summary.agents)} processes for "
        f"{summary.seconds:g} s, as their callers saw it:",
        *(f"  {name:<21} {fact}" for name, fact in facts),
    ]
    passed = "PASSED: the quota was held, used up, and shared fairly"
    if not small:
        passed = "PASSED: the quota was held and used up"
    told += [f"FAILED: {fault}" for fault in summary.faults] or [passed]
    return told


def _over(summary: DemoSummary) -> str:
    """Return how far admissions went below one bucket, and how far they may."""
    over_s = summary.debt_units / summary.quota_per_s
    text = (
        f"{summary.debt_units:,.0f} {summary.dimension}, in the worst window of any "
        f"length: {over_s:.3f} s of quota"
    )
    if summary.shape == REQUESTS.name:
        return f"{text}  ({TOLD})"
    most = summary.largest_cost * len(summary.agents)
    return (
        f"{text}; one bucket {summary.central_debt_units:,.0f}  "
        f"(must be at most {most:,} more, one request of each process)"
    )


def _window(summary: DemoSummary, count: int, window_s: float) -> str:
    """Return a window's admissions against its quota, not counting the burst."""
    quota = summary.quota_per_s * window_s
    over = max(0.0, count - summary.burst_units - quota) / quota
    text = f"{count:,} admitted; quota {quota:,.0f} + burst {summary.burst_units:,.0f}"
    text += f": {over:.1%} over"
    if window_s == LONG_WINDOW_S and summary.shape == REQUESTS.name:
        text += f"  (must be at most {WINDOW_TOLERANCE - 1:.0%})"
    return text
