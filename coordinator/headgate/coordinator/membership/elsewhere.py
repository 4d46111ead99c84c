"""When other agents were last heard to use the groups that this agent does not use.

Their rows are left out of what the coordinator hears, but not that they are there: what
was stored is void then:
docs/decisions/0075-a-stored-level-is-void-once-others-are-heard.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.coordinator.table.arrays import Ints

GROUPS_MAX = 1 << 20
"""Ids from here on are not remembered (values of templates have such): 8 MB at most."""


class Elsewhere:
    """The last time at which each group was heard of, by id.

    Args:
        keyframe_s: Seconds after which every row is reported, changed or not.
    """

    def __init__(self, keyframe_s: float) -> None:
        self._keyframe_s = keyframe_s
        self._heard_at = np.full(0, -np.inf)

    def heard(self, group_ids: Ints, now: float) -> None:
        """Note that another agent reports rows of these groups."""
        ids = group_ids[group_ids < GROUPS_MAX]
        if not len(ids):
            return
        most = int(ids[-1])
        if most >= len(self._heard_at):
            size = min(max(most + 1, 2 * len(self._heard_at)), GROUPS_MAX)
            longer = np.full(size, -np.inf)
            longer[: len(self._heard_at)] = self._heard_at
            self._heard_at = longer
        self._heard_at[ids] = now

    def forget(self, group_ids: Iterable[int]) -> None:
        """Forget groups whose limits are gone: if they are set again, they are new."""
        for group_id in group_ids:
            if group_id < len(self._heard_at):
                self._heard_at[group_id] = -np.inf

    def since(self, group_id: int, now: float) -> float:
        """Return the seconds since then; infinite if no other agent was heard to."""
        heard_at = self._heard_at  # replaced as a whole: other threads read it, too
        if group_id >= len(heard_at):
            return float(np.inf)
        return now - float(heard_at[group_id])

    def unused_s(self, group_id: int, now: float) -> float:
        """Return for how long no other agent can have used a group, seconds.

        One that uses it steadily is silent about it until its next keyframe.
        """
        return max(self.since(group_id, now) - self._keyframe_s, 0.0)
