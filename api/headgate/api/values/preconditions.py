"""Optimistic concurrency: change a thing only if it is still as it was read."""

from dataclasses import dataclass

from headgate.api.values.errors import Outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """The caller's assumption about the object it is about to change.

    Attributes:
        revisions: It was last changed by one of these; None for any.
        exists: It exists (True), does not (False), or may do either (None).
    """

    revisions: frozenset[int] | None = None
    exists: bool | None = None

    def check(self, revision: int | None) -> None:
        """Compare with `revision` of the thing, None when it does not exist.

        Raises:
            Outdated: The caller's belief is wrong.
        """
        if self.exists is False and revision is not None:
            raise Outdated("expected it not to exist yet")
        if self.exists is True and revision is None:
            raise Outdated("expected it to exist")
        if self.revisions is not None and revision not in self.revisions:
            now = "gone" if revision is None else f"at revision {revision}"
            raise Outdated(f"it was changed by someone else and is now {now}")


ANYTHING = Precondition()
"""The caller does not care what was there."""
