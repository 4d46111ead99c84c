"""Calendar periods of a node's limit: exactly Q between two boundaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.agent.making import Clock, configuration, group

from headgate.agent.bucket.terms import SharedTerms
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.periods import in_periods
from headgate.coordinator.config.configuration import Limit

DAILY = Limit(
    dimension="requests", rate=20, burst=20, period="day", scope="node", time_zone="UTC"
)
DAY_S = 86_400.0


class Node:
    """An enforcer whose wall clock is 1,000 s before midnight at the start."""

    def __init__(self, limit: Limit = DAILY, *, may_owe: bool = True) -> None:
        self.clock = Clock(100.0)
        self.enforcer = Enforcer(clock=self.clock, seed=1)
        self.limit = limit
        self.may_owe = may_owe
        self.look()
        self.limiter = self.enforcer.limiter(tenant="acme")

    def look(self) -> None:
        """Look at the calendar."""
        wall_s = 500 * DAY_S - 1_000.0 + self.clock.now - 100.0
        made = group(self.limit, may_owe=self.may_owe)
        found, _ = in_periods(configuration(made, acme=1), wall_s)
        self.enforcer.configure(found, self.clock.now, wall_s=wall_s)

    def admitted(self, attempts: int) -> int:
        return sum(bool(self.limiter.try_acquire(requests=1)) for _ in range(attempts))


@pytest.mark.parametrize("may_owe", [True, False])
def test_ably_a_calendar_period_admits_its_quota_and_no_more(may_owe: bool) -> None:
    node = Node(may_owe=may_owe)
    # One that may owe admits at level 0, too, and begins the next day in debt.
    assert node.admitted(50) == (21 if may_owe else 20)
    node.clock.now += 999.0
    node.look()
    assert node.admitted(5) == 0
    node.clock.now += 2.0
    node.look()
    assert node.admitted(50) == 20
    node.clock.now += DAY_S - 10.0
    node.look()
    assert node.admitted(5) == 0  # a bucket would have earned all of it again


def test_ably_a_refusal_says_when_the_next_period_begins() -> None:
    node = Node()
    node.admitted(30)
    assert node.limiter.try_acquire(requests=1).delay_s == pytest.approx(1_000.0)
    node.clock.now += 400.0
    assert node.limiter.try_acquire(requests=1).delay_s == pytest.approx(600.0)
    assert node.limiter.validate(requests=1).delay_s == pytest.approx(600.0)


def test_ably_a_raised_quota_leaves_used_what_was_used() -> None:
    node = Node(may_owe=False)
    assert node.admitted(15) == 15
    node.limit = replace(DAILY, rate=30, burst=30)
    node.look()
    assert node.admitted(50) == 15
    node.limit = DAILY
    node.look()
    assert node.admitted(5) == 0
    node.limit = replace(DAILY, rate=0, burst=0)
    node.look()
    assert node.admitted(5) == 0
    node.limit = replace(DAILY, rate=40, burst=40)
    node.look()
    assert node.admitted(50) == 10
    node.limit = DAILY
    node.look()
    node.clock.now += 1_001.0
    node.look()
    assert node.admitted(50) == 20


@pytest.mark.parametrize("level", [-1.0, -50.0])
def test_a_calendar_quota_that_becomes_a_rate_tells_delays_of_that_rate(
    level: float,
) -> None:
    """It told 10^16 s until the coordinator had looked, once the quota was used up."""
    daily = replace(DAILY, scope="cluster")
    node = Node(daily)
    (local,) = node.enforcer.locals()
    used_up = SharedTerms(
        ceiling=daily.rate_per_s,
        level=level,
        rate=daily.rate_per_s,
        capacity=daily.burst,
        room=1.0,
        window=1.0,
        expected_rate=0.0,
        room_cap=1.0,
        cautious=False,
        quota=daily.rate_per_s,
        least_delay_s=0.0,
        reserve=daily.rate_per_s,
    )
    now = node.clock.now
    local.bucket.share_at(
        now,
        used_up,
        as_of_s=now,
        counted=0.0,
        burst=daily.burst,
        may_owe=True,
        deadline_s=now + 1.0,
    )
    node.limit = Limit(dimension="requests", rate=100, burst=100)
    node.look()
    refused = node.limiter.try_acquire(requests=1)
    assert not refused
    assert refused.delay_s < 2.0


def test_ably_a_soft_threshold_of_a_period_warns_of_what_is_left() -> None:
    node = Node()
    made = group(DAILY, soft_threshold=0.8)
    wall_s = 500 * DAY_S - 1_000.0
    found, _ = in_periods(configuration(made, acme=1), wall_s)
    node.enforcer.configure(found, node.clock.now, wall_s=wall_s)
    for count, warned in ((15, False), (2, True)):
        node.admitted(count)
        for _ in range(3):
            node.clock.now += 2.0
            node.enforcer.counts(node.clock.now)
        assert node.limiter.validate(requests=1).warning is False
        assert node.limiter.try_acquire(requests=1).warning is warned
