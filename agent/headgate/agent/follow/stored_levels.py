"""Levels that the API stored before the whole cluster was stopped.

They come beside the first snapshot, and stand in for the answers to a hello when
nobody is left to give one (quotas per hour or month).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.json_place import JsonPlace
from headgate.coordinator import Restored

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LEVELS = 100_000
"""Levels taken from one answer: PIP-82's number of groups."""


def levels_of(document: object) -> list[Restored]:
    """Return what the member ``levels`` of an answer says, if there is one.

    Raises:
        MalformedSnapshot: It is not what it should be.
    """
    top = JsonPlace.top(document)
    if top.optional("levels") is None:
        return []
    return restored(
        (
            place["group"].integer(least=1),
            place["dimension"].text(),
            place["level"].number(),
            place["age_s"].number(),
        )
        for place in top.items("levels")[:MAX_LEVELS]
    )


def restored(levels: Iterable[tuple[int, str, float, float]]) -> list[Restored]:
    """Return events for pairs of (group id, dimension, level, age in seconds)."""
    by_age: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for group, dimension, level, age_s in levels:
        by_age.setdefault((dimension, age_s), []).append((group, level))
    return [
        Restored(
            dimension=dimension,
            group_ids=np.array([group for group, _ in pairs], dtype=np.int64),
            level=np.array([level for _, level in pairs], dtype=np.float64),
            age_s=age_s,
        )
        for (dimension, age_s), pairs in by_age.items()
    ]
