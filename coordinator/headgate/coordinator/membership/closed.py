"""What others had counted when a limit was removed, in case it is set again.

A counter goes on for as long as a process lives, also where its limit is removed for a
while.  Counted from 0, the first row after that would charge everything that the
process ever admitted.
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
    """The last rows heard of K members: number, life, and units admitted."""

    members: Ints
    incarnations: Ints
    admitted: Floats


class ClosedLedgers:
    """The limits that were removed from the configuration, by key."""

    def __init__(self) -> None:
        self._counters: dict[Key, _Counters | None] = {}

    def unheard(self, key: Key) -> None:
        """Remember a limit that others may have used, but not this agent."""
        self._keep(key, None)

    def close(
        self, key: Key, members: Ints, incarnations: Ints, admitted: Floats
    ) -> None:
        """Remember a limit that this agent used, and what it heard.

        Args:
            key: The limit.
            members: ``int64[K]`` numbers.
            incarnations: ``int64[K]`` their lives.
            admitted: ``float64[K]`` their counters, units.
        """
        self._keep(key, _Counters(members, incarnations, admitted))

    def counter(self, key: Key, member: Member) -> float:
        """Return from where to count what a member admits, units.

        That is its last counter if the limit was removed and set again, and otherwise 0
        if its life has just begun.  NaN if nobody here knows what it had counted.
        """
        unknown = 0.0 if member.newborn else nan
        if key not in self._counters:
            return unknown
        known = self._counters[key]
        if known is None:
            return nan
        its = (known.members == member.number) & (
            known.incarnations == member.incarnation
        )
        return float(known.admitted[its][0]) if np.count_nonzero(its) else unknown

    def _keep(self, key: Key, counters: _Counters | None) -> None:
        self._counters.pop(key, None)
        self._counters[key] = counters
        if len(self._counters) > CLOSED_MAX:
            del self._counters[next(iter(self._counters))]
