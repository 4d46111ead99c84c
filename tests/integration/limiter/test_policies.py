"""Pulsar's rates from the real API to a real agent: set, changed and unset live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.integration.agent.rigs import PATIENCE_S

from headgate.agent import connect
from headgate.api import Addresses, ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headgate.agent import Agent

TOPIC = "acme/orders/new"
RATE = {"dispatchThrottlingRateInMsg": 7, "ratePeriodInSecond": 3_600}
SUBSCRIBE = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 3_600}
PUBLISH = {"publishThrottlingRateInMsg": 9}


@pytest.fixture
def pulsar(server: Addresses) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.api}/admin/v2", timeout=PATIENCE_S) as client:
        clusters = {"adminRoles": [], "allowedClusters": ["standalone"]}
        client.put("/tenants/acme", json=clusters).raise_for_status()
        client.put("/namespaces/acme/orders", json={}).raise_for_status()
        yield client


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def limits(agent: Agent, dimension: str, **who: str) -> dict[str, float]:
    """Return (level → units per period) of the policies in a subject's chain."""
    links = agent.limiter(**who).chain(dimension).links
    return {link.limit.level: link.local.limit.rate for link in links}


@pytest.mark.parametrize(
    ("path", "body", "dimension", "rate"),
    [
        ("dispatchRate", RATE, "dispatch_messages", 7.0),
        ("subscriptionDispatchRate", RATE, "dispatch_messages", 7.0),
        ("replicatorDispatchRate", RATE, "replication_messages", 7.0),
        ("publishRate", PUBLISH, "publish_messages", 9.0),
        ("subscribeRate", SUBSCRIBE, "subscribes", 2.0),
    ],
)
def test_dispatch_rates_on_pulsars_paths_reach_the_agent_and_leave_it(
    pulsar: httpx.Client,
    agent: Agent,
    path: str,
    body: dict[str, int],
    dimension: str,
    rate: float,
) -> None:
    who = {"topic": TOPIC, "subscription": "billing", "client": "c1"}
    wider = {name: n + (name != "ratePeriodInSecond") for name, n in body.items()}
    namespace, topic = f"/namespaces/acme/orders/{path}", f"/persistent/{TOPIC}/{path}"
    pulsar.post(namespace, json=wider).raise_for_status()
    wait_until(lambda: limits(agent, dimension, **who) == {"namespace": rate + 1})
    pulsar.post(topic, json=body).raise_for_status()
    wait_until(lambda: limits(agent, dimension, **who) == {"topic": rate})
    pulsar.delete(topic).raise_for_status()
    wait_until(lambda: limits(agent, dimension, **who) == {"namespace": rate + 1})
    pulsar.delete(namespace).raise_for_status()
    wait_until(lambda: limits(agent, dimension, **who) == {})


def test_dispatch_an_agent_obeys_a_topics_rate_while_it_is_set(
    pulsar: httpx.Client, agent: Agent
) -> None:
    limiter = agent.limiter(topic=TOPIC)
    gate = limiter.handle("dispatch_messages")
    assert gate.try_acquire(1_000)
    pulsar.post(f"/persistent/{TOPIC}/dispatchRate", json=RATE).raise_for_status()
    wait_until(lambda: limits(agent, "dispatch_messages", topic=TOPIC) != {})
    partial = limiter.try_acquire_some(dispatch_messages=1_000)
    assert partial.admitted == 8.0  # 7, and one that is owed
    refused = gate.try_acquire()
    assert not refused
    assert refused.limit is not None
    assert (refused.limit.level, refused.limit.scope) == ("topic", "node")
    pulsar.delete(f"/persistent/{TOPIC}/dispatchRate").raise_for_status()
    wait_until(lambda: bool(gate.try_acquire(1_000)))


def test_dispatch_the_brokers_keys_and_flags_reach_a_dispatcher(
    pulsar: httpx.Client, agent: Agent
) -> None:
    reader = agent.dispatcher(topic=f"{TOPIC}-partition-0", subscription="billing")
    keys = {
        "dispatchThrottlingRateInMsg": "40",
        "dispatchThrottlingRatePerTopicInMsg": "30",
        "dispatchThrottlingRatePerSubscriptionInMsg": "20",
        "preciseDispatcherFlowControl": "true",
        "dispatchThrottlingOnNonBacklogConsumerEnabled": "false",
    }
    assert reader.options.on_non_backlog_consumer
    assert reader.entries_to_read(100, backlog=False) == 100
    for key, value in keys.items():
        path = f"/brokers/configuration/{key}/{value}"
        pulsar.post(path).raise_for_status()
    wait_until(lambda: not reader.options.on_non_backlog_consumer)
    assert reader.options.precise_flow_control
    assert reader.entries_to_read(100, backlog=False) == 100
    assert reader.entries_to_read(100) == 1  # nothing is known of entries yet
    reader.entries.note_dispatched(4)
    assert reader.entries_to_read(100) == 5
    for key in keys:
        pulsar.delete(f"/brokers/configuration/{key}").raise_for_status()
    wait_until(lambda: reader.options.on_non_backlog_consumer)
    assert reader.entries_to_read(100) == 100


def test_dispatch_bytes_and_debts_reach_a_dispatcher(
    pulsar: httpx.Client, agent: Agent
) -> None:
    path = f"/persistent/{TOPIC}/dispatchRate"
    rate = {"dispatchThrottlingRateInByte": 1_000, "ratePeriodInSecond": 3_600}
    pulsar.post(path, json=rate).raise_for_status()
    reader = agent.dispatcher(topic=TOPIC)
    wait_until(lambda: reader.entries_to_read(100) == 1)
    reader.published(1, messages=4, size=400)
    assert reader.entries_to_read(100) == 2
    reader.delivered(1, messages=1, size=30_000)
    assert reader.delay_s() / 3_600 == pytest.approx(29.0, abs=0.01)


def test_dispatch_policies_hold_while_the_api_is_away(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    settings = ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )
    with running(settings) as addresses:
        rest = f"{addresses.api}/api/v1"
        httpx.put(
            f"{rest}/tenants/acme", json={}, timeout=PATIENCE_S
        ).raise_for_status()
        httpx.put(
            f"{rest}/namespaces/acme/orders", json={}, timeout=PATIENCE_S
        ).raise_for_status()
        policy = {
            "level": "namespace",
            "target": "acme/orders",
            "kind": "publish",
            "policy": {"messages": 9},
        }
        httpx.put(
            f"{rest}/policies", json=policy, timeout=PATIENCE_S
        ).raise_for_status()
        with connect(addresses.api, agent="first", snapshot_path=path) as agent:
            wait_until(lambda: limits(agent, "publish_messages", topic=TOPIC) != {})
            wait_until(path.exists)
    with connect(addresses.api, agent="second", snapshot_path=path) as agent:
        wait_until(lambda: agent.status().source == "disk")
        wait_until(
            lambda: limits(agent, "publish_messages", topic=TOPIC) == {"namespace": 9.0}
        )
