"""What the shell was told that its buckets may do, and what of a change it must hear.

Terms are told with a deadline.  Those that a bucket would find by itself, by letting
time pass, are not told again while half of that time is left: to set them costs a look
at the bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.messages.events import Ceilings

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Ints = NDArray[np.int64]

CHANGED_PART = 0.005
"""What moved by less is not set again."""

CHANGED_CAPACITY = 0.1
"""Likewise of the capacity of an agent's own part."""

SET_ANYWAY = 8
"""Buckets up to which all are set: to compare a few costs more than to set them."""

RATES = ("rate", "window", "expected_rate", "room_cap", "quota", "reserve", "ceiling")
"""Columns that are compared as they are."""

REMEMBERED = (*RATES, "level", "room", "capacity", "least_delay_s")


class LastCeilings:
    """Terms of N buckets as last set; NaN where never.

    Args:
        size: N.
        told_size: How many of the N the shell has; of the others it is told nothing.

    Attributes:
        ceiling: ``float64[N]`` units/s.
        deadline: ``float64[N]`` monotonic seconds.
    """

    def __init__(self, size: int, told_size: int) -> None:
        self._told_size = told_size
        self._last = {name: np.full(size, np.nan) for name in REMEMBERED}
        self._shared, self._cautious = np.zeros((2, size), dtype=np.bool_)
        self._counted, self._as_of_s = np.zeros((2, size))
        self.deadline = np.full(size, -np.inf)

    @property
    def ceiling(self) -> Floats:
        """``float64[N]`` units/s as last set; NaN where never."""
        return self._last["ceiling"]

    def inherit(self, old: LastCeilings, to: Ints, of: Ints) -> None:
        """Copy the buckets `of` of another into the places `to` of this one."""
        for name in REMEMBERED:
            self._last[name][to] = old._last[name][of]
        for name in ("_shared", "_cautious", "_counted", "_as_of_s", "deadline"):
            getattr(self, name)[to] = getattr(old, name)[of]

    def is_lower(self, rows: Ints, new: Ceilings) -> Flags:
        """Return ``bool[K]``: which rates or capacities are lower than they were."""
        lower: Flags = new.rate < self._last["rate"][rows]
        lower |= new.capacity < self._last["capacity"][rows]
        return lower

    def take(
        self,
        rows: Ints,
        new: Ceilings,
        counted: Floats,
        *,
        now: float,
        lease_s: float,
        anyway: Flags,
    ) -> Flags | None:
        """Return which of some rows must be set, ``bool[K]``, and remember these.

        Args:
            rows: ``int64[K]`` buckets that were calculated.
            new: What came out.
            counted: ``float64[K]`` what each has admitted by then.
            now: Monotonic seconds.
            lease_s: How long terms are good for.
            anyway: ``bool[K]`` those that are set however near they are.

        Returns:
            None where none must.
        """
        far = rows < self._told_size
        if len(rows) > SET_ANYWAY:
            near = self._near(rows, new, counted, now)
            near &= self.deadline[rows] - now > 0.5 * lease_s
            far &= anyway | ~near
        if not np.count_nonzero(far):
            return None
        at = rows[far]
        for name in REMEMBERED:
            self._last[name][at] = getattr(new, name)[far]
        self._shared[at], self._cautious[at] = new.shared[far], new.cautious[far]
        self._counted[at], self._as_of_s[at] = counted[far], now
        self.deadline[at] = now + lease_s
        return far

    def _near(self, rows: Ints, new: Ceilings, counted: Floats, now: float) -> Flags:
        """Return ``bool[K]``: which buckets have come to the same by themselves."""
        last = {name: column[rows] for name, column in self._last.items()}
        near: Flags = (self._shared[rows] == new.shared) & (
            self._cautious[rows] == new.cautious
        )
        passed_s = now - self._as_of_s[rows]
        spent = counted - self._counted[rows]
        level = last["level"] + last["rate"] * passed_s - spent
        room = last["room"] + last["expected_rate"] * passed_s - spent
        near &= _close(new.level, level) | ~new.shared
        near &= _close(new.room, room) | ~new.shared
        for name in RATES:
            shared = name in ("rate", "reserve", "ceiling")
            near &= _close(getattr(new, name), last[name]) | (
                ~new.shared & (not shared)
            )
        part = np.where(new.shared, CHANGED_PART, CHANGED_CAPACITY)
        near &= _close(new.capacity, last["capacity"], part)
        near &= _close(new.least_delay_s, last["least_delay_s"], CHANGED_CAPACITY)
        return near


def _close(new: Floats, old: Floats, part: Floats | float = CHANGED_PART) -> Flags:
    with np.errstate(invalid="ignore"):
        near: Flags = np.abs(new - old) <= part * np.abs(new)
    same = (new == old) | (np.isnan(new) & np.isnan(old))
    near |= same
    return near
