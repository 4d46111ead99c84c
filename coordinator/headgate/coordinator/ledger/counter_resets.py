"""Counters of buckets that were made anew, or had a charge given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def restarted(grown: Floats, before: Floats, now: Floats) -> None:
    """Correct growth where a counter fell: made anew at 0, or a charge given back.

    What was given back is not counted again when it is charged anew.
    """
    made_anew = (grown < 0.0) & (now <= 0.5 * before)
    grown[:] = np.where(made_anew, now, np.maximum(grown, 0.0))
    before[made_anew] = 0.0
