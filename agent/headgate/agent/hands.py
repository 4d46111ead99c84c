"""What a runtime needs of the process that it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.agent.follow.policies import Policies
    from headgate.coordinator import Configuration, Counted, SetCeilings


class Hands(Protocol):
    """What enforces in this process: an `Enforcer`, or nothing for an observer."""

    def configure(
        self, configuration: Configuration, now: float, policies: Policies
    ) -> None:
        """Follow a new configuration, with its rate policies."""

    def counts(self, now: float) -> Counted:
        """Return what was counted so far."""
        ...

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Let buckets refill at these rates."""
