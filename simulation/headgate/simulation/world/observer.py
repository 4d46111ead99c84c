"""What a simulation tells whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.coordinator import Report
    from headgate.simulation.world.node import Node


class RunObserver(Protocol):
    """Watches a simulation while it runs."""

    def born(self, node: Node) -> None:
        """A process has started."""
        ...

    def delivered(self, now: float, receiver: int, report: Report) -> None:
        """An intact report has reached a process that is up."""
        ...

    def garbled(self, now: float, report: Report) -> None:
        """Flipped bytes have come out of the codec as a report all the same."""
        ...

    def probe(self, now: float, nodes: dict[int, Node]) -> None:
        """A second has passed; `nodes` are those that are up."""
        ...
