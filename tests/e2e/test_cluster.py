"""Three agents as processes on a real bus, while parts of the cluster come and go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Cluster

QUOTA_PER_S = 300.0
"""As the cluster is made with."""

SETTLE_S = 2.5
"""For the burst to be spent and the shares to stand."""

SPAN_S = 3.0
"""Long enough for Poisson noise to be small against the tolerances below."""


def _expected(since_s: float, until_s: float) -> float:
    return QUOTA_PER_S * (until_s - since_s)


def test_a_killed_agents_share_is_used_by_the_others_until_it_returns(
    cluster: Cluster,
) -> None:
    cluster.load(450.0, 300.0, 150.0)
    cluster.watch(SETTLE_S)
    together = cluster.watch(SPAN_S)
    first, second, third = cluster.callers
    second.kill()
    # The API sees that its connection broke and says so; without that word what the
    # silent one may spend would stay reserved for it, a third of the quota.
    cluster.watch(SETTLE_S)
    without = cluster.watch(SPAN_S)
    second.come_back()
    second.rate(300.0)
    cluster.watch(SETTLE_S)
    again = cluster.watch(SPAN_S)

    for span in (together, again):
        admitted = cluster.admitted(*span)
        assert sum(admitted) == pytest.approx(_expected(*span), rel=0.1)
        for one in admitted:  # each wants more than a third
            assert one == pytest.approx(_expected(*span) / 3, rel=0.25)
    assert second.admitted(*without) == 0
    left = first.admitted(*without) + third.admitted(*without)
    assert 0.8 * _expected(*without) < left < 1.1 * _expected(*without)


def test_agents_go_on_without_the_api_and_follow_it_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.load(300.0, 300.0, 300.0)
    cluster.watch(SETTLE_S)
    cluster.kill_api()
    without = cluster.watch(SPAN_S)
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

    assert sum(cluster.admitted(*without)) == pytest.approx(
        _expected(*without), rel=0.1
    )
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
    cluster.watch(SETTLE_S)
    alone = cluster.watch(SPAN_S)

    assert sum(cluster.admitted(*without)) < 1.1 * _expected(*without) + QUOTA_PER_S
    spent_ns = np.concatenate(
        [caller.attempts(*without)["spent_ns"] for caller in cluster.callers]
    )
    assert float(np.percentile(spent_ns, 99)) < 5e6
    assert cluster.admitted(*alone)[2] == pytest.approx(_expected(*alone), rel=0.1)
