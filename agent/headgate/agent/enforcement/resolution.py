"""From a subject to its limits, under one revision of the configuration.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.agent.bucket.chain import Chain, Link
from headgate.agent.decision import LimitName
from headgate.agent.follow.subject import (
    Entity,
    Key,
    Subject,
    applying_keys,
    defaulted_entity,
    level_of,
    partition_of,
)
from headgate.coordinator.config.configuration import ancestry_of, limits_in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.agent.bucket.local import LocalBucket
    from headgate.agent.enforcement.bucket_registry import Registry
    from headgate.agent.enforcement.entity_buckets import EntityBuckets
    from headgate.agent.enforcement.policy_buckets import PolicyBuckets
    from headgate.agent.enforcement.split import SplitBuckets
    from headgate.agent.enforcement.template_groups import TemplateGroups
    from headgate.agent.ports import ChainHolder
    from headgate.coordinator.config.configuration import Configuration, Group


@dataclass(frozen=True, slots=True)
class Buckets:
    """All local buckets of one process.

    Attributes:
        registry: Buckets of groups.
        entities: Buckets of single users and clients under default quotas, and of
            partitions under groups that count by partition.
        policies: Buckets of single topics under rate policies.
        splits: Parts of single topics under groups that divide their share.
    """

    registry: Registry
    entities: EntityBuckets
    policies: PolicyBuckets
    splits: SplitBuckets


@dataclass(frozen=True, slots=True)
class _Owner:
    """The owner of the node-scoped limits of a group and its ancestors.

    Attributes:
        group: The group named by an attachment.
        entity: The entity under a default quota; empty otherwise, and for values of a
            template, whose groups are theirs alone.
        partition: The partition in the subject's topic; empty if there is none.
    """

    group: Group
    entity: Entity
    partition: Entity

    def of_limits_of(self, member: Group) -> Entity:
        """Return the sole owner of a group's limits; empty if they are shared."""
        entity = self.entity if member is self.group else ()
        return entity + self.partition if member.per_partition else entity


class Resolution:
    """Which groups and buckets apply to a subject.

    Attributes:
        configuration: The configuration in force.
        groups: By id, with the limits in force; of the configuration.
    """

    def __init__(self, configuration: Configuration, templates: TemplateGroups) -> None:
        """Index a configuration.

        Args:
            configuration: Groups and attachments.
            templates: The groups of values so far; follows the configuration.
        """
        self.configuration = configuration
        self.groups = limits_in_force(configuration.groups)
        self._templates = templates
        templates.follow(self.groups)
        self._ids = {group.name: group.id for group in self.groups.values()}
        self._attachments: dict[Key, int] = {
            attachment.subject: attachment.group
            for attachment in configuration.attachments
        }
        self._unknown = sum(i not in self.groups for i in self._attachments.values())

    def all_groups(self) -> dict[int, Group]:
        """Return groups by id, those of values as well."""
        return {**self.groups, **self._templates.groups}

    def id_of(self, name: str) -> int | None:
        """Return the id of a group, or of a value's in use; None if there is none."""
        known = self._ids.get(name)
        return self._templates.id_of(name) if known is None else known

    def unknown_groups(self) -> int:
        """Return the number of attachments to groups that don't exist."""
        return self._unknown

    def attached_names(self, kind: str) -> set[str]:
        """Return the names of one kind that are attached on their own."""
        return {
            name
            for key in self._attachments
            if len(key) == 1
            for attached, name in key
            if attached == kind and name is not None
        }

    def chain(
        self,
        limiter: ChainHolder,
        dimension: str,
        held: Buckets,
        now: float,
    ) -> Chain:
        """Return the limits of one dimension that apply to a limiter's subject."""
        found: dict[int, Link] = {}
        subject = limiter.subject
        partition = partition_of(subject)
        for key, group in self._applying(subject):
            single = group.per is None and group.template is None
            entity = defaulted_entity(key, subject) if single else None
            owner = _Owner(group, entity or (), partition)
            level = level_of(key)
            for local in self._buckets(owner, dimension, held, now):
                part = held.splits.get(local, subject.topic, now)
                for each in (local,) if part is None else (local, part):
                    name = LimitName(
                        each.group.name, dimension, level, each.limit.scope
                    )
                    found.setdefault(id(each), Link(name, each, limiter.refusal))
        added = held.policies.links(subject, dimension, now, limiter.refusal)
        return Chain((*found.values(), *added))

    def slot_groups(self, subject: Subject) -> list[tuple[Group, str]]:
        """Return the groups whose slots a subject needs, with the level of each."""
        found: dict[int, tuple[Group, str]] = {}
        for key, group in self._applying(subject):
            for member in self._ancestry(group):
                if member.slots is not None:
                    found.setdefault(member.id, (member, level_of(key)))
        return list(found.values())

    def groups_of(self, subject: Subject) -> list[Group]:
        """Return the groups that apply to a subject, and their ancestors."""
        groups = {
            member.id: member
            for _, group in self._applying(subject)
            for member in self._ancestry(group)
        }
        return list(groups.values())

    def _applying(self, subject: Subject) -> list[tuple[Key, Group]]:
        cluster, attached = self.configuration.cluster, self._attachments
        found = applying_keys(subject, attached, cluster)
        return [
            (key, self._templates.governing(self.groups[attached[key]], subject))
            for key in found
            if attached[key] in self.groups
        ]

    def _buckets(
        self, owner: _Owner, dimension: str, held: Buckets, now: float
    ) -> Iterator[LocalBucket]:
        """Yield the buckets of a group and of its ancestors.

        In the coordinator a parent bounds its children's shares, so only the nearest
        cluster-scoped limit is enforced here.  Node-scoped limits are known only here,
        so all of them are enforced; under a default quota they are the entity's own,
        and in a group that counts by partition, the partition's.
        """
        bounded = False
        for member in self._ancestry(owner.group):
            if not bounded:
                local = held.registry.get(member, dimension, "cluster", now)
                if local is not None:
                    bounded = True
                    yield local
            entity = owner.of_limits_of(member)
            if entity:
                local = held.entities.get(member, dimension, entity, now)
            else:
                local = held.registry.get(member, dimension, "node", now)
            if local is not None:
                yield local

    def _ancestry(self, group: Group) -> list[Group]:
        return [group, *ancestry_of(group, self.groups)]
