"""The groups of single values that this process has derived from template groups.

Made when a limiter's subject first names a value, and forgotten when no bucket of the
group is left: see `Registry.drop_idle`.  No call and no new configuration are needed
for either.  Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.follow.subject import partitioned_topic
from headgate.coordinator.config.template_values import value_group

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headgate.agent.follow.subject import Subject
    from headgate.coordinator.config.configuration import Group

MOST_VALUES = 30_000
"""Values of one template in one process: about 5 kB each, and a row in every keyframe
that they are used in.  Later ones share the template's own bucket."""

MOST_OF_ALL = 60_000
"""Values of all templates in one process: more rows make too large a report."""


class TemplateGroups:
    """Derives the groups of values, and remembers them.

    Attributes:
        groups: By id.
        refused: How often a value was turned away: beyond the bound, or because another
            one has the same id.
    """

    def __init__(self) -> None:
        """Begin without values."""
        self.groups: dict[int, Group] = {}
        self.refused = 0
        self._by_value: dict[int, dict[str, Group]] = {}
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.groups)

    def governing(self, group: Group, subject: Subject) -> Group:
        """Return the group that governs a subject to which `group` applies.

        A template's own bucket governs all that have none of their own: subjects that
        name no value, and values beyond the bound.
        """
        if group.per is None:
            return group
        value = getattr(subject, group.per)
        if value is None:
            return group
        if group.per == "topic":
            value = partitioned_topic(value)
        values = self._by_value.setdefault(group.id, {})
        known = values.get(value)
        if known is not None:
            return known
        made = value_group(group, value)
        full = len(values) >= MOST_VALUES or len(self.groups) >= MOST_OF_ALL
        if full or made.id in self.groups:
            self.refused += 1
            return group
        values[value] = self.groups[made.id] = made
        self._ids[made.name] = made.id
        return made

    def id_of(self, name: str) -> int | None:
        """Return the id of a value's group; None if it is not known here."""
        return self._ids.get(name)

    def follow(self, groups: Mapping[int, Group]) -> None:
        """Derive all groups again from a new configuration's templates.

        Args:
            groups: Of the configuration, by id.
        """
        before, self._by_value, self.groups = self._by_value, {}, {}
        for template_id, values in before.items():
            template = groups.get(template_id)
            if template is not None and template.per is not None:
                derived = {value: value_group(template, value) for value in values}
                self._by_value[template_id] = derived
                self.groups.update((one.id, one) for one in derived.values())
        self._ids = {group.name: group.id for group in self.groups.values()}

    def keep(self, used: Collection[int]) -> None:
        """Forget all groups but those with these ids."""
        for template_id, values in list(self._by_value.items()):
            kept = {v: group for v, group in values.items() if group.id in used}
            if not kept:
                del self._by_value[template_id]
            elif len(kept) < len(values):
                self._by_value[template_id] = kept
        self.groups = {i: group for i, group in self.groups.items() if i in used}
        self._ids = {group.name: group.id for group in self.groups.values()}
