"""What an agent may do with a bucket that it shares with other agents."""

from __future__ import annotations

from typing import NamedTuple


class SharedTerms(NamedTuple):
    """One bucket's row of `Ceilings`, as of the moment at which it was computed.

    A tuple, because ten thousand of them may come at once; code that reads all fields
    unpacks it, in this order.

    Attributes:
        ceiling: Units/s for people.
        level: E, units; NaN: go on with the level that the bucket has.
        rate: Units/s by which the level grows: Q less what others spend.
        capacity: B, units.
        room: a - V, units; NaN: go on with the room that the bucket has.
        window: a, units.
        expected_rate: Units/s by which the room grows.
        room_cap: Most that the room may become, units.
        cautious: A request must fit into the window, or be the first.
        quota: Q, units/s.
        least_delay_s: Shortest delay that a refused caller is given.
        reserve: Units/s after the deadline.
    """

    ceiling: float
    level: float
    rate: float
    capacity: float
    room: float
    window: float
    expected_rate: float
    room_cap: float
    cautious: bool
    quota: float
    least_delay_s: float
    reserve: float
