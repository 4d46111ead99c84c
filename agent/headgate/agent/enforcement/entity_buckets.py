"""Limits that each user, client or partition has a copy of.

A group attached to a default of users or clients is a default quota.  Each entity has
its own copy of its node-scoped limits, just as each broker enforces Kafka's quotas on
its own.  Its cluster-scoped limits are shared by everyone to whom the default applies,
as a group's always are (docs/decisions/0012-which-groups-apply.md).  In the same
way, each partition of a topic has its own copy under a group that counts by partition.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headgate.agent.enforcement.bucket_registry import (
    end_period,
    follow_limit,
    limit_of,
    make_local,
)
from headgate.agent.enforcement.retained_buckets import RetainedBuckets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.agent.bucket.local import LocalBucket
    from headgate.agent.follow.subject import Entity
    from headgate.coordinator.config.configuration import Group

EntityKey = tuple[int, str, "Entity"]
"""Group id, dimension, entity."""


class EntityBuckets:
    """The node-scoped buckets of single entities and partitions."""

    def __init__(self) -> None:
        """Start without entities."""
        self._buckets: WeakValueDictionary[EntityKey, LocalBucket] = (
            WeakValueDictionary()
        )
        self._kept = RetainedBuckets()
        self._calendar_s = 0.0

    def __iter__(self) -> Iterator[LocalBucket]:
        """Iterate over the buckets."""
        return iter(list(self._buckets.values()))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def get(
        self, group: Group, dimension: str, entity: Entity, now: float
    ) -> LocalBucket | None:
        """Return an entity's own bucket for a group's limit on one dimension."""
        key = (group.id, dimension, entity)
        local = self._buckets.get(key)
        if local is None:
            limit = limit_of(group, dimension, "node")
            if limit is None:
                return None
            local = make_local(_named(group, entity), limit, now, seed=len(self) + 1)
            end_period(local, self._calendar_s)
            self._buckets[key] = local
        self._kept.keep(local, now)
        return local

    def follow(
        self, groups: Mapping[int, Group], now: float, calendar_s: float
    ) -> None:
        """Adopt a new configuration; buckets keep what they hold.

        Args:
            groups: By id.
            now: Seconds on the enforcer's clock.
            calendar_s: The wall clock less the enforcer's.
        """
        self._calendar_s = calendar_s
        held = self._kept.take_all()  # kept alive until the end of this method
        for key, local in list(self._buckets.items()):
            group = groups.get(key[0])
            limit = None if group is None else limit_of(group, key[1], "node")
            if group is None or limit is None:
                del self._buckets[key]
            else:
                follow_limit(local, _named(group, key[2]), limit, now)
                end_period(local, calendar_s)
                self._kept.keep(local, now)
        held.clear()

    def tick(self, now: float) -> None:
        """Drop buckets that nobody uses."""
        self._kept.let_go(now)


def _named(group: Group, entity: Entity) -> Group:
    """Return a group with the name that decisions and metrics use."""
    who = ", ".join(f"{kind} {name}" for kind, name in entity)
    return replace(group, name=f"{group.name} of {who}")
