"""The callbacks through which a simulation can be observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.coordinator import Report
    from headgate.simulation.world.node import Node
    from headgate.simulation.world.record import SimulationRun


class RunObserver(Protocol):
    """Is called while a simulation runs."""

    def born(self, node: Node) -> None:
        """A process has started."""
        ...

    def delivered(self, now: float, receiver: int, report: Report) -> None:
        """An intact report has reached a running process."""
        ...

    def garbled(self, now: float, report: Report) -> None:
        """A report with flipped bytes was decoded without an error."""
        ...

    def probe(self, now: float, nodes: dict[int, Node]) -> None:
        """A second has passed; `nodes` are the running processes."""
        ...

    def settled(self, run: SimulationRun, nodes: dict[int, Node], now: float) -> bool:
        """Nothing was requested for a while; return whether all know all by now."""
        ...
