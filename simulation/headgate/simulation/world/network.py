"""The bus: delays, loses, duplicates, reorders and corrupts reports.

A broker delivers each report to all agents, including its sender (the own echo).
Reports from one sender reach a receiver in order unless they are reordered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.faults import FaultState

MOST_FLIPPED = 4
"""Most bytes flipped in a corrupted report: few enough for it to still be decoded."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A report that will reach a receiver.

    Attributes:
        at_s: Time of arrival.
        receiver: Index of the receiving agent.
        corrupted: Its bytes if they differ from what was sent, else None.
    """

    at_s: float
    receiver: int
    corrupted: bytes | None


class SimulatedBus:
    """Decides what happens to each report.  One random stream per sender."""

    def __init__(self, scenario: Scenario, seed: int, faults: FaultState) -> None:
        """Create a bus without reports in transit."""
        self._network = scenario.network
        self._faults = faults
        self._agents = scenario.agents
        self._late_s = 2 * scenario.interval_s
        self._random = [Random(f"{seed}/bus/{i}") for i in range(scenario.agents)]
        self._last = [[0.0] * scenario.agents for _ in range(scenario.agents)]

    def send(self, now: float, sender: int, payload: bytes) -> list[Delivery]:
        """Return the deliveries of a report, own echo included."""
        network, faults = self._network, self._faults
        random = self._random[sender]
        chance = random.random
        loss = _either(network.loss, faults.loss.get(sender, 0.0))
        duplicate = _either(network.duplicate, faults.duplicate.get(sender, 0.0))
        reorder = _either(network.reorder, faults.reorder.get(sender, 0.0))
        corrupt = faults.corrupt.get(sender, 0.0)
        base_s = now + network.delay_s + faults.delay_s.get(sender, 0.0)
        apart = bool(faults.sides or faults.cut)
        last = self._last[sender]
        deliveries: list[Delivery] = []
        for receiver in range(self._agents):
            if apart and not faults.hears(sender, receiver):
                continue
            copies = 2 if duplicate and chance() < duplicate else 1
            for _ in range(copies):
                if loss and chance() < loss:
                    continue
                at_s = base_s + network.jitter_s * chance()
                if reorder and chance() < reorder:
                    at_s += self._late_s * chance()
                else:
                    at_s = last[receiver] = max(at_s, last[receiver])
                flipped = None
                if corrupt and chance() < corrupt:
                    flipped = _flip(payload, random)
                deliveries.append(Delivery(at_s, receiver, flipped))
        return deliveries

    def heal(self) -> None:
        """Stop losing, duplicating and reordering."""
        self._network = replace(self._network, loss=0.0, duplicate=0.0, reorder=0.0)

    def restart(self, agent: int) -> None:
        """Forget the delivery order of a process that has ended."""
        self._last[agent] = [0.0] * self._agents


def _either(first: float, second: float) -> float:
    """Return the probability that at least one of two independent things happens."""
    return first + second - first * second


def _flip(payload: bytes, random: Random) -> bytes:
    flipped = bytearray(payload)
    for _ in range(random.randint(1, MOST_FLIPPED)):
        if flipped:
            flipped[random.randrange(len(flipped))] ^= random.randint(1, 255)
    return bytes(flipped)
