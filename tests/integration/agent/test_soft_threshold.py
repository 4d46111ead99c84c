"""A soft threshold warns of what the whole cluster uses, not of one agent's part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.integration.agent.rigs import Load, explained, snapshot, until

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster


def test_who_uses_little_is_warned_when_all_together_use_much(
    cluster: Cluster, join: Join
) -> None:
    first = snapshot(cluster.bus)
    (gold,) = first.configuration.groups
    warned = replace(gold, soft_threshold=0.6)
    configuration = replace(first.configuration, revision=2, groups=(warned,))
    cluster.api.set(replace(first, configuration=configuration))
    light, heavy = join("light"), join("heavy")
    limiter = light.limiter(tenant="acme")
    with Load(limiter, 20), Load(heavy.limiter(tenant="acme"), 100) as load:
        until(
            lambda: len(explained(light).agents) == 2,
            "the agents to hear each other",
        )
        # A machine that lets the load sleep makes it burst: it is seen to end.
        until(lambda: not limiter.try_acquire(requests=1).warning, "calm")
        load.rate = 900
        until(lambda: limiter.try_acquire(requests=1).warning, "the warning")
        assert explained(light).demand < 600
        load.rate = 100
        until(lambda: not limiter.try_acquire(requests=1).warning, "its end")
