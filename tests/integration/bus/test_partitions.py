"""Agents that share a topic cut by group read what they use, and no more."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Protocol, cast

import httpx
import kafka  # type: ignore[import-untyped, unused-ignore]  # has no types
import numpy as np
import pytest
from tests.integration.agent.rigs import Api
from tests.integration.bus.rigs import PATIENCE_S, connected, until

from headgate.agent import Agent, HeadgateError, Limiter, connect
from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.partitions import LOBBY, PartitionPlan
from headgate.agent.bus.port import BusSettings
from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.wire.codec import decode
from headgate.api import ServerSettings, running
from headgate.cli import main
from headgate.coordinator import Attachment, Configuration, Group, Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from tools.kafka_broker import Broker

PARTITIONS = 5
GOLD, SILVER = 1, 2
PLAN = PartitionPlan(PARTITIONS)
_numbers = count()


class Records(Protocol):
    """What is used of ``kafka.KafkaConsumer`` here."""

    def poll(self, timeout_ms: int) -> Mapping[Placed, Iterable[Written]]: ...

    def close(self) -> None: ...


class Placed(Protocol):
    """kafka-python's name of a partition."""

    partition: int


class Written(Protocol):
    """kafka-python's record."""

    value: bytes


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def settings(broker: Broker) -> BusSettings:
    """A topic of its own that is cut by group."""
    settings = BusSettings(
        kind="kafka",
        bootstrap=broker.bootstrap,
        topic=f"cut-by-group-{next(_numbers)}",
        options={"report_partitions": PARTITIONS},
    )
    ensure_topic(settings, TopicShape(partitions=PARTITIONS, retention_s=600.0))
    return settings


def configured(settings: BusSettings, *, revision: int, acme: int) -> Snapshot:
    """Return two groups; acme is attached to the group `acme`, blue to silver."""
    limit = Limit(dimension="requests", rate=1000.0, burst=1000.0)
    names = {GOLD: "gold", SILVER: "silver"}
    return Snapshot(
        configuration=Configuration(
            revision=revision,
            groups=tuple(
                Group(id=group, name=name, limits=(limit,))
                for group, name in names.items()
            ),
            attachments=(
                Attachment((("tenant", "acme"),), acme),
                Attachment((("tenant", "blue"),), SILVER),
            ),
        ),
        bus=settings,
    )


def place(group: int) -> int:
    """Return the partition of a group."""
    return int(PLAN.places(np.array([group]))[0])


def sharers(agent: Agent, group: str) -> set[str]:
    """Return whose rows of a group an agent has."""
    try:
        return {row.agent for row in agent.explain(group, "requests").agents}
    except HeadgateError:
        return set()


def join(url: str, name: str, stack: ExitStack) -> Agent:
    """Return an agent that is closed after the test."""
    agent = connect(url, agent=name, keep_snapshot=False, wait_s=PATIENCE_S)
    stack.callback(agent.close)
    return agent


def attempt_until(
    limiters: list[Limiter], condition: Callable[[], bool], what: str
) -> None:
    """Use every limiter again and again until `condition` holds."""

    def holds() -> bool:
        for limiter in limiters:
            limiter.try_acquire(requests=1)
        return condition()

    until(holds, what)


def test_an_agent_reads_the_partitions_of_its_groups_and_follows_attachments(
    settings: BusSettings, stack: ExitStack
) -> None:
    api = Api(configured(settings, revision=1, acme=GOLD))
    stack.callback(api.stop)
    tenants = {"first": "acme", "second": "acme", "other": "blue"}
    agents = [join(api.url, name, stack) for name in tenants]
    first, second, other = agents
    limiters = [
        agent.limiter(tenant=tenant)
        for agent, tenant in zip(agents, tenants.values(), strict=True)
    ]
    everyone = set(tenants)
    attempt_until(
        limiters,
        lambda: all({m.agent for m in a.status().members} == everyone for a in agents),
        "all to meet in the lobby",
    )
    gold, silver = (LOBBY, place(GOLD)), (LOBBY, place(SILVER))
    attempt_until(
        limiters,
        lambda: (
            [agent.status().reads for agent in agents] == [gold, gold, silver]
            and sharers(first, "gold") == sharers(second, "gold") == {"first", "second"}
            and sharers(other, "silver") == {"other"}
        ),
        "each to read what it uses",
    )
    api.set(configured(settings, revision=2, acme=SILVER))
    attempt_until(
        limiters,
        lambda: (
            place(SILVER) in first.status().reads
            and all(sharers(agent, "silver") == everyone for agent in agents)
        ),
        "all to share the other group",
    )
    assert all(agent.metrics().get("agent_failed_turns", 0) == 0 for agent in agents)
    assert_rows_are_at_their_place(settings)


def test_status_says_which_partitions_each_agent_reads(
    settings: BusSettings,
    stack: ExitStack,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = replace(settings, topic="told-by-status")
    ensure_topic(own, TopicShape(partitions=PARTITIONS, retention_s=600.0))
    where = ServerSettings(database=str(tmp_path / "headgate.db"), port=0, bus=own)
    url = stack.enter_context(running(where)).api
    monkeypatch.setenv("HEADGATE_URL", url)
    limit = {"dimension": "requests", "rate": 1000}
    document: dict[str, object] = {
        "tenants": {"acme": {}, "blue": {}},
        "groups": {name: {"limits": [limit]} for name in ("gold", "silver")},
        "attachments": [
            {"subject": {"tenant": "acme"}, "group": "gold"},
            {"subject": {"tenant": "blue"}, "group": "silver"},
        ],
    }
    httpx.post(f"{url}/api/v1/apply", json=document, timeout=60).raise_for_status()
    agents = [join(url, name, stack) for name in ("a", "b")]
    limiters = [agents[0].limiter(tenant="acme"), agents[1].limiter(tenant="blue")]

    def told() -> bool:
        assert main(["status", "--once"]) == 0
        said = capsys.readouterr().out
        lines = [
            f"{agent.id} reads partitions {', '.join(map(str, agent.status().reads))} "
            f"of {PARTITIONS}\n"
            for agent in agents
        ]
        return all(len(a.status().reads) == 2 for a in agents) and all(
            line in said for line in lines
        )

    attempt_until(limiters, told, "the status to say what each agent reads")


def assert_rows_are_at_their_place(settings: BusSettings) -> None:
    """Read the whole topic: a group's rows stand in one partition, not the lobby."""
    reader = cast(
        "Records",
        kafka.KafkaConsumer(
            settings.topic,
            bootstrap_servers=settings.bootstrap,
            auto_offset_reset="earliest",
            group_id=None,
        ),
    )
    seen: set[tuple[int, int]] = set()

    def enough() -> bool:
        for partition, records in reader.poll(timeout_ms=500).items():
            for record in records:
                for rows in decode(record.value).rows:
                    seen.update((partition.partition, g) for g in rows.group_ids)
        return {group for _, group in seen} == {GOLD, SILVER}

    until(enough, "rows of both groups")
    reader.close()
    assert seen == {(place(GOLD), GOLD), (place(SILVER), SILVER)}


def test_a_bus_goes_over_to_other_partitions_and_misses_nothing_of_those_it_keeps(
    settings: BusSettings, stack: ExitStack
) -> None:
    sender, reader = connected(settings), connected(settings)
    stack.callback(sender.close)
    stack.callback(reader.close)
    for read in ({0, 1}, {0, 2}, {0}):
        reader.read(frozenset(read))

        def followed(read: set[int] = read) -> bool:
            return {
                n for n in range(PARTITIONS) if reader.reads(frozenset({n}))
            } == read

        until(followed, f"{read} to be read")
        for number in range(3):
            sender.publish(f"to {number} while {read}".encode(), number)
        left = {f"to {number} while {read}".encode() for number in read}

        def complete(read: set[int] = read, left: set[bytes] = left) -> bool:
            heard = {message.payload for message in reader.receive(0.1)}
            assert all(int(payload[3:4]) in read for payload in heard)
            left -= heard
            return not left

        until(complete, "what was sent to the partitions that are read")


def test_a_topic_with_too_few_partitions_is_refused_by_name(
    settings: BusSettings, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = replace(settings, options={"report_partitions": PARTITIONS + 1})
    api = Api(configured(wrong, revision=1, acme=GOLD))
    stack.callback(api.stop)
    agent = join(api.url, "hopeful", stack)
    until(lambda: agent.metrics().get("bus_read_failures", 0) > 1, "the refusal")
    assert f"{settings.topic} has {PARTITIONS} partitions, expected" in caplog.text
