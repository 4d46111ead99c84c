"""PIP-82's name of the topic, set on a running API: its agents move to that topic."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import httpx
from tests.integration.agent.rigs import PATIENCE_S, until

from headgate.agent import connect
from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import BusSettings
from headgate.agent.wire.codec import decode
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from pathlib import Path

    from tools.kafka_broker import Broker

    from headgate.agent import Agent
    from headgate.agent.bus.port import Bus

NAME = "/admin/v2/brokers/configuration/resourceUsagePublishTopicName"


def settings(broker: Broker, topic: str) -> BusSettings:
    made = BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic=topic)
    ensure_topic(made, TopicShape(partitions=1, retention_s=600.0))
    return made


def authors(bus: Bus) -> set[str]:
    """Return whose reports are heard on a topic within a moment."""
    return {decode(message.payload).agent for message in bus.receive(0.2)}


def test_pip82_running_agents_move_to_the_named_topic_and_meet_there(
    broker: Broker, tmp_path: Path
) -> None:
    old, new = settings(broker, "usage-old"), settings(broker, "usage-new")
    where = ServerSettings(database=str(tmp_path / "headgate.db"), port=0, bus=old)
    with ExitStack() as stack:
        url = stack.enter_context(running(where)).api
        rest = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE_S))

        def join(name: str) -> Agent:
            agent = connect(url, agent=name, keep_snapshot=False, wait_s=PATIENCE_S)
            stack.callback(agent.close)
            return agent

        agents = [join("a"), join("b")]
        until(lambda: all(knows(one, {"a", "b"}) for one in agents), "both to meet")
        before = stack.enter_context(closing(open_bus(old)))
        after = stack.enter_context(closing(open_bus(new)))
        rest.post(f"{NAME}/{new.topic}").raise_for_status()
        found: set[str] = set()

        def heard() -> bool:
            found.update(authors(after))
            return {"a", "b"} <= found

        until(heard, "both to report on the named topic")
        until(lambda: not authors(before), "silence on the first one")
        agents.append(join("c"))  # it has never been anywhere else
        until(
            lambda: all(knows(one, {"a", "b", "c"}) for one in agents),
            "those that moved and the newcomer to hear each other",
        )


def knows(agent: Agent, names: set[str]) -> bool:
    return names <= {member.agent for member in agent.status().members}
