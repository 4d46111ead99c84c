"""An agent that nobody asks steps its coordinator for heartbeats, and wakes at once.

Turn by turn, on a clock of the test's own: the runtime's thread is never started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.runtime import LOOK_S, RESTS_AFTER_S, Runtime, RuntimeOptions
from headgate.coordinator import Attachment, Configuration, Counted, Group, Limit

if TYPE_CHECKING:
    from headgate.coordinator import Event, Report

TURN_S = 0.01


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
    """A runtime that hears itself, and what its coordinator is stepped with."""

    def __init__(self, **group: Any) -> None:
        self.now = 1000.0
        self.steps: list[tuple[float, Counted]] = []
        self.enforcer = Enforcer(clock=lambda: self.now)
        self.runtime = Runtime(
            self.enforcer, RuntimeOptions(agent="a"), clock=lambda: self.now
        )
        bus: Any = Loopback()
        self.runtime._bus = bus  # pyright: ignore[reportPrivateUsage]
        limit = Limit(dimension="requests", rate=1000.0, burst=1000.0)
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


def test_at_rest_only_heartbeats_are_stepped() -> None:
    turns = Turns()
    assert turns.limiter.try_acquire(requests=1)
    assert turns.run(1.0) >= 1.0 / LOOK_S - 3
    turns.run(2.0 * RESTS_AFTER_S)
    assert turns.run(10.0) <= 25, "a heartbeat a second, and what its ceilings moved"
    gaps = [b[0] - a[0] for a, b in zip(turns.steps, turns.steps[1:], strict=False)]
    assert max(gaps) <= 1.0 + 2 * LOOK_S, "leases of 3 s must not run out"


def test_the_first_request_is_stepped_at_the_next_look_and_as_just_come() -> None:
    turns = Turns()
    turns.run(3.0 * RESTS_AFTER_S)
    turns.run(0.5)
    asked_at = turns.now
    for _ in range(5):
        assert turns.limiter.try_acquire(requests=1)
    turns.run(0.1)
    counted = [(at, event.admitted.sum()) for at, event in turns.steps]
    (before_at, before), (after_at, after) = counted[:2]
    assert after - before == 5.0
    assert after_at - asked_at <= LOOK_S + TURN_S
    assert after_at - before_at <= LOOK_S + 2 * TURN_S, "not since the last heartbeat"


def test_a_strict_group_keeps_the_pace() -> None:
    strict = Turns(mode="strict")
    strict.run(3.0 * RESTS_AFTER_S)
    assert strict.run(2.0) >= 2.0 / LOOK_S - 3


def test_an_enforcer_is_at_rest_until_a_bucket_moves() -> None:
    turns = Turns()
    turns.run(3.0 * RESTS_AFTER_S)
    rests = [turns.enforcer.at_rest()]
    turns.limiter.try_acquire(requests=1)
    rests.append(turns.enforcer.at_rest())
    assert rests == [True, False]
