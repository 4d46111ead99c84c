"""A life of an agent that ends as soon as it began still tells what was admitted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.agent.making import Clock, configuration, make

from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.runtime import OPENING_S, Runtime, RuntimeOptions
from headgate.coordinator import Group, Limit

if TYPE_CHECKING:
    from headgate.coordinator import Report

GOLD = Group(
    id=1, name="gold", limits=(Limit(dimension="requests", rate=10.0, burst=10.0),)
)


class Opening:
    """A bus that holds back what is published until it has been open for a while."""

    def __init__(self, clock: Clock, opens_s: float) -> None:
        self.bus = self
        self.counters = Counter[str]()
        self.sent: list[Report] = []
        self.closed_s = 0.0
        self._held_back: list[Report] = []
        self._clock = clock
        self._opens_s = clock.now + opens_s

    def publish(self, report: Report) -> None:
        self._held_back.append(report)

    def receive(self, timeout_s: float) -> list[tuple[Report, float]]:
        self._clock.now += timeout_s
        if self._clock.now >= self._opens_s:
            self.counters["published"] += len(self._held_back)
            self.sent += self._held_back
            self._held_back.clear()
        return []

    def use(self, group_ids: object) -> None:
        """There are no partitions."""

    def close(self) -> None:
        self.closed_s = self._clock.now


@pytest.mark.parametrize(
    ("opens_s", "closed_s"), [(0.5, 0.5), (100.0, OPENING_S)], ids=["soon", "never"]
)
def test_what_a_life_without_a_turn_admitted_is_told_once_the_bus_is_open(
    opens_s: float, closed_s: float
) -> None:
    enforcer, clock = make(GOLD, acme=1)
    began_s = clock.now
    runtime = Runtime(
        enforcer, RuntimeOptions(agent="a"), clock=clock, wall=lambda: clock.now
    )
    bus: Any = Opening(clock, opens_s)
    runtime._bus = bus  # pyright: ignore[reportPrivateUsage]
    runtime.follow(Snapshot(configuration=configuration(GOLD, acme=1), bus=None))
    assert enforcer.limiter(tenant="acme").try_acquire(requests=3)
    runtime.close()  # before its thread began to run
    runtime._run()  # pyright: ignore[reportPrivateUsage]
    assert bus.closed_s - began_s == pytest.approx(closed_s, abs=0.15)
    told = [(rows.admitted.tolist(), r.leave) for r in bus.sent for rows in r.rows]
    assert told[-1:] == ([([3.0], True)] if opens_s < OPENING_S else [])
