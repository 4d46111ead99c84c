"""Groups and policies of a partitioned topic, from the real API to a real agent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.integration.agent.rigs import PATIENCE_S

from headgate.agent import connect
from headgate.api import Addresses, ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headgate.agent import Agent, Limiter

TOPIC = "acme/orders/new"
HOUR = {"rate": 10, "period_s": 3_600}
"""Ten an hour: nothing comes back while a test runs."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Addresses]:
    settings = ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )
    with running(settings) as addresses:
        yield addresses


@pytest.fixture
def agent(server: Addresses, tmp_path: Path) -> Iterator[Agent]:
    with connect(
        server.api,
        agent="broker-1",
        snapshot_path=tmp_path / "snapshot.json",
        wait_s=PATIENCE_S,
    ) as agent:
        yield agent


def partitions(agent: Agent, **who: str) -> list[Limiter]:
    """Return the limiters of two partitions, as a broker that serves both has them."""
    return [
        agent.limiter(topic=f"persistent://{TOPIC}-partition-{n}", **who)
        for n in (0, 1)
    ]


def admitted(limiter: Limiter, dimension: str) -> int:
    """Return how many of thirty are admitted."""
    return sum(bool(limiter.try_acquire(**{dimension: 1})) for _ in range(30))


def wait_for_revision(agent: Agent, revision: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (agent.status().revision or 0) < revision:
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


@pytest.mark.parametrize(("per_partition", "together"), [(True, 20), (False, 10)])
def test_each_partition_has_the_whole_limit_where_the_group_says_so(
    server: Addresses, agent: Agent, per_partition: bool, together: int
) -> None:
    """As Pulsar's brokers count dispatch: two partitions at 10 make 20."""
    limit = {"dimension": "dispatch_messages", "scope": "node", **HOUR}
    group = {"limits": [limit], "per_partition": per_partition, "may_owe": False}
    document: dict[str, object] = {
        "tenants": {"acme": {}},
        "namespaces": ["acme/orders"],
        "groups": {"gold": group},
        "attachments": [{"subject": {"namespace": "acme/orders"}, "group": "gold"}],
    }
    answer = httpx.post(f"{server.api}/api/v1/apply", json=document, timeout=PATIENCE_S)
    answer.raise_for_status()
    wait_for_revision(agent, answer.json()["revision"])
    first, second = (admitted(one, "dispatch_messages") for one in partitions(agent))
    assert (first, first + second) == (10, together)
    shown = httpx.get(f"{server.api}/api/v1/groups/gold", timeout=PATIENCE_S).json()
    assert shown["per_partition"] is per_partition


@pytest.mark.parametrize(
    ("kind", "dimension"),
    [
        ("dispatch", "dispatch_messages"),
        ("subscription_dispatch", "dispatch_messages"),
        ("replicator_dispatch", "replication_messages"),
        ("publish", "publish_messages"),
    ],
)
def test_a_topics_policy_reaches_each_partition_which_has_the_whole_rate(
    server: Addresses, agent: Agent, kind: str, dimension: str
) -> None:
    target = {"level": "topic", "target": f"persistent://{TOPIC}", "kind": kind}
    rate = {"messages": HOUR["rate"], "period_s": HOUR["period_s"]}
    document: dict[str, object] = {
        "tenants": {"acme": {}},
        "namespaces": ["acme/orders"],
        "policies": [{**target, "policy": rate}],
    }
    with httpx.Client(base_url=f"{server.api}/api/v1", timeout=PATIENCE_S) as rest:
        answer = rest.post("/apply", json=document)
        answer.raise_for_status()
        wait_for_revision(agent, answer.json()["revision"])
        first, second = partitions(agent, subscription="billing", client="c1")
        levels = [
            [x.limit.level for x in p.chain(dimension).links] for p in (first, second)
        ]
        assert levels == [["topic"], ["topic"]]
        taken = [
            p.try_acquire_some(**{dimension: 1_000}).admitted for p in (first, second)
        ]
        assert taken[0] == taken[1]
        assert 10 <= taken[0] <= 11  # a policy of dispatch lets one be owed
        query = {"topic": f"{TOPIC}-partition-0", "kind": kind}
        applies = rest.get("/policies/effective", params=query).json()
        assert (applies["level"], applies["policy"]["messages"]) == ("topic", 10)
        own = {**target, "target": f"{TOPIC}-partition-0", "policy": {"messages": 3}}
        rest.put("/policies", json=own).raise_for_status()
        applies = rest.get("/policies/effective", params=query).json()
        assert applies["policy"]["messages"] == 3
