"""A calendar minute of a cluster: three processes, one quota, one boundary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from headgate.cli.client.rest import Rest

if TYPE_CHECKING:
    from tests.e2e.conftest import Cluster

pytestmark = pytest.mark.alone

QUOTA = 60

PATIENCE_S = 90.0
"""For a boundary, which comes within a minute, and what happens after it."""


@pytest.mark.parametrize("cluster", ["zeromq"], indirect=True)
def test_ably_a_calendar_minute_begins_anew_at_its_boundary_in_every_process(
    cluster: Cluster,
) -> None:
    limit = {"dimension": "requests", "rate": QUOTA, "period": "minute"}
    with Rest(cluster.url) as rest:
        body = {"limits": [limit], "may_owe": False}
        rest.call("PUT", "/api/v1/groups/g", body=body)
    cluster.watch(2.0)  # the change is in force within a second
    cluster.load(10.0, 20.0, 30.0)
    # Between the two clocks lies a constant; each minute is one of the wall clock's.
    apart_s = time.time() - time.monotonic()
    boundary_s = (time.time() // 60.0 + 1.0) * 60.0 - apart_s
    if boundary_s - time.monotonic() < 20.0:  # to see both ends of one minute
        boundary_s += 60.0
    deadline_s = time.monotonic() + 60.0 + PATIENCE_S
    while time.monotonic() < boundary_s - 1.0:
        cluster.watch(0.2)
    assert sum(cluster.admitted(boundary_s - 5.0, boundary_s - 1.0)) == 0
    got = cluster.admitted(boundary_s - 1.0, time.monotonic())
    while sum(got) < QUOTA - len(got):  # each may keep a part of a request
        cluster.watch(0.2)
        got = cluster.admitted(boundary_s - 1.0, time.monotonic())
        assert time.monotonic() < deadline_s, cluster.admitted(boundary_s, deadline_s)
    cluster.watch(5.0)  # at 60 attempts a second: nothing more comes
    got = cluster.admitted(boundary_s - 1.0, time.monotonic())
    assert sum(got) == pytest.approx(QUOTA, abs=len(got))
    assert all(got), got
