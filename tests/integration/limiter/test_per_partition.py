"""Groups and policies of a partitioned topic, from the real API to a real agent."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, TypeVar

import httpx
import pytest
from tests.integration.agent.rigs import PATIENCE_S

from headgate.agent import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headgate.agent import Agent, Limiter
    from headgate.api import Addresses

Seen = TypeVar("Seen")

TOPIC = "acme/orders/new"
HOUR = {"rate": 10, "period_s": 3_600}
"""Ten an hour: nothing comes back while a test runs."""


def partitions(agent: Agent, **who: str) -> list[Limiter]:
    """Return the limiters of two partitions, as a broker that serves both has them."""
    return [
        agent.limiter(topic=f"persistent://{TOPIC}-partition-{n}", **who)
        for n in (0, 1)
    ]


def admitted(limiter: Limiter, dimension: str) -> int:
    """Return how many of thirty are admitted."""
    return sum(bool(limiter.try_acquire(**{dimension: 1})) for _ in range(30))


def wait_for(look: Callable[[], Seen], holds: Callable[[Seen], bool]) -> None:
    """Look until `holds` is true of what is seen."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)


def wait_for_revision(agent: Agent, revision: int) -> None:
    wait_for(lambda: agent.status().revision or 0, lambda seen: seen >= revision)


def split_group(limit: Mapping[str, object], split: str) -> dict[str, object]:
    """Return a configuration: acme's topics divide the limit of one group."""
    return {
        "tenants": {"acme": {}},
        "groups": {"gold": {"limits": [limit], "split": split}},
        "attachments": [{"subject": {"tenant": "acme"}, "group": "gold"}],
    }


def halved(parts: list[list[float]], uneven: float) -> bool:
    """Return whether each agent has half of the quota, and the first divides it so."""
    return all(len(each) == 2 and 35.0 < sum(each) < 65.0 for each in parts) and (
        parts[0][1] == pytest.approx(uneven * parts[0][0], rel=0.4)
        and parts[1][1] == pytest.approx(parts[1][0], rel=0.1)
    )


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


def test_pip82_a_split_set_by_rest_is_followed_by_a_running_agent(
    server: Addresses, agent: Agent
) -> None:
    limit = {"dimension": "dispatch_messages", "rate": 100, "burst": 1000}
    document = split_group(limit, "even")
    with httpx.Client(base_url=f"{server.api}/api/v1", timeout=PATIENCE_S) as rest:
        rest.post("/apply", json=document).raise_for_status()
        busy, quiet = (agent.limiter(topic=f"acme/orders/{n}") for n in ("busy", "new"))

        def parts() -> dict[str, float]:
            """Attempt nine to one, and return what each topic may spend."""
            for limiter in (busy,) * 9 + (quiet,):
                limiter.try_acquire(dispatch_messages=1)
            return {
                one.group.removeprefix("gold of topic acme/orders/"): one.rate
                for one in agent.usage()
                if one.group != "gold"
            }

        def change(split: str | None) -> None:
            rest.patch("/groups/gold", json={"split": split}).raise_for_status()
            assert rest.get("/groups/gold").json()["split"] == split

        wait_for(
            parts, lambda each: len(each) == 2 and each["busy"] == each["new"] > 10.0
        )
        change("proportional")
        wait_for(parts, lambda each: each["busy"] > 3.0 * each["new"] > 0.0)
        change(None)
        wait_for(parts, lambda each: not each)
        refused = rest.patch("/groups/gold", json={"split": "odd"})
        assert refused.status_code == 422
        assert "split" in refused.text


def test_pip82_two_agents_divide_each_its_own_share_among_its_topics(
    server: Addresses, agent: Agent, tmp_path: Path
) -> None:
    limit = {"dimension": "requests", "rate": 100, "burst": 100}
    document = split_group(limit, "proportional")
    with (
        httpx.Client(base_url=f"{server.api}/api/v1", timeout=PATIENCE_S) as rest,
        connect(
            server.api,
            agent="broker-2",
            snapshot_path=tmp_path / "second.json",
            wait_s=PATIENCE_S,
        ) as second,
    ):
        rest.post("/apply", json=document).raise_for_status()
        attempts = {
            one: [
                (one.limiter(topic=f"acme/orders/{topic}"), count)
                for topic, count in counts.items()
            ]
            for one, counts in (
                (agent, {"busy": 36, "new": 4}),
                (second, {"busy": 20, "new": 20}),
            )
        }

        def parts() -> list[list[float]]:
            """Attempt more than the quota; return what each topic may spend."""
            for limiter, count in itertools.chain(*attempts.values()):
                for _ in range(count):
                    limiter.try_acquire(requests=1)
            return [
                sorted(each.rate for each in one.usage() if each.group != "gold")
                for one in attempts
            ]

        # Each topic has 5 % of the share; the other 90 % go by use, as nine to one.
        wait_for(parts, lambda each: halved(each, uneven=0.86 / 0.14))
        rest.patch("/groups/gold", json={"split": "even"}).raise_for_status()
        wait_for(parts, lambda each: halved(each, uneven=1.0))
