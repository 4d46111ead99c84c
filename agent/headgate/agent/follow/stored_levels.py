"""Levels that the API stored before the whole cluster stopped.

They come with the first snapshot, and replace the answers to a hello when no agent is
left to give one, which matters for quotas per hour or month.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.json_place import JsonPlace
from headgate.coordinator import Restored
from headgate.coordinator.messages.report import AgentLife

if TYPE_CHECKING:
    from collections.abc import Iterable

Others = Mapping[AgentLife, float]
"""Units that other lives have admitted."""

MAX_LEVELS = 100_000
"""Most levels taken from one answer: PIP-82's number of groups."""


def levels_of(document: object) -> list[Restored]:
    """Return the levels in the member ``levels`` of an answer, if there is one.

    Raises:
        MalformedSnapshot: The member is malformed.
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
            nan if (told := place.optional("counted")) is None else told.number(),
            _others(place),
        )
        for place in top.items("levels")[:MAX_LEVELS]
    )


def _others(place: JsonPlace) -> Others | None:
    """Return the counters of other lives that a level includes."""
    if place.optional("others") is None:
        return None
    return {
        AgentLife(each["agent"].text(), each["incarnation"].integer(least=0)): each[
            "counted"
        ].number()
        for each in place.items("others")
    }


def restored(
    levels: Iterable[tuple[int, str, float, float, float, Others | None]],
) -> list[Restored]:
    """Return events for some levels.

    Args:
        levels: (group id, dimension, level, age in seconds, what of this agent's own
            counter it includes, NaN if that is not known, and of others', None if it is
            not known) of each.
    """
    by_age: dict[tuple[str, float], list[tuple[int, float, float, Others | None]]] = {}
    for group, dimension, level, age_s, counted, others in levels:
        told = by_age.setdefault((dimension, age_s), [])
        told.append((group, level, counted, others))
    return [
        Restored(
            dimension=dimension,
            group_ids=np.array([group for group, *_ in told], dtype=np.int64),
            level=np.array([level for _, level, *_ in told], dtype=np.float64),
            age_s=age_s,
            counted=np.array([counted for *_, counted, _ in told], dtype=np.float64),
            others=[others for *_, others in told],
        )
        for (dimension, age_s), told in by_age.items()
    ]
