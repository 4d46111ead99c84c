"""PIP-82's settings of publishing usage change what running agents do."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.integration.agent.rigs import snapshot, until

from headgate.agent.bus.open import open_bus
from headgate.agent.wire.codec import decode

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent.bus.port import Bus
    from headgate.coordinator import Report


def heard(bus: Bus) -> list[Report]:
    return [decode(message.payload) for message in bus.receive(0.2)]


def test_pip82_interval_and_cycles_are_followed_by_a_running_agent(
    cluster: Cluster, join: Join
) -> None:
    limiter = join("a").limiter(tenant="acme")
    assert limiter.try_acquire(requests=1)
    first = snapshot(cluster.bus)
    with closing(open_bus(cluster.bus)) as bus:
        until(lambda: any(r.interval_s == 1.0 for r in heard(bus)), "a first report")
        configuration = replace(first.configuration, revision=2)
        quick = replace(
            first,
            configuration=configuration,
            report_interval_s=0.1,
            keyframe_every=2,
        )
        cluster.api.set(quick)
        until(lambda: any(r.interval_s == 0.1 for r in heard(bus)), "the new interval")
        reports: list[Report] = []

        def enough() -> bool:
            reports.extend(heard(bus))
            return len(reports) >= 20

        until(enough, "twenty reports")
    # At rest nothing is reported but heartbeats: every second one is a keyframe.
    assert {report.interval_s for report in reports} == {0.1}
    keyframes = sum(report.keyframe for report in reports)
    assert abs(keyframes - len(reports) / 2) <= 2


def test_pip82_publishing_to_the_topic_is_switched_off_and_on(
    cluster: Cluster, join: Join
) -> None:
    agent = join("a")
    first = snapshot(cluster.bus)
    until(lambda: agent.status().bus == "zeromq", "the bus")
    configuration = replace(first.configuration, revision=2)
    cluster.api.set(replace(first, configuration=configuration, bus=None))
    until(lambda: agent.status().bus is None, "its end")
    assert agent.metrics()["bus_open"] == 0.0
    configuration = replace(first.configuration, revision=3)
    cluster.api.set(replace(first, configuration=configuration))
    until(lambda: agent.status().bus == "zeromq", "the bus again")
