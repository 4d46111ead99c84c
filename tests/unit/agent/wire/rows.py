"""Rows that the tests of the codec send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.messages.report import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def floats(*values: float) -> NDArray[np.float64]:
    return np.array(values, np.float64)


def ids(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


ROW = Rows(
    dimension="requests",
    group_ids=ids(4, 9),
    refused=floats(1, 2),
    admitted=floats(10, 20),
    demand=floats(5, 6),
    held=floats(3, -4),
    cost=np.ones(len(ids(4, 9))),
)
