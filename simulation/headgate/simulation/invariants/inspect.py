"""What the checkers query from a running coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from headgate.coordinator import Explanation, LedgerView, MemberView


@runtime_checkable
class Inspectable(Protocol):
    """A controller that can explain its decisions."""

    @property
    def revision(self) -> int:
        """Of the configuration in use."""
        ...

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        """Return every input of this agent's share of one limit."""
        ...

    def table(self, group_id: int, dimension: str, now: float) -> LedgerView:
        """Return one ledger with a row for each agent."""
        ...

    def members(self, now: float) -> list[MemberView]:
        """Return all known agents, including this one."""
        ...
