"""Attempts that no limit counts, usually a typo: noticed, logged once, counted.

A misspelt tenant or dimension would otherwise silently mean "no limit".  An agent
whose `strict` is set raises instead.

The dimensions that the policies of topics count (`RULES`) are spelt right by
definition, and integrations charge messages and bytes whether or not both are limited:
they are never taken for a typo, though a subject that no group knows still is.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.errors import NoLimitApplies
from headgate.agent.follow.policies import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.agent.enforcement.resolution import Resolution
    from headgate.agent.follow.policies import Policies
    from headgate.agent.follow.subject import Subject

MOST_NOTICED = 1_000
"""Different subjects and dimensions that are remembered, so that each is logged once; a
process with more of them leaves subjects unlimited on purpose."""

MOST_SAID = 20
"""Sentences that are logged at once, and in all; beyond that, see the counters."""

BY_KEY = "limits:"
"""What the names of users and clients of limits by key begin with.  Until such a limit
is in force here, its process enforces it by other means
(`headgate.agent.integrations.web.key_groups`)."""

OF_POLICIES = {
    name for rule in RULES.values() for name in (rule.messages, rule.bytes) if name
}
"""Dimensions that are never taken for a typo, even without a limit."""

NO_COST = (
    "an attempt without any cost is not limited; expected a cost by dimension, such as"
    " try_acquire(requests=1)"
)


class UnlimitedUses:
    """What callers asked for that no limit counts.

    Attributes:
        strict: Raise rather than note.
        subjects: Different subjects that no group knows.
        dimensions: Subjects with a dimension that none of their limits counts.
        without_cost: Attempts that named no cost.
    """

    def __init__(self, *, strict: bool) -> None:
        """Begin with nothing noticed."""
        self.strict = strict
        self.subjects = self.dimensions = self.without_cost = 0
        self._noticed: set[tuple[str, str]] = set()
        self._unsaid: list[str] = []
        self._left = MOST_SAID

    def note(
        self,
        subject: Subject,
        dimension: str,
        known: Resolution,
        policies: Policies,
    ) -> None:
        """Note an empty chain.

        Args:
            subject: Who asked.
            dimension: What no limit counts.
            known: The configuration in force.
            policies: Of topics.

        Raises:
            NoLimitApplies: If `strict`.
        """
        groups = known.groups_of(subject)
        if groups and dimension not in OF_POLICIES:
            counted = {limit.dimension for group in groups for limit in group.limits}
            names = ", ".join(repr(group.name) for group in groups[:3])
            sentence = (
                f"no limit of {subject} (group {names}) counts {dimension!r}"
                f"{_suggestion(dimension, counted)}; such attempts are not limited"
            )
            self.dimensions += self._is_new(str(subject), dimension, sentence)
        elif not (
            groups
            or policies.apply_to(subject.topic)
            or (subject.client or "").startswith(BY_KEY)
        ):
            sentence = (
                f"no group is attached to {subject}{_suggested_name(subject, known)};"
                " its attempts are not limited"
            )
            self.subjects += self._is_new(str(subject), "", sentence)

    def note_no_cost(self) -> None:
        """Note an attempt that named no cost; raises as `note` does."""
        self.without_cost += 1
        self._is_new("", "", NO_COST)

    def take_unsaid(self) -> list[str]:
        """Return the sentences to log, each once."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    def _is_new(self, subject: str, dimension: str, sentence: str) -> bool:
        # Callers choose names, and a name may hold a line break.
        sentence = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in sentence)
        if self.strict:
            raise NoLimitApplies(sentence)
        if (subject, dimension) in self._noticed or len(self._noticed) >= MOST_NOTICED:
            return False
        self._noticed.add((subject, dimension))
        if self._left > 0:
            self._left -= 1
            self._unsaid.append(sentence)
        return True


def _suggested_name(subject: Subject, known: Resolution) -> str:
    """Return the attached name that is most like one of the subject's."""
    for kind in ("topic", "namespace", "tenant", "subscription", "user", "client"):
        name: str | None = getattr(subject, kind)
        if name is not None:
            suggestion = _suggestion(name, known.attached_names(kind))
            if suggestion:
                return suggestion
    return ""


def _suggestion(name: str, among: Iterable[str]) -> str:
    from difflib import get_close_matches  # late: only a typo needs it

    similar = get_close_matches(name, among, n=1)
    return f" (did you mean {similar[0]!r}?)" if similar else ""
