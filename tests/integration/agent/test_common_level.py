"""What callers are told is left of a limit is true for the whole cluster."""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING

from tests.integration.agent.rigs import Load, explained, until

from headgate.agent.limiter.ratelimit_headers import ratelimit_headers

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent.limiter.limiter import Limiter


def told(limiter: Limiter) -> int:
    """Return the units left that a response would tell of."""
    limiter.try_acquire(requests=1)
    headers = dict(ratelimit_headers(limiter.links({"requests": 1.0}), monotonic()))
    found = re.search(rb";r=(\d+)", headers[b"ratelimit"])
    assert found is not None
    return int(found[1])


def test_an_idle_limit_is_told_as_full_and_one_that_others_use_up_as_empty(
    cluster: Cluster, join: Join
) -> None:
    light, heavy = join("light"), join("heavy")
    limiter = light.limiter(tenant="acme")
    burst = 1000  # the rate of the rig
    first = told(limiter)
    assert first >= 0.9 * burst, first
    with Load(limiter, 5), Load(heavy.limiter(tenant="acme"), 20) as load:
        until(
            lambda: len(explained(light).agents) == 2,
            "the agents to hear each other",
        )
        until(lambda: told(limiter) >= 0.8 * burst, "the truth about an idle limit")
        load.rate = 4000
        until(lambda: told(limiter) <= 0.2 * burst, "the truth about an exhausted one")
        load.rate = 20
        until(lambda: told(limiter) >= 0.8 * burst, "the truth about its recovery")
