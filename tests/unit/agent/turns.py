"""A runtime that takes its turns on clocks of the test's own.

The runtime's thread is never started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.runtime import Runtime, RuntimeOptions
from headgate.coordinator import Attachment, Configuration, Counted, Group, Limit

if TYPE_CHECKING:
    from headgate.coordinator import Event, Report

TURN_S = 0.01

FAST = Limit(dimension="requests", rate=1000.0, burst=1000.0)


class Loopback:
    """The way of a report over the bus and back, in no time."""

    def __init__(self) -> None:
        self._sent: list[Report] = []

    def publish(self, report: Report) -> None:
        self._sent.append(report)

    def receive(self, timeout_s: float) -> list[tuple[Report, float]]:
        sent, self._sent = self._sent, []
        return [(report, 0.0) for report in sent]

    def use(self, group_ids: object) -> None:
        """There are no partitions."""


class Turns:
    """A runtime that hears itself, and what its coordinator is stepped with.

    Attributes:
        now: The monotonic clock, in seconds.
        apart_s: The wall clock less the monotonic one.
    """

    def __init__(
        self, limit: Limit = FAST, *, apart_s: float = 0.0, **group: Any
    ) -> None:
        self.now = 1000.0
        self.apart_s = apart_s
        self.steps: list[tuple[float, Counted]] = []
        self.enforcer = Enforcer(clock=lambda: self.now)
        self.runtime = Runtime(
            self.enforcer,
            RuntimeOptions(agent="a"),
            clock=lambda: self.now,
            wall=lambda: self.now + self.apart_s,
        )
        bus: Any = Loopback()
        self.runtime._bus = bus  # pyright: ignore[reportPrivateUsage]
        gold = Group(id=1, name="gold", limits=(limit,), **group)
        acme = Attachment((("tenant", "acme"),), 1)
        configuration = Configuration(revision=1, groups=(gold,), attachments=(acme,))
        self.runtime.follow(Snapshot(configuration=configuration, bus=None))
        self.limiter = self.enforcer.limiter(tenant="acme")
        self.turn()
        coordinator: Any = self.runtime._coordinator  # pyright: ignore[reportPrivateUsage]
        assert coordinator is not None
        step = coordinator.step

        def stepped(now: float, event: Event, *, wall_s: float) -> Any:
            if isinstance(event, Counted):
                self.steps.append((now, event))
            return step(now, event, wall_s=wall_s)

        coordinator.step = stepped

    def turn(self) -> None:
        self.runtime._turn()  # pyright: ignore[reportPrivateUsage]
        self.now += TURN_S

    def run(self, seconds: float) -> int:
        """Take turns for so long; return how often counters were stepped."""
        self.steps.clear()
        for _ in range(round(seconds / TURN_S)):
            self.turn()
        return len(self.steps)
