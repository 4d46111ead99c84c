"""How much of the time apart was billed: true counters against what agents assume.

A central bucket's level L obeys ΔL = Q·Δt − ΔA, with A what all callers were admitted.
So E + A − Q·t of an agent that charges each unit once is constant, whatever its
callers do; it falls by what is charged beyond what was spent since, and rises by what
is not charged.  `billed_units` returns its deepest fall after the heal.  The unseen (a
lag and what is predicted) moves it by some hundredths of a second of Q either way;
billing what was spent apart would take all that a level can fall, a second of Q beside
the margin.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from math import nan
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Lines = list[dict[str, float]]
"""What one caller recorded at each time `t`: `admitted`, `level` and others."""

WATCHED_S = 5.0
"""Time after the heal for everyone's first reports and a round of questions."""


def billed_units(
    callers: Sequence[Lines], *, rate_per_s: float, healing_s: float, healed_s: float
) -> float:
    """Return the most that an agent charged beyond what was spent since the heal.

    Args:
        callers: All lives of all callers.
        rate_per_s: Q.
        healing_s: When the heal began: the level until then is the yardstick.
        healed_s: When it was over.
    """
    total = Total(callers)
    known, falls, strange = list[float](), list[float](), list[float]()
    for lines in callers:
        seen = [
            (x["t"], x["level"] + total.at(x["t"]) - rate_per_s * x["t"])
            for x in lines
            if "level" in x
        ]
        before = [y for t, y in seen if healing_s - 1.0 < t <= healing_s]
        after = [y for t, y in seen if healed_s < t <= healed_s + WATCHED_S]
        known += before[-1:]
        if before and after:
            falls.append(before[-1] - min(after))
        elif after:
            strange.append(min(after))
    if known:  # those that were paused or restarted use the others' yardstick
        falls += [median(known) - least for least in strange]
    return max(0.0, *falls) if falls else nan


class Total:
    """What all callers were admitted until a time, interpolated between looks."""

    def __init__(self, callers: Sequence[Lines]) -> None:
        self._times = [[x["t"] for x in lines] for lines in callers]
        self._admitted = [[x["admitted"] for x in lines] for lines in callers]

    def at(self, when_s: float) -> float:
        """Return units since the callers' starts."""
        pairs = zip(self._times, self._admitted, strict=True)
        return sum(_between(times, counts, when_s) for times, counts in pairs if times)

    def between(self, since_s: float, until_s: float) -> float:
        """Return units between two times."""
        return self.at(until_s) - self.at(since_s)


def _between(times: list[float], counts: list[float], when_s: float) -> float:
    after = bisect_right(times, when_s)
    if after == 0:
        return 0.0
    if after == len(times):
        return counts[-1]
    (t0, t1), (c0, c1) = (
        next(pairwise(x[after - 1 : after + 1])) for x in (times, counts)
    )
    return c0 + (c1 - c0) * (when_s - t0) / max(t1 - t0, 1e-9)
