"""What others had counted when a limit was removed, in case it is set again.

A counter goes on for as long as a process lives, also where its limit is removed for a
while.  Counted from 0, the first row after that would charge everything that the
process ever admitted; counted from the last row, what it admitted after that row.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from headgate.coordinator.membership.members import Member
    from headgate.coordinator.table.arrays import Floats, Ints
    from headgate.coordinator.table.index import Key

CLOSED_MAX = 1 << 16
"""Most limits remembered; the one that was removed first is forgotten first."""


class _Counters(NamedTuple):
    """K members when a limit was removed: number, life, and units admitted."""

    at_s: float
    members: Ints
    incarnations: Ints
    admitted: Floats


class ClosedLedgers:
    """The limits that were removed from the configuration, by key."""

    def __init__(self) -> None:
        self._counters: dict[Key, _Counters | None] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._counters

    def unheard(self, key: Key) -> None:
        """Remember a limit that others may have used, but not this agent."""
        self._keep(key, None)

    def close(
        self,
        key: Key,
        at_s: float,
        members: Ints,
        incarnations: Ints,
        admitted: Floats,
    ) -> None:
        """Remember a limit that this agent used, and what was admitted of it.

        Args:
            key: The limit.
            at_s: When it was removed, monotonic seconds.
            members: ``int64[K]`` numbers.
            incarnations: ``int64[K]`` their lives.
            admitted: ``float64[K]`` their counters, as far as known, units.
        """
        self._keep(key, _Counters(at_s, members, incarnations, admitted))

    def take(self, key: Key, member: Member) -> tuple[float, float]:
        """Return from where to count what a member admits, once: units, and since when.

        That is where the limit was removed, if it was, at its time on the monotonic
        clock.  Otherwise the time is 0, and the units are 0 if the member's life has
        just begun, or NaN if nobody here knows what it had counted.
        """
        unknown = (0.0 if member.newborn else nan), 0.0
        if key not in self._counters:
            return unknown
        known = self._counters[key]
        if known is None:
            return nan, 0.0
        its = (known.members == member.number) & (
            known.incarnations == member.incarnation
        )
        if not np.count_nonzero(its):
            return unknown
        counter = float(known.admitted[its][0])
        known.admitted[its] = nan
        return counter, known.at_s

    def _keep(self, key: Key, counters: _Counters | None) -> None:
        self._counters.pop(key, None)
        self._counters[key] = counters
        if len(self._counters) > CLOSED_MAX:
            del self._counters[next(iter(self._counters))]
