"""Three agents as processes on a real bus, while parts of the cluster come and go.

Whatever happened, three heartbeats later the cluster must admit what one bucket for
all would have, and each caller its fair share.  Each promise is looked at once, in one
span.  The yardstick is fed with the attempts that the callers really made, so that a
caller for which the machine had no time changes both sides alike.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.simulation.measure.reference_bucket import ReferenceBucket

if TYPE_CHECKING:
    from tests.e2e.conftest import Cluster

pytestmark = pytest.mark.alone

QUOTA_PER_S = 300.0
"""As the cluster is made with; so many units are its burst, too."""

SETTLE_S = 3.0
"""Three heartbeats, after which all must be as it should be."""

SPAN_S = 3.0
"""Long enough for Poisson noise to be small against the tolerances below."""

TOTAL_REL = 0.05
"""Of what the central bucket admits."""

SHARE_REL = 0.15
"""Of a caller's fair share."""

IN_FORCE_S = 0.25
"""After which a new limit is in force everywhere."""

Span = tuple[float, float]


def _settled(cluster: Cluster) -> Span:
    """Return the span that begins three heartbeats from now."""
    cluster.watch(SETTLE_S)
    return cluster.watch(SPAN_S)


def _central(cluster: Cluster, span: Span) -> int:
    """Return what one bucket, full at first, admits of the same attempts in a span."""
    since_s, until_s = span
    bucket = ReferenceBucket(((0.0, QUOTA_PER_S, QUOTA_PER_S),), may_owe=True)
    attempts = [caller.attempts(0.0, until_s)["at_ns"] for caller in cluster.callers]
    at_s = np.sort(np.concatenate(attempts)) / 1e9
    begin_s = float(at_s[0])
    refused = [bucket.try_acquire_at(one - begin_s, 1.0) for one in at_s.tolist()]
    return int(np.count_nonzero((np.array(refused) == 0.0) & (at_s >= since_s)))


def _whole(cluster: Cluster, span: Span) -> None:
    """Check that a span's total is that of one bucket for the cluster."""
    admitted, central = cluster.admitted(*span), _central(cluster, span)
    assert sum(admitted) == pytest.approx(central, rel=TOTAL_REL), admitted


def _shared(cluster: Cluster, span: Span) -> None:
    """Check that a span's total is shared max-min of what was attempted."""
    _whole(cluster, span)
    admitted = cluster.admitted(*span)
    wanted = np.array([float(len(c.attempts(*span))) for c in cluster.callers])
    alike = np.ones(len(wanted))
    level = water_level(wanted, alike, np.array(float(sum(admitted))))
    fair = shares_at(level, wanted, alike)
    assert admitted == pytest.approx(fair.tolist(), rel=SHARE_REL), wanted


def test_a_killed_agents_share_is_used_by_the_others_until_it_returns(
    cluster: Cluster,
) -> None:
    cluster.load(450.0, 300.0, 150.0)
    together = _settled(cluster)
    _, second, _ = cluster.callers
    second.kill()
    # The API sees that its connection broke and says so; without that word what the
    # silent one may spend would stay reserved for it, a third of the quota.
    without = _settled(cluster)
    second.come_back()
    second.rate(300.0)
    again = _settled(cluster)

    _shared(cluster, together)
    _shared(cluster, without)
    assert second.admitted(*without) == 0
    _shared(cluster, again)


def test_agents_go_on_without_the_api_and_follow_it_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.load(300.0, 300.0, 300.0)
    cluster.watch(SETTLE_S)
    cluster.kill_api()
    without = cluster.watch(SPAN_S)  # at once
    # An agent that starts while the API is gone goes by what it kept on disk.
    cluster.callers[0].kill()
    cluster.callers[0].come_back()
    cluster.callers[0].rate(300.0)
    from_disk = cluster.watch(SETTLE_S)
    cluster.start_api()
    cluster.watch(SETTLE_S)
    changed_s = cluster.set_rate(0.0)
    cluster.watch(SETTLE_S)
    closed = (changed_s + 1.0, time.monotonic())
    opened_s = cluster.set_rate(QUOTA_PER_S)
    cluster.watch(SETTLE_S)
    opened = (opened_s + 1.0, time.monotonic())

    _shared(cluster, without)
    attempts = cluster.callers[0].attempts(*from_disk)
    assert 0 < int(attempts["admitted"].sum()) < 0.8 * len(attempts)
    # In force everywhere within a second: after it not one request passed.
    assert cluster.admitted(*closed) == [0, 0, 0]
    for one in cluster.admitted(*opened):
        assert one > 0.5 * QUOTA_PER_S * (opened[1] - opened[0]) / 3


@pytest.mark.parametrize("removed", [False, True])
def test_a_limit_that_is_set_where_there_was_none_counts_from_then_on(
    cluster: Cluster, removed: bool
) -> None:
    """What was admitted under a limit that was removed counts no more either."""
    rate, burst, demand = 100.0, 500.0, 900.0
    cluster.load(demand / 3, demand / 3, demand / 3)
    if removed:
        cluster.watch(SETTLE_S)
        cluster.remove_limit()
    else:
        cluster.set_rate(None)
    cluster.watch(SETTLE_S)
    before_s = time.monotonic()
    answered_s = cluster.set_rate(rate, burst)
    _, until_s = cluster.watch(SETTLE_S)

    free = cluster.admitted(before_s - 1.0, before_s)
    assert sum(free) > 0.8 * demand
    quota = burst + rate * (until_s - answered_s)
    late = demand * (answered_s - before_s + IN_FORCE_S)
    assert 0.9 * quota < sum(cluster.admitted(before_s, until_s)) < quota + late


def test_a_limit_that_is_set_while_the_bus_is_away_is_shared(cluster: Cluster) -> None:
    """Nobody had ever heard of its use, so each took it for its own."""
    rate = 100.0
    cluster.load(150.0, 150.0, 150.0)
    cluster.remove_limit()
    cluster.watch(SETTLE_S)
    cluster.kill_bus()
    cluster.watch(SETTLE_S)
    cluster.set_rate(rate, rate)
    cluster.watch(SETTLE_S)  # what the burst holds is spent
    since_s, until_s = cluster.watch(SPAN_S)
    for admitted in cluster.admitted(since_s, until_s):
        assert 0.2 * rate < admitted / (until_s - since_s) < 0.5 * rate


def test_nobody_starves_after_a_limit_was_lowered_far(cluster: Cluster) -> None:
    rate = 10.0
    cluster.set_rate(200.0, 200.0)
    cluster.load(150.0, 150.0, 150.0)
    cluster.watch(SETTLE_S)
    cluster.set_rate(rate, 20.0)
    cluster.watch(2.0)
    since_s, until_s = cluster.watch(8.0)
    parts = cluster.admitted(since_s, until_s)
    assert sum(parts) <= rate * (until_s - since_s) + 20.0 + 3.0
    assert min(parts) > 0.25 * rate * (until_s - since_s) / 3


def test_callers_that_all_want_a_large_burst_at_once_get_it_once(
    cluster: Cluster,
) -> None:
    """Each spent a part of what was left, before it heard what others had spent."""
    rate, age_s = 50.0, 0.5
    over, part = cluster.spend_a_burst(rate, burst=1500.0)
    assert over <= rate * age_s + len(cluster.callers)
    assert part > 0.95


def test_a_limit_set_inside_a_group_in_use_lets_nobody_exceed_that_group(
    cluster: Cluster,
) -> None:
    """Each agent took all of its own limit for free, until its second look."""
    rate, age_s, margin = 200.0, 0.5, 20.0
    cluster.remove_limit()
    cluster.put_inside(rate, 100.0)
    cluster.load(500.0, 500.0, 500.0)
    cluster.watch(SETTLE_S)  # the bucket of the group around it is empty
    since_s = time.monotonic()
    cluster.set_rate(10.0 * rate)
    _, until_s = cluster.watch(SETTLE_S)
    records = [caller.attempts(since_s, until_s) for caller in cluster.callers]
    at_s = np.concatenate([r["at_ns"][r["admitted"] > 0] for r in records]) / 1e9
    over = 1.0 + np.arange(len(at_s)) - rate * (np.sort(at_s) - since_s)
    assert over.max() <= rate * (age_s + 0.2) + margin + len(cluster.callers)
    assert len(at_s) > 0.9 * rate * (until_s - since_s)


def test_callers_that_ask_seldom_are_not_starved_of_few_tokens(
    cluster: Cluster,
) -> None:
    cluster.set_rate(5.0, 10.0)
    cluster.load(100.0, 1.5, 1.5)
    cluster.watch(2 * SETTLE_S)
    since_s, until_s = cluster.watch(20.0)

    often, *seldom = cluster.callers
    for caller in seldom:
        attempts = caller.attempts(since_s, until_s)
        assert attempts["admitted"].sum() > 0.6 * len(attempts) > 3
    # What they leave goes to the one that asks often.
    total = sum(cluster.admitted(since_s, until_s))
    assert total == pytest.approx(5.0 * (until_s - since_s), abs=6.0)
    assert often.admitted(since_s, until_s) > 0.2 * total


def test_a_bus_that_is_killed_slows_nobody_and_carries_on_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.load(300.0, 300.0, 300.0)
    cluster.watch(SETTLE_S)
    cluster.kill_bus()
    without = cluster.watch(SPAN_S)
    cluster.start_bus()
    cluster.watch(SETTLE_S)
    # Only over the bus can the third learn that the others want nothing.
    cluster.load(0.0, 0.0, 450.0)
    alone = _settled(cluster)

    limit = 1.1 * QUOTA_PER_S * (without[1] - without[0]) + QUOTA_PER_S
    assert sum(cluster.admitted(*without)) < limit
    spent_ns = np.concatenate(
        [caller.attempts(*without)["spent_ns"] for caller in cluster.callers]
    )
    assert float(np.percentile(spent_ns, 99)) < 5e6
    _shared(cluster, alone)
    assert cluster.admitted(*alone)[:2] == [0, 0]
