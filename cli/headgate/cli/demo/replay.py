"""What one central token bucket would have done with the very same attempts.

This is the yardstick of the demo: the attempts of all callers, merged by time and run
through one bucket that may go into debt (KIP-599: admit while the level is ≥ 0, then
charge).  It also measures what a quota promises: at most Q·W + B in any window of W
seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def admitted_by_one_bucket(
    at_s: NDArray[np.float64],
    cost: NDArray[np.float64] | None = None,
    *,
    rate_per_s: float,
    burst_units: float,
) -> NDArray[np.bool_]:
    """Return which attempts one bucket admits, full at the first of them.

    Args:
        at_s: ``float64[N]`` times of attempts, ascending.
        cost: ``float64[N]`` their units; one each if absent.
        rate_per_s: Q, units/s.
        burst_units: B, units.
    """
    admitted = np.zeros(len(at_s), dtype=np.bool_)
    level, last_s = burst_units, float(at_s[0]) if len(at_s) else 0.0
    costs = [1.0] * len(at_s) if cost is None else cost.tolist()
    for index, (now_s, units) in enumerate(zip(at_s.tolist(), costs, strict=True)):
        level = min(burst_units, level + (now_s - last_s) * rate_per_s)
        last_s = now_s
        if level >= 0:
            level -= units
            admitted[index] = True
    return admitted


def deepest_debt(
    at_s: NDArray[np.float64],
    cost: NDArray[np.float64] | None = None,
    *,
    rate_per_s: float,
    burst_units: float,
) -> float:
    """Return the largest excess over Q·W + B in any window of any length, units.

    It is how far one bucket would go below zero if it were charged with all that
    was admitted, which is the same number found in one pass.

    Args:
        at_s: ``float64[N]`` times of admissions, ascending.
        cost: ``float64[N]`` their units; one each if absent.
        rate_per_s: Q, units/s.
        burst_units: B, units.
    """
    lowest = 0.0
    level, last_s = burst_units, float(at_s[0]) if len(at_s) else 0.0
    costs = [1.0] * len(at_s) if cost is None else cost.tolist()
    for now_s, units in zip(at_s.tolist(), costs, strict=True):
        level = min(burst_units, level + (now_s - last_s) * rate_per_s) - units
        last_s = now_s
        lowest = min(lowest, level)
    return max(0.0, -lowest)


def worst_window(
    at_s: NDArray[np.float64],
    cost: NDArray[np.float64] | None = None,
    *,
    window_s: float,
) -> int:
    """Return the most units admitted in any half-open window of `window_s`.

    Args:
        at_s: ``float64[N]`` times of admissions, ascending.
        cost: ``float64[N]`` their units; one each if absent.
        window_s: W, seconds.
    """
    if not len(at_s):
        return 0
    costs = np.ones(len(at_s)) if cost is None else cost
    spent = np.concatenate(([0.0], np.cumsum(costs)))
    # The fullest window can be moved right until it begins with an admission.
    past = np.searchsorted(at_s, at_s + window_s, side="left")
    return round(float((spent[past] - spent[:-1]).max()))


def ratio_of_totals(
    at_s: NDArray[np.float64],
    cost: NDArray[np.float64],
    admitted: NDArray[np.bool_],
    central: NDArray[np.bool_],
    *,
    last_s: float,
) -> float:
    """Return admitted / central, each total averaged over the last seconds.

    Two buckets that are both spent to the last unit may differ by a request at any
    instant, because one of them is just about to admit it.  Where one request is a
    noticeable part of the total, the average shows what the end can't.

    Args:
        at_s: ``float64[N]`` times of attempts, ascending.
        cost: ``float64[N]`` their units.
        admitted: ``bool[N]`` which were admitted.
        central: ``bool[N]`` which one bucket admits.
        last_s: Seconds before the last attempt to average over.
    """
    if not len(at_s):
        return 0.0
    lasts = np.diff(at_s, append=at_s[-1])
    lasts[at_s < at_s[-1] - last_s] = 0.0
    if not lasts.any():
        lasts[-1] = 1.0
    got, due = (float(np.cumsum(cost * x) @ lasts) for x in (admitted, central))
    return got / due if due else 0.0


def max_min(demand: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Share `capacity` among `demand` by max-min fairness.

    Args:
        demand: ``float64[J]`` what each wants.
        capacity: What there is, in the same units.

    Returns:
        ``float64[J]``: demand if all of it fits, else min(demand, θ) with Σ = capacity.
    """
    if demand.sum() <= capacity:
        return demand.copy()
    share = np.zeros_like(demand)
    left, open_count = capacity, len(demand)
    for index in np.argsort(demand, kind="stable"):  # smallest demand first
        share[index] = min(float(demand[index]), left / open_count)
        left -= share[index]
        open_count -= 1
    return share
