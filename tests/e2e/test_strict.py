"""A strict group on real processes: never over, whichever is killed; and used again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.e2e.conftest import QUOTA_PER_S, Cluster

from headgate.cli.client.rest import Rest
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 90.0
"""How long the test waits for what must come; the machine may be busy."""

SPAN_S = 2.0
"""Long enough for the burst to be a part of what is admitted, not all of it."""

BURST = 30.0


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Cluster]:
    """Three callers under a steady overload of a strict group."""
    with Children() as children:
        cluster = Cluster(children, tmp_path, "zeromq")
        cluster.start()
        limit = {"dimension": "requests", "rate": QUOTA_PER_S, "burst": BURST}
        with Rest(cluster.url) as rest:
            body = {"mode": "strict", "limits": [limit]}
            rest.call("PATCH", "/api/v1/groups/g", body=body)
        yield cluster


def until(cluster: Cluster, holds: Callable[[list[float]], bool], what: str) -> None:
    """Watch spans until what each caller gets, as a part of the quota, is right."""
    began_s, got = time.monotonic(), [0.0]
    while not holds(got):
        assert time.monotonic() - began_s < PATIENCE_S, f"{what}: {got}"
        since_s, until_s = cluster.watch(SPAN_S)
        expected = QUOTA_PER_S * (until_s - since_s)
        got = [count / expected for count in cluster.admitted(since_s, until_s)]


def most_over(cluster: Cluster, since_s: float) -> float:
    """Return by how many units some stretch of time held more than Q·W + B.

    A request was admitted at some time between its call and the return of it: the
    longest stretch that a set of them may have taken counts.
    """
    each = [caller.attempts(since_s, np.inf) for caller in cluster.callers]
    found = np.concatenate(each)
    found = np.sort(found[found["admitted"] != 0], order="at_ns")
    begun_s = found["at_ns"] / 1e9
    ended_s = np.maximum.accumulate(begun_s + found["spent_ns"] / 1e9)
    # n(i..j) − Q·(end_j − begin_i), at its largest: i at the largest up to each j.
    count = np.arange(len(found))
    first = np.maximum.accumulate(QUOTA_PER_S * begun_s - count)
    return float(np.max(count + 1 - QUOTA_PER_S * ended_s + first)) - BURST


def test_a_strict_group_is_never_over_and_used_again_after_kills(
    strict: Cluster,
) -> None:
    # What was admitted while the group was balanced does not count.
    time.sleep(1.0)
    since_s = time.monotonic()
    strict.load(300.0, 300.0, 300.0)
    first, second, third = strict.callers
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "all three share")
    second.kill()
    until(strict, lambda got: sum(got) > 0.85, "two use what the killed one had")
    second.come_back()
    second.rate(300.0)
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "it shares again")
    strict.kill_api()
    third.kill()
    until(strict, lambda got: sum(got) > 0.5, "two go on without the API")
    third.come_back()
    third.rate(300.0)
    until(strict, lambda got: min(got) > 0.2 and sum(got) > 0.85, "all share again")
    assert first.admitted(since_s, np.inf) > 0
    assert most_over(strict, since_s) <= 1.0
