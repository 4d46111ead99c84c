"""What the shell was told that its buckets may do, and what of a change it must hear.

Each ceiling is told with a deadline.  One that hardly moved is not set again while
half of its time is left: setting one costs a look at the bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.allocation.ceilings import Ceilings

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Ints = NDArray[np.int64]

CHANGED_PART = 0.005
"""A ceiling that moved by less is not set again."""

CHANGED_CAPACITY = 0.1
"""Likewise of a capacity: a tenth more or less of a tenth of a second."""

CHANGED_CHANCE = 0.02
"""Likewise of a probability."""


class Given:
    """Ceilings of N buckets as last set; NaN where never.

    Args:
        size: N.
        told_size: How many of the N the shell has; of the others it is told nothing.

    Attributes:
        ceiling: ``float64[N]`` units/s.
        capacity: ``float64[N]`` units.
        probability: ``float64[N]``.
        deadline: ``float64[N]`` monotonic seconds.
    """

    def __init__(self, size: int, told_size: int) -> None:
        self._told_size = told_size
        self.ceiling = np.full(size, np.nan)
        self.capacity, self.probability = np.full((2, size), np.nan)
        self.deadline = np.full(size, -np.inf)

    def inherit(self, old: Given, to: Ints, of: Ints) -> None:
        """Copy the buckets `of` of another into the places `to` of this one."""
        for name in ("ceiling", "capacity", "probability", "deadline"):
            getattr(self, name)[to] = getattr(old, name)[of]

    def take(
        self, rows: Ints, new: Ceilings, *, now: float, lease_s: float, anyway: Flags
    ) -> Flags | None:
        """Return which of some rows must be set, ``bool[K]``, and remember these.

        Args:
            rows: ``int64[K]`` buckets that were calculated.
            new: What came out.
            now: Monotonic seconds.
            lease_s: How long a ceiling is good for.
            anyway: ``bool[K]`` those that are set however near they are.

        Returns:
            None where none must.
        """
        if (
            len(rows) == 1
            and not anyway[0]
            and self._is_near(int(rows[0]), new, now, lease_s)
        ):
            return None
        near = _near(new.ceiling, self.ceiling[rows], CHANGED_PART)
        near &= _near(new.capacity, self.capacity[rows], CHANGED_CAPACITY)
        near &= np.abs(new.probability - self.probability[rows]) <= CHANGED_CHANCE
        near &= self.deadline[rows] - now > 0.5 * lease_s
        near &= ~anyway
        near |= rows >= self._told_size
        if near.all():
            return None
        far: Flags = ~near
        at = rows[far]
        self.ceiling[at] = new.ceiling[far]
        self.capacity[at] = new.capacity[far]
        self.probability[at] = new.probability[far]
        self.deadline[at] = now + lease_s
        return far

    def _is_near(self, i: int, new: Ceilings, now: float, lease_s: float) -> bool:
        """Tell of one bucket whether what came out is what it has."""
        if i >= self._told_size:
            return True
        ceiling, old = new.ceiling.item(0), self.ceiling.item(i)
        capacity, held = new.capacity.item(0), self.capacity.item(i)
        # Holds for infinite = infinite, and never for what was not set yet (NaN).
        if not old * (1.0 - CHANGED_PART) <= ceiling <= old * (1.0 + CHANGED_PART):
            return False
        least, most = held * (1.0 - CHANGED_CAPACITY), held * (1.0 + CHANGED_CAPACITY)
        if not least <= capacity <= most:
            return False
        apart = abs(new.probability.item(0) - self.probability.item(i))
        left_s = self.deadline.item(i) - now
        return bool(apart <= CHANGED_CHANCE and left_s > 0.5 * lease_s)


def _near(new: Floats, old: Floats, part: float) -> Flags:
    # Holds for infinite = infinite, and never for what was not set yet (NaN).
    near: Flags = (new <= old * (1.0 + part)) & (new >= old * (1.0 - part))
    return near
