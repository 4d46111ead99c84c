"""Whether an existing topic can carry reports; used by `headgate bus init`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from headgate.agent.bus.kafka import client as kafka_client
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headgate.agent.bus.kafka.topic import TopicShape
    from headgate.agent.bus.port import BusSettings

AT_LEAST = ("max.message.bytes",)
"""Options for which a larger value than wanted does no harm."""

FATAL = ("cleanup.policy", "max.message.bytes")
"""Options whose wrong values lose reports: compaction keeps one per key, and a large
report is refused.  The others cost disk space, or trust."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a topic differs from what would be created.

    Attributes:
        name: ``partitions``, ``replication`` or an option of Kafka.
        found: Present value.
        wanted: Value according to `TopicShape`.
        fatal: Reports can't be carried with it.
    """

    name: str
    found: str
    wanted: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.name} is {self.found}, expected {self.wanted}"


class _Partition(TypedDict):
    replica_nodes: list[int]


class _Topic(TypedDict):
    partitions: list[_Partition]


class _Entry(TypedDict):
    value: str


class _Admin(Protocol):
    """The part of ``kafka.KafkaAdminClient`` used here."""

    def describe_topics(self, topics: list[str]) -> list[_Topic]: ...

    def describe_configs(
        self, config_resources: list[object], *, config_filter: str
    ) -> Mapping[str, Mapping[str, Mapping[str, _Entry]]]: ...


def differences(settings: BusSettings, shape: TopicShape) -> list[Difference]:
    """Return how the topic of `settings` differs from `shape`, the worst first.

    Raises:
        BusUnavailable: No broker answered, the broker refused, or there is no such
            topic.
    """
    with kafka_client.administrator(settings) as client:
        admin = cast("_Admin", client)
        (topic,) = admin.describe_topics([settings.topic])
        options = admin.describe_configs([_resource(settings)], config_filter="all")
        found = options["topic"].get(settings.topic, {})
    if not topic["partitions"]:
        raise BusUnavailable(f"kafka: there is no topic {settings.topic}")
    said = _of_partitions(topic["partitions"], shape)
    said += [
        Difference(name, found[name]["value"], wanted, name in FATAL)
        for name, wanted in shape.options().items()
        if name in found and not _suffices(name, found[name]["value"], wanted)
    ]
    return sorted(said, key=lambda one: not one.fatal)


def _of_partitions(partitions: list[_Partition], shape: TopicShape) -> list[Difference]:
    """Return how the numbers of partitions and copies differ."""
    said: list[Difference] = []
    count, copies = len(partitions), len(partitions[0]["replica_nodes"])
    if count != shape.partitions:
        fewer = count < shape.partitions
        said.append(Difference("partitions", f"{count}", f"{shape.partitions}", fewer))
    if copies != shape.replication:
        said.append(
            Difference("replication", f"{copies}", f"{shape.replication}", fatal=False)
        )
    return said


def _suffices(name: str, found: str, wanted: str) -> bool:
    """Return whether an option has the wanted value, or a better one."""
    return found == wanted or (name in AT_LEAST and int(found) >= int(wanted))


def _resource(settings: BusSettings) -> object:
    """Return kafka-python's object for the topic's configuration."""
    names = import_module("kafka.admin")
    make = cast("Callable[[object, str], object]", names.ConfigResource)
    return make(names.ConfigResourceType.TOPIC, settings.topic)
