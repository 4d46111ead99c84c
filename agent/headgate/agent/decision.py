"""The answer to an attempt: admitted, not yet, or never, and which limit decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Scope


@dataclass(frozen=True, slots=True)
class LimitName:
    """Names a limit of a group.

    Attributes:
        group: Name of the group.
        dimension: What is counted.
        level: The level at which the group is attached: ``cluster``, ``tenant``,
            ``namespace``, ``topic``, ``subscription``, ``user``, ``client``, or
            ``user+client``; for a policy, the level at which it was set:
            ``broker``, ``namespace``, ``topic``.
        scope: ``cluster`` or ``node``.
    """

    group: str
    dimension: str
    level: str
    scope: Scope = "cluster"

    def __str__(self) -> str:
        """Return a phrase for messages."""
        return f"{self.dimension} of group {self.group!r} ({self.level}, {self.scope})"


@dataclass(slots=True)
class Decision:
    """An attempt was admitted (truthy) or refused (falsy, see `Refusal`).

    Treat it as immutable.  It is not frozen because a frozen dataclass takes a
    microsecond to make, as long as five attempts.

    Attributes:
        delay_s: If refused, seconds until a retry makes sense.  If admitted in mode
            ``delay``, seconds for which to mute the caller.
        never: No retry will help: the cost is above the burst and the group may
            not owe, or the limit is 0.
        limit: The limit with the longest delay, or the one that warns.
        warning: The group's use is above its soft threshold.
        shadow: Admitted only because the group's refusal is ``shadow``.
        reason: Why a waiting caller was refused: ``deadline`` or ``queue full``; for
            slots in flight also ``agent closed``.
    """

    delay_s: float = 0.0
    never: bool = False
    limit: LimitName | None = None
    warning: bool = False
    shadow: bool = False
    reason: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the attempt was admitted; the same as the truth value."""
        return True

    @property
    def throttle_time_ms(self) -> int:
        """`delay_s` in whole milliseconds, rounded up (KIP-599's field)."""
        return _milliseconds(self.delay_s)

    def __str__(self) -> str:
        """Return a phrase for messages."""
        if self.shadow:
            return f"admitted in shadow mode, would be refused by {self.limit}"
        if self.delay_s > 0.0:
            return f"admitted, muted for {self.delay_s:.3f} s by {self.limit}"
        return f"admitted, near {self.limit}" if self.warning else "admitted"


@dataclass(slots=True)
class Refusal(Decision):
    """An attempt was refused; falsy.

    The truth of an admitted `Decision` is Python's default: no call, no cost.
    """

    @property
    def admitted(self) -> bool:
        """Whether the attempt was admitted; the same as the truth value."""
        return False

    def __bool__(self) -> bool:
        """Return False."""
        return False

    def __str__(self) -> str:
        """Return a phrase for messages."""
        by = f"refused by {self.limit}" if self.limit else "refused"
        by += f" ({self.reason})" if self.reason else ""
        return (
            f"{by}, can never be admitted"
            if self.never
            else f"{by}, retry in {self.delay_s:.3f} s"
        )


@dataclass(frozen=True, slots=True)
class Partial:
    """How much of a batch was admitted (KIP-599).

    Attributes:
        admitted: Units admitted, in whole items.
        refused: Units refused, with `decision`.
        decision: Admitted if the whole batch was, otherwise the refusal of the rest.
    """

    admitted: float
    refused: float
    decision: Decision

    def __bool__(self) -> bool:
        """Return whether anything was admitted."""
        return self.admitted > 0.0


ADMITTED = Decision()
"""The usual answer; one object shared by all."""

LONGEST_MS = 2**31 - 1
"""KIP-599's throttle_time_ms is an int32."""


def _milliseconds(delay_s: float) -> int:
    if delay_s * 1e3 >= LONGEST_MS:
        return LONGEST_MS
    # A delay of 12 s must not become 12,001 ms because of the last bit of a float.
    return -int(-(delay_s * 1e3 - 1e-6) // 1) if delay_s > 0.0 else 0
