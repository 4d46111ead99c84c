"""Counters of buckets that were recreated, or had a charge given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.coordinator.table.one_or_many import chosen, greater

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.coordinator.table.arrays import Index

    Floats = NDArray[np.float64]


def restarted(grown: Floats, counted: Floats, at: Index, now: Floats) -> Floats:
    """Return how much counters grew, some of which may have fallen; never below 0.

    Either the bucket was recreated at 0, or a charge was given back.  A charge that was
    given back is not counted again when it is charged the next time.

    Args:
        grown: ``float64[K]`` growth, or a number if K is 1.
        counted: ``float64[N]`` the counters before; those that fell to 0 are changed.
        at: Where the K counters stand.
        now: ``float64[K]`` the counters.
    """
    made_anew = (grown < 0.0) & (now[at] <= 0.5 * counted[at])
    counted[at] = chosen(made_anew, 0.0, counted[at])
    return chosen(made_anew, now[at], greater(grown, 0.0))
