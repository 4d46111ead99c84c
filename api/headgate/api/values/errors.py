"""The service's own errors, independent of HTTP status codes.

::

    Refused
    ├── Invalid        the request makes no sense: the caller's fault
    ├── NotFound       it names something that does not exist: the caller's fault
    ├── Conflict
    │   ├── AlreadyExists
    │   └── InUse      something else still depends on it
    ├── Forbidden      the caller is known but may not do this
    ├── Outdated       someone else changed it since the caller read it: read again
    └── Busy           a bound of this process is reached: come back later
"""

from collections.abc import Sequence


class Refused(Exception):
    """Base of all refusals.

    Attributes:
        reason: One sentence for a person, without a full stop.
        problems: Pairs of (field, reason), empty when it is no field's fault.
    """

    def __init__(
        self, reason: str, problems: Sequence[tuple[str, str]] = (), /
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.problems = tuple(problems)


class Invalid(Refused):
    """A field's value can't be accepted."""

    def __init__(self, field: str, reason: str, /) -> None:
        super().__init__(f"{field}: {reason}", [(field, reason)])

    def inside(self, what: str) -> "Invalid":
        """Return the same of a thing that is itself a field, such as ``groups.gold``.

        Args:
            what: That field.
        """
        ((field, reason),) = self.problems
        return Invalid(f"{what}.{field}", reason)


class NotFound(Refused):
    """A thing that the request names does not exist."""

    def __init__(self, thing: str, name: str | None, /) -> None:
        called = "" if name is None else f" {name!r}"
        super().__init__(f"{thing}{called} does not exist")
        self.thing = thing


class Conflict(Refused):
    """The request does not fit the present state."""


class AlreadyExists(Conflict):
    """A thing of that name exists already."""

    def __init__(self, thing: str, name: str, /) -> None:
        super().__init__(f"{thing} {name!r} already exists")
        self.thing = thing


class InUse(Conflict):
    """A thing can't be deleted while others depend on it."""

    def __init__(self, thing: str, dependants: str, /) -> None:
        super().__init__(f"{thing} is in use by {dependants}")
        self.thing = thing


class Forbidden(Refused):
    """The caller has no right to this."""


class Outdated(Refused):
    """The thing has changed since the caller read it (optimistic concurrency)."""


class Busy(Refused):
    """A bound of this process is reached.

    Attributes:
        retry_after_s: When it makes sense to come back, seconds.
    """

    retry_after_s = 1.0
