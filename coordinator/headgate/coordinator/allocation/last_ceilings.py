"""Which ceilings the shell was given last, and which changes it must hear about.

Ceilings have a deadline.  New ones that a bucket would reach by itself as time passes
are not set again while half of that time is left, because setting them makes the bucket
refill on its next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.messages.events import SetCeilings

if TYPE_CHECKING:
    from headgate.coordinator.messages.events import Ceilings, Keys
    from headgate.coordinator.table.arrays import Flags, Floats, Ints

CHANGED_PART = 0.005
"""A rate that moved by less than this is not set again."""

CHANGED_CAPACITY = 0.1
"""The same for the capacity of a bucket that this agent does not share."""

SET_ANYWAY = 8
"""If there are no more buckets than this, all are set: comparing a few costs more than
setting them."""

IF_SHARED = ("window", "expected_rate", "room_cap", "quota", "level", "room")
"""Columns that are compared for shared buckets only."""

RATES = ("rate", "reserve", "ceiling", "share")
"""Columns that are compared for all buckets in the same way."""

COMPARED = (*RATES, "capacity", "least_delay_s", *IF_SHARED, "shared", "cautious")
"""Columns that `LastCeilings` keeps; of so few buckets that none is ever compared, only
`ceiling`.  If more are added, all are set once more."""


class LastCeilings:
    """Terms of N buckets as last set; NaN where never set.

    Args:
        keys: The buckets that the shell has; it hears nothing about the others.
        size: N.
    """

    def __init__(self, keys: Keys, size: int) -> None:
        self._keys = keys
        names = COMPARED if size > SET_ANYWAY else ("ceiling",)
        self._last = {name: np.full(size, np.nan) for name in names}
        self._counted, self._as_of_s = np.zeros((2, size))
        self._deadline = np.full(size, -np.inf)

    @property
    def ceiling(self) -> Floats:
        """``float64[N]`` units/s as last set; NaN where never set."""
        return self._last["ceiling"]

    def inherit(self, old: LastCeilings, to: Ints, of: Ints) -> None:
        """Copy the buckets `of` of another into the places `to` of this one."""
        for name in self._last.keys() & old._last.keys():
            self._last[name][to] = old._last[name][of]
        for name in ("_counted", "_as_of_s", "_deadline"):
            getattr(self, name)[to] = getattr(old, name)[of]

    def take(
        self,
        rows: Ints,
        new: Ceilings,
        counted: Floats,
        credit: Floats,
        *,
        now: float,
        lease_s: float,
        exact: Flags,
    ) -> SetCeilings | None:
        """Return the ceilings that the shell must set, and remember them.

        Args:
            rows: ``int64[K]`` buckets that were computed.
            new: Their new ceilings.
            counted: ``float64[K]`` what each had admitted by then.
            credit: ``float64[N]`` what to put into each once; 0 where that is told.
            now: Monotonic seconds.
            lease_s: How long ceilings are valid.
            exact: ``bool[K]`` rows to set if the rate, the capacity or the share is
                lower than it was, however little.
        """
        far = rows < len(self._keys.group_ids)
        if len(rows) > SET_ANYWAY:
            near = self._near(rows, new, counted, now)
            near &= self._deadline[rows] - now > 0.5 * lease_s
            names = ("rate", "capacity", "share")
            lower = np.any([getattr(new, n) < self._last[n][rows] for n in names], 0)
            far &= (credit[rows] > 0.0) | (exact & lower) | ~near
        if not np.count_nonzero(far):
            return None
        at = rows[far]
        for name, column in self._last.items():
            column[at] = getattr(new, name)[far]
        self._counted[at], self._as_of_s[at] = counted[far], now
        self._deadline[at] = now + lease_s
        owed = credit[at]
        credit[at] = 0.0
        return SetCeilings(
            keys=self._keys,
            index=at,
            ceilings=new.at(far),
            counted=counted[far],
            as_of_s=now,
            deadline_s=self._deadline[at],
            credit=owed if owed.any() else None,
        )

    def _near(self, rows: Ints, new: Ceilings, counted: Floats, now: float) -> Flags:
        """Return ``bool[K]``: which buckets have reached the new state already."""
        last = {name: column[rows] for name, column in self._last.items()}
        near: Flags = last["shared"] == new.shared
        near &= last["cautious"] == new.cautious
        passed_s = now - self._as_of_s[rows]
        spent = counted - self._counted[rows]
        last["level"] = last["level"] + last["rate"] * passed_s - spent
        last["room"] = last["room"] + last["expected_rate"] * passed_s - spent
        for name in IF_SHARED:
            near &= _close(getattr(new, name), last[name]) | ~new.shared
        for name in RATES:
            near &= _close(getattr(new, name), last[name])
        part = np.where(new.shared, CHANGED_PART, CHANGED_CAPACITY)
        near &= _close(new.capacity, last["capacity"], part)
        near &= _close(new.least_delay_s, last["least_delay_s"], CHANGED_CAPACITY)
        return near


def _close(new: Floats, old: Floats, part: Floats | float = CHANGED_PART) -> Flags:
    return np.isclose(old, new, rtol=part, atol=0.0, equal_nan=True)
