"""From a subject to its limits, under one revision of the configuration.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.chain import Chain, Link
from headgate.agent.decision import LimitName
from headgate.agent.subject import Key, Subject, applying_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.agent.limiter import Limiter
    from headgate.agent.policy_buckets import PolicyBuckets
    from headgate.agent.registry import LocalBucket, Registry
    from headgate.coordinator.configuration import Configuration, Group


class Resolution:
    """Which groups and buckets apply to a subject.

    Attributes:
        configuration: What is resolved by.
        groups: By id.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Index a configuration."""
        self.configuration = configuration
        self.groups: dict[int, Group] = {g.id: g for g in configuration.groups}
        self._attachments: dict[Key, int] = {
            attachment.subject: attachment.group
            for attachment in configuration.attachments
        }

    def unknown_groups(self) -> int:
        """Return how many attachments name a group that there is not."""
        return sum(i not in self.groups for i in self._attachments.values())

    def chain(
        self,
        limiter: Limiter,
        dimension: str,
        registry: Registry,
        policies: PolicyBuckets,
        now: float,
    ) -> Chain:
        """Return the limits of one dimension that apply to a limiter's subject."""
        found: dict[int, Link] = {}
        for level, group in self._applying(limiter.subject):
            for local in self._buckets(group, dimension, registry, now):
                name = LimitName(local.group.name, dimension, level, local.limit.scope)
                found.setdefault(id(local), Link(name, local, limiter.refusal))
        added = policies.links(limiter.subject, dimension, now, limiter.refusal)
        return Chain((*found.values(), *added))

    def groups_of(self, subject: Subject) -> list[Group]:
        """Return the groups that apply to a subject, and their ancestors."""
        groups = {
            member.id: member
            for _, group in self._applying(subject)
            for member in self._ancestry(group)
        }
        return list(groups.values())

    def _applying(self, subject: Subject) -> list[tuple[str, Group]]:
        found = applying_groups(subject, self._attachments, self.configuration.cluster)
        return [(level, self.groups[i]) for level, i in found if i in self.groups]

    def _buckets(
        self, group: Group, dimension: str, registry: Registry, now: float
    ) -> Iterator[LocalBucket]:
        """Yield the buckets of a group and of its ancestors.

        A parent bounds its children's shares in the coordinator, so of the
        cluster-scoped limits only the nearest is enforced here; node-scoped ones
        are known to nobody else, so all are.
        """
        bounded = False
        for member in self._ancestry(group):
            if not bounded:
                local = registry.get(member, dimension, "cluster", now)
                if local is not None:
                    bounded = True
                    yield local
            local = registry.get(member, dimension, "node", now)
            if local is not None:
                yield local

    def _ancestry(self, group: Group) -> list[Group]:
        found = {group.id: group}
        while group.parent is not None and group.parent not in found:
            parent = self.groups.get(group.parent)
            if parent is None:
                break
            group = parent
            found[group.id] = group
        return list(found.values())
