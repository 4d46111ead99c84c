"""Three agents as processes on a real bus, while parts of the cluster come and go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Cluster

pytestmark = pytest.mark.alone

QUOTA_PER_S = 300.0
"""As the cluster is made with."""

SETTLE_S = 3.0
"""Three heartbeats, after which all must be as it should be, whatever happened."""

SPAN_S = 3.0
"""Long enough for Poisson noise to be small against the tolerances below."""

Span = tuple[float, float]


def _expected(since_s: float, until_s: float) -> float:
    return QUOTA_PER_S * (until_s - since_s)


def _shared(cluster: Cluster, span: Span) -> bool:
    """Whether three that want more each get a third."""
    admitted, expected = cluster.admitted(*span), _expected(*span)
    return sum(admitted) == pytest.approx(expected, rel=0.1) and all(
        one == pytest.approx(expected / 3, rel=0.25) for one in admitted
    )


def _used(admitted: int, span: Span) -> bool:
    """Whether the quota was used, and no more."""
    return 0.9 * _expected(*span) <= admitted <= 1.1 * _expected(*span)


def _settled(cluster: Cluster) -> Span:
    """Return the span that begins three heartbeats from now: the promise is of it."""
    cluster.watch(SETTLE_S)
    return cluster.watch(SPAN_S)


def test_a_killed_agents_share_is_used_by_the_others_until_it_returns(
    cluster: Cluster,
) -> None:
    cluster.load(450.0, 300.0, 150.0)
    together = _settled(cluster)
    first, second, third = cluster.callers
    second.kill()
    # The API sees that its connection broke and says so; without that word what the
    # silent one may spend would stay reserved for it, a third of the quota.

    def left(span: Span) -> bool:
        got = first.admitted(*span) + third.admitted(*span)
        return 0.8 * _expected(*span) < got < 1.1 * _expected(*span)

    without = _settled(cluster)
    second.come_back()
    second.rate(300.0)
    again = _settled(cluster)

    assert _shared(cluster, together), cluster.admitted(*together)
    assert _shared(cluster, again), cluster.admitted(*again)
    assert second.admitted(*without) == 0
    assert left(without), cluster.admitted(*without)


def test_agents_go_on_without_the_api_and_follow_it_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.load(300.0, 300.0, 300.0)
    cluster.watch(SETTLE_S)
    cluster.kill_api()

    def used(span: Span) -> bool:
        return _used(sum(cluster.admitted(*span)), span)

    without = _settled(cluster)
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

    assert used(without), cluster.admitted(*without)
    attempts = cluster.callers[0].attempts(*from_disk)
    assert 0 < int(attempts["admitted"].sum()) < 0.8 * len(attempts)
    # In force everywhere within a second: after it not one request passed.
    assert cluster.admitted(*closed) == [0, 0, 0]
    for one in cluster.admitted(*opened):
        assert one > 0.5 * _expected(*opened) / 3


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

    def alone(span: Span) -> bool:
        return _used(cluster.admitted(*span)[2], span)

    last = _settled(cluster)

    assert sum(cluster.admitted(*without)) < 1.1 * _expected(*without) + QUOTA_PER_S
    spent_ns = np.concatenate(
        [caller.attempts(*without)["spent_ns"] for caller in cluster.callers]
    )
    assert float(np.percentile(spent_ns, 99)) < 5e6
    assert alone(last), cluster.admitted(*last)
