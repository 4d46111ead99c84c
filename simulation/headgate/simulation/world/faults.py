"""The faults of a scenario as a state, updated whenever a fault begins or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.simulation.scenario.scenario import Fault, FaultKind, Scenario

DOWN: tuple[FaultKind, ...] = ("crash", "leave", "pause")
"""The kinds of fault during which an agent's arrivals are lost."""


def down_spans(scenario: Scenario, agent: int) -> list[tuple[float, float]]:
    """Return the spans [from, until) in which an agent's arrivals are lost."""
    return [
        (fault.start_s, fault.until_s)
        for fault in scenario.faults
        if fault.kind in DOWN and agent in fault.agents
    ]


def fault_edges(scenario: Scenario) -> tuple[float, ...]:
    """Return the times in (0, seconds) when a fault begins or ends."""
    edges = {t for fault in scenario.faults for t in (fault.start_s, fault.until_s)}
    return tuple(sorted(t for t in edges if 0 < t < scenario.seconds))


class FaultState:
    """The faults that are active now, spread over the agents.

    Attributes:
        down: Agents whose process is not running.
        paused_until: When a paused process resumes, by agent.
        cut: Agents whose reports are dropped at the source.
        sides: One side of each partition.
        loss: Probability by sender, beyond the network's own.
        duplicate: The same.
        reorder: The same.
        corrupt: The same.
        delay_s: Added to the reports of a sender.
        clock_jump_s: Added to an agent's wall clock.
        multiplier: Factor on the demand that a lying agent reports.
    """

    def __init__(self, scenario: Scenario) -> None:
        """Start without an active fault."""
        self._faults = scenario.faults
        self._agents = scenario.agents
        self.update(-1.0)

    def update(self, now: float) -> None:
        """Set the state to the faults whose span [from, until) contains `now`."""
        self.down: set[int] = set()
        self.paused_until: dict[int, float] = {}
        self.cut: set[int] = set()
        self.sides: list[frozenset[int]] = []
        self.loss: dict[int, float] = {}
        self.duplicate: dict[int, float] = {}
        self.reorder: dict[int, float] = {}
        self.corrupt: dict[int, float] = {}
        self.delay_s: dict[int, float] = {}
        self.clock_jump_s: dict[int, float] = {}
        self.multiplier: dict[int, float] = {}
        for fault in self._faults:
            if fault.start_s <= now < fault.until_s:
                self._apply(fault)

    def heal(self) -> None:
        """End every fault; stopped processes stay stopped."""
        down = self.down
        self.update(-1.0)
        self.down = down

    def hears(self, sender: int, receiver: int) -> bool:
        """Return whether a report that is sent now can reach a receiver."""
        if sender in self.cut:
            return False
        for side in self.sides:
            inside = sender in side
            if inside != (receiver in side):
                return False
            if sender == receiver:
                size = len(side) if inside else self._agents - len(side)
                if size == 1:
                    return False
        return True

    def _apply(self, fault: Fault) -> None:
        if fault.kind in ("crash", "leave"):
            self.down.update(fault.agents)
        elif fault.kind == "cut":
            self.cut.update(fault.agents)
        elif fault.kind == "partition":
            self.sides.append(frozenset(fault.agents))
        elif fault.kind == "pause":
            for agent in fault.agents:
                until = max(self.paused_until.get(agent, 0.0), fault.until_s)
                self.paused_until[agent] = until
        elif fault.kind != "duplicate-id":  # that is a matter of the process
            self._add_amount(fault)

    def _add_amount(self, fault: Fault) -> None:
        chances = {
            "loss": self.loss,
            "duplicate": self.duplicate,
            "reorder": self.reorder,
            "corrupt": self.corrupt,
        }
        for agent in fault.agents:
            if fault.kind in chances:
                chance = chances[fault.kind]
                # Independent causes: a report must escape each of them.
                chance[agent] = 1 - (1 - chance.get(agent, 0.0)) * (1 - fault.amount)
            elif fault.kind == "delay":
                self.delay_s[agent] = self.delay_s.get(agent, 0.0) + fault.amount
            elif fault.kind == "clock-jump":
                jump = self.clock_jump_s.get(agent, 0.0)
                self.clock_jump_s[agent] = jump + fault.amount
            else:
                self.multiplier[agent] = fault.amount
