"""Calendar periods while a wall clock is set forward or back."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.agent.turns import Turns

from headgate.coordinator import Limit, Restored

HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S
MIDNIGHT_S = 500 * DAY_S
QUOTA = 20


class Node(Turns):
    """An agent with a daily quota, whose wall clock is at noon when it begins."""

    def __init__(self, scope: str) -> None:
        daily = Limit(
            dimension="requests",
            rate=QUOTA,
            burst=QUOTA,
            period="day",
            scope="node" if scope == "node" else "cluster",
        )
        super().__init__(daily, apart_s=MIDNIGHT_S - 12 * HOUR_S, may_owe=False)
        self.apart_s -= self.now
        # The API says that nobody has used anything yet.
        self.runtime.vouch(
            Restored("requests", np.array([1]), np.array([float(QUOTA)]), age_s=0.0)
        )
        self.run(5.0)

    def at(self, hour: float) -> int:
        """Set the wall clock, hours after midnight; return what is admitted then."""
        self.apart_s = MIDNIGHT_S + hour * HOUR_S - self.now
        self.run(0.2)
        return self.admitted()

    def admitted(self) -> int:
        """Return what is admitted of twice the quota, in bursts."""
        count = 0
        for _ in range(4):
            burst = [self.limiter.try_acquire(requests=1) for _ in range(QUOTA // 2)]
            count += sum(map(bool, burst))
            self.run(0.1)
        return count


@pytest.fixture(params=["node", "cluster"])
def node(request: pytest.FixtureRequest) -> Node:
    return Node(request.param)


def test_ably_a_clock_that_is_corrected_across_a_boundary_gives_no_second_quota(
    node: Node,
) -> None:
    assert [node.at(hour) for hour in (-0.5, 0.1, -0.5, -0.1, 0.2)] == [
        QUOTA,
        QUOTA,
        0,
        0,
        0,
    ]
    assert node.at(24.1) == QUOTA


def test_ably_a_clock_set_forward_within_a_period_gives_nothing(node: Node) -> None:
    assert [node.at(hour) for hour in (-23.0, -1.0, -0.1)] == [QUOTA, 0, 0]


def test_ably_a_clock_that_was_days_ahead_gives_one_quota_and_then_each_days(
    node: Node,
) -> None:
    assert node.at(-6.0) == QUOTA
    assert node.at(10 * 24.0) == QUOTA  # a new period, as far as anybody can tell
    assert [node.at(hour) for hour in (-5.0, -0.1)] == [0, 0]
    assert [node.at(hour) for hour in (0.1, 23.0, 24.1)] == [QUOTA, 0, QUOTA]
