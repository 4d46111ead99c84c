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

REMOVED_MAX = 1 << 16
"""Most limits remembered; the one that was removed first is forgotten first."""


class MemberCounters(NamedTuple):
    """What was admitted of one limit.

    Attributes:
        members: ``int64[K]`` numbers.
        incarnations: ``int64[K]`` their lives.
        admitted: ``float64[K]`` their counters, as far as known, units.
    """

    members: Ints
    incarnations: Ints
    admitted: Floats


class RemovedLimits:
    """The limits that were removed from the configuration, by key."""

    def __init__(self) -> None:
        self._counters: dict[Key, MemberCounters | None] = {}

    def keep(self, key: Key, counters: MemberCounters | None) -> None:
        """Remember a limit; None if only others may have used it."""
        self._counters.pop(key, None)
        self._counters[key] = counters
        if len(self._counters) > REMOVED_MAX:
            del self._counters[next(iter(self._counters))]

    def counter(self, key: Key, member: Member) -> float:
        """Return a member's counter when the limit was removed, units.

        It is told only once.  NaN if nobody here knows it.
        """
        known = self._counters.get(key)
        if known is None:
            return nan
        its = (known.members == member.number) & (
            known.incarnations == member.incarnation
        )
        if not np.count_nonzero(its):
            return nan
        counter = float(known.admitted[its][0])
        known.admitted[its] = nan  # should it leave and return, nobody knows more
        return counter
