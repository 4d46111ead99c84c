"""The demo's verdict, based on nothing but what the callers logged.

Three things gate it: the total against one central bucket, the excess, and the
worst-served agent.  For small requests the excess is judged in every window of ten
seconds.  For large ones it is judged at every instant, in requests, and there are too
few of them to judge an agent's part.  Settling time and latencies are printed but gate
nothing, because the machine may be busy with other things.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headgate.cli.demo.replay import (
    admitted_by_one_bucket,
    deepest_debt,
    max_min,
    ratio_of_totals,
    worst_window,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from headgate.cli.demo.script import Script

RATIO_BOUNDS = (0.97, 1.02)
"""Admitted / one central bucket: below, quota is wasted; above, it is broken."""

LONG_WINDOW_S = 10.0
"""The window that gates: longer than any burst or fault of the script."""

WINDOW_TOLERANCE = 1.03
"""A long window may hold 3 % more than its quota, not counting the burst."""

WORST_PART = 0.9
"""Each agent gets at least this part of its max-min."""

RATIO_COSTS = 8
"""Totals are averaged over the time in which the quota earns this many of the largest
requests: a few milliseconds if these are small."""

SETTLE_WINDOW_S = 0.5
"""Long enough for Poisson noise of a tenth of the quota to average out."""

SETTLE_STEP_S = 0.05
"""Resolution of the settle time."""

SETTLE_TOLERANCE = 0.15
"""Settled: all agents together are within 15 % of the quota from their max-min
(admissions of steady callers differ from it by about 6 % in half a second)."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What one agent's callers tried, all its lives together.

    Attributes:
        at_s: ``float64[N]`` seconds after the start of the run, ascending.
        spent_s: ``float64[N]`` how long `try_acquire` took, seconds.
        admitted: ``bool[N]``.
        cost: ``float64[N]`` units.
    """

    at_s: NDArray[np.float64]
    spent_s: NDArray[np.float64]
    admitted: NDArray[np.bool_]
    cost: NDArray[np.float64]

    @property
    def units(self) -> int:
        """Units attempted."""
        return round(float(self.cost.sum()))

    @property
    def got(self) -> int:
        """Units admitted."""
        return round(float(self.cost[self.admitted].sum()))


@dataclass(frozen=True, slots=True)
class AgentPart:
    """How one agent fared.

    Attributes:
        agent: Its id.
        attempted: Units its callers tried.
        admitted: Units they got.
        max_min: Units that it was due: Σ over seconds of its max-min share of what
            was offered in that second.
        part: admitted / max_min; 1 when nothing was due.
    """

    agent: str
    attempted: int
    admitted: int
    max_min: float
    part: float


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The run in figures, all of them measured at the callers.

    Attributes:
        shape: The kind of load.
        dimension: What the quota counts.
        seconds: Length of the run.
        quota_per_s: Q.
        burst_units: B.
        attempted: Units tried.
        admitted: Units got.
        central: Units of the same attempts that one central bucket admits.
        ratio: admitted / central (see `ratio_of_totals`).
        divided: Units of the same attempts that are admitted if each agent has a
            bucket with an equal part of the quota: what people do without Headgate.
        worst_1_s: Most units admitted in any window of 1 s.
        worst_10_s: Most units admitted in any window of 10 s.
        debt_units: Largest excess over Q·W + B in any window of any length.
        central_debt_units: That of the central bucket: one request, at most.
        largest_cost: Units of the largest request.
        agents: One part per agent.
        settle_s: Time from the flip until shares are right and stay right; None if
            the demand changed again first.
        p50_s: Median of the time in `try_acquire`, seconds.
        p99_s: 99th percentile of it, seconds.
        faults: What is out of bounds, a sentence each; empty when all is well.
    """

    shape: str
    dimension: str
    seconds: float
    quota_per_s: float
    burst_units: float
    attempted: int
    admitted: int
    central: int
    ratio: float
    divided: int
    worst_1_s: int
    worst_10_s: int
    debt_units: float
    central_debt_units: float
    largest_cost: int
    agents: tuple[AgentPart, ...]
    settle_s: float | None
    p50_s: float
    p99_s: float
    faults: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return plain values, ready for `json.dumps`."""
        return asdict(self)


def summarise(attempts: Mapping[str, Attempts], plan: Script) -> DemoSummary:
    """Measure a run and judge it.

    Args:
        attempts: Of every agent, by id.
        plan: What they did.
    """
    shape = plan.shape
    rate, burst = shape.quota_per_s, shape.burst_units
    each = list(attempts.values())
    merged = merge(each)
    got_s, got = merged.at_s[merged.admitted], merged.cost[merged.admitted]
    bucket = {"rate_per_s": rate, "burst_units": burst}
    central = admitted_by_one_bucket(merged.at_s, merged.cost, **bucket)
    central_s, due = merged.at_s[central], merged.cost[central]
    largest = shape.costs[1]
    spent = merged.spent_s if len(merged.spent_s) else np.zeros(1)
    p50_s, p99_s = (float(p) for p in np.percentile(spent, (50, 99)))
    summary = DemoSummary(
        shape=shape.name,
        dimension=shape.dimension,
        seconds=plan.seconds,
        quota_per_s=rate,
        burst_units=burst,
        attempted=merged.units,
        admitted=merged.got,
        central=round(float(due.sum())),
        ratio=ratio_of_totals(
            merged.at_s,
            merged.cost,
            merged.admitted,
            central,
            last_s=min(RATIO_COSTS * largest / rate, plan.seconds / 2),
        ),
        divided=divided_evenly(each, quota_per_s=rate, burst_units=burst),
        worst_1_s=worst_window(got_s, got, window_s=1.0),
        worst_10_s=worst_window(got_s, got, window_s=LONG_WINDOW_S),
        debt_units=deepest_debt(got_s, got, **bucket),
        central_debt_units=deepest_debt(central_s, due, **bucket),
        largest_cost=largest,
        agents=parts_of_max_min(attempts, seconds=plan.seconds, quota_per_s=rate),
        settle_s=_settled_after_flip(each, plan),
        p50_s=p50_s,
        p99_s=p99_s,
        faults=(),
    )
    return replace(summary, faults=_faults(summary, small=shape.small))


def merge(attempts: Sequence[Attempts]) -> Attempts:
    """Return the attempts of all, in the order in which they were made."""
    at_s = np.concatenate([one.at_s for one in attempts])
    order = np.argsort(at_s, kind="stable")
    return Attempts(
        at_s[order],
        np.concatenate([one.spent_s for one in attempts])[order],
        np.concatenate([one.admitted for one in attempts])[order],
        np.concatenate([one.cost for one in attempts])[order],
    )


def divided_evenly(
    attempts: Sequence[Attempts], *, quota_per_s: float, burst_units: float
) -> int:
    """Return what equal, fixed parts of quota and burst would have admitted."""
    count = len(attempts)
    return sum(
        round(
            float(
                one.cost[
                    admitted_by_one_bucket(
                        one.at_s,
                        one.cost,
                        rate_per_s=quota_per_s / count,
                        burst_units=burst_units / count,
                    )
                ].sum()
            )
        )
        for one in attempts
    )


def parts_of_max_min(
    attempts: Mapping[str, Attempts], *, seconds: float, quota_per_s: float
) -> tuple[AgentPart, ...]:
    """Return what each agent got and what it was due, second by second."""
    edges = np.arange(0.0, np.ceil(seconds) + 1.0)
    offered = np.array(
        [np.histogram(a.at_s, edges, weights=a.cost)[0] for a in attempts.values()]
    )
    due = np.array(
        [max_min(second, quota_per_s) for second in offered.T.astype(np.float64)]
    ).sum(axis=0)
    return tuple(
        AgentPart(
            agent=agent,
            attempted=one.units,
            admitted=one.got,
            max_min=float(fair),
            part=float(one.got / fair) if fair > 0 else 1.0,
        )
        for (agent, one), fair in zip(attempts.items(), due, strict=True)
    )


def _settled_after_flip(attempts: Sequence[Attempts], plan: Script) -> float | None:
    """Return `settle_time` after the script's flip; None if it has none."""
    flip = plan.flip
    if flip is None:
        return None
    return settle_time(
        attempts,
        flip_s=flip.begins_s,
        within_s=flip.ends_s - flip.begins_s,
        quota_per_s=plan.shape.quota_per_s,
    )


def settle_time(
    attempts: Sequence[Attempts],
    *,
    flip_s: float,
    within_s: float,
    quota_per_s: float,
) -> float | None:
    """Return how long after the flip every agent has its max-min, seconds.

    Windows of `SETTLE_WINDOW_S` slide from the flip on.  In a good window each agent's
    admissions differ from its max-min share of what was offered by at most
    `SETTLE_TOLERANCE` of the quota.  The cluster has settled at the beginning of the
    first run of good windows that covers a window's length.

    Returns:
        Seconds after the flip, or None if that does not happen within `within_s`.
    """
    starts = np.arange(
        flip_s, flip_s + within_s - SETTLE_WINDOW_S + 1e-9, SETTLE_STEP_S
    )
    offered = np.array([_in_windows(a.at_s, starts) for a in attempts])
    admitted = np.array([_in_windows(a.at_s[a.admitted], starts) for a in attempts])
    capacity = quota_per_s * SETTLE_WINDOW_S
    needed = round(SETTLE_WINDOW_S / SETTLE_STEP_S)
    in_a_row = 0
    for index in range(len(starts)):
        due = max_min(offered[:, index], capacity)
        away = float(np.abs(admitted[:, index] - due).sum())
        in_a_row = in_a_row + 1 if away <= SETTLE_TOLERANCE * capacity else 0
        if in_a_row == needed:
            return float(starts[index - needed + 1] - flip_s)
    return None


def _in_windows(
    at_s: NDArray[np.float64], starts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how many of `at_s` lie in the settle window from each start."""
    counts = np.searchsorted(at_s, starts + SETTLE_WINDOW_S) - np.searchsorted(
        at_s, starts
    )
    return counts.astype(np.float64)


def _faults(summary: DemoSummary, *, small: bool) -> tuple[str, ...]:
    """Return what breaks the demo's promises, a sentence each."""
    faults: list[str] = []
    low, high = RATIO_BOUNDS
    if not low <= summary.ratio <= high:
        faults.append(
            f"admitted {summary.ratio:.3f} of what one central bucket admits; "
            f"expected {low}-{high}"
        )
    if not small:
        over = summary.debt_units - summary.central_debt_units
        most = summary.largest_cost * len(summary.agents)
        if over > most:
            faults.append(
                f"{over:,.0f} {summary.dimension} over the central bucket's own "
                f"depth; expected at most {most:,}, one request of each process"
            )
        return tuple(faults)
    bound = WINDOW_TOLERANCE * summary.quota_per_s * LONG_WINDOW_S + summary.burst_units
    if summary.worst_10_s > bound:
        faults.append(
            f"{summary.worst_10_s:,} admitted in a window of {LONG_WINDOW_S:.0f} s; "
            f"expected at most {bound:,.0f}"
        )
    worst = min(summary.agents, key=lambda one: one.part)
    if worst.part < WORST_PART:
        faults.append(
            f"{worst.agent} got {worst.part:.3f} of its max-min share; "
            f"expected at least {WORST_PART}"
        )
    return tuple(faults)
