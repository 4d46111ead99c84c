"""An agent that nobody asks steps its coordinator for heartbeats, and wakes at once."""

from __future__ import annotations

import pytest
from tests.unit.agent.turns import TURN_S, Turns

from headgate.agent.runtime import COUNTING_PART, LOOK_S, RESTS_AFTER_S
from headgate.coordinator import Limit


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
    turns.run(2.0)
    # The heartbeat before may be a look ago, and needs no second step then.
    (heartbeat,) = turns.steps[-1:]
    asked_at = turns.now
    for _ in range(5):
        assert turns.limiter.try_acquire(requests=1)
    turns.run(0.1)
    counted = [(at, event.admitted.sum()) for at, event in (heartbeat, *turns.steps)]
    rises = [n for n in range(1, len(counted)) if counted[n][1] > counted[n - 1][1]]
    (before_at, before), (after_at, after) = counted[rises[0] - 1 : rises[0] + 1]
    assert after - before == 5.0
    assert after_at - asked_at <= LOOK_S + TURN_S
    assert after_at - before_at <= LOOK_S + 2 * TURN_S, "not since the last heartbeat"


def test_a_strict_group_keeps_the_pace() -> None:
    strict = Turns(mode="strict")
    strict.run(3.0 * RESTS_AFTER_S)
    assert strict.run(2.0) >= 2.0 / LOOK_S - 3


class Processor:
    """The time that a thread has spent: so much between two calls."""

    def __init__(self) -> None:
        self.spent_s = self.each_s = 0.0

    def __call__(self) -> float:
        self.spent_s += self.each_s
        return self.spent_s


def test_looks_that_take_long_are_rare_but_after_a_single_one_the_next_is_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processor = Processor()
    monkeypatch.setattr("time.thread_time", processor)
    turns = Turns(mode="strict")
    turns.run(1.0)
    processor.each_s = 0.02  # as the look that opens ledgers
    turns.run(LOOK_S)
    processor.each_s = 0.0
    at = turns.steps[-1][0]
    turns.run(2 * LOOK_S)
    assert turns.steps[0][0] - at <= LOOK_S + 2 * TURN_S
    processor.each_s = 0.02
    assert turns.run(4.0) <= 4.0 / (0.02 / COUNTING_PART) + 2


def test_an_enforcer_is_at_rest_until_a_bucket_moves() -> None:
    turns = Turns()
    turns.run(3.0 * RESTS_AFTER_S)
    rests = [turns.enforcer.at_rest()]
    turns.limiter.try_acquire(requests=1)
    rests.append(turns.enforcer.at_rest())
    assert rests == [True, False]


def test_an_agent_rests_though_a_reservation_was_made_and_settled() -> None:
    turns = Turns()
    reserved = turns.limiter.reserve(requests=1)
    turns.run(3.0 * RESTS_AFTER_S)
    rests = [turns.enforcer.at_rest()]
    reserved.settle(1)
    turns.run(3.0 * RESTS_AFTER_S)
    rests.append(turns.enforcer.at_rest())
    assert rests == [False, True]


@pytest.mark.long
def test_an_agent_without_a_bus_has_the_whole_limit() -> None:
    """Nobody told it how many there are, so it took a tenth."""
    turns = Turns(Limit(dimension="requests", rate=100.0, burst=100.0))
    turns.runtime._bus = None  # pyright: ignore[reportPrivateUsage]
    turns.run(20.0)
    admitted = 0
    for _ in range(500):
        admitted += sum(bool(turns.limiter.try_acquire(requests=1)) for _ in range(3))
        turns.turn()
    assert 590 <= admitted <= 610
