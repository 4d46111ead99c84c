"""Kafka's own id of a topic, which tells it from a later topic of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from headgate.pipeline.tables.jvm import java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

TIMEOUT_S = 60
"""Time for the answer, with the client's own retries: a broker may be restarting."""

REQUEST_S = 20
"""Time for one request; Kafka's client refuses more than the whole."""

_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic that has none: all zero."""


class _MakeProperties(Protocol):
    def __call__(self) -> _Properties: ...


class _Properties(Protocol):
    def setProperty(self, name: str, value: str) -> object: ...


class _MakeList(Protocol):
    def __call__(self, one: str) -> object: ...


class _MakeAdmin(Protocol):
    def __call__(self, settings: _Properties) -> _Admin: ...


class _Admin(Protocol):
    """The part of Kafka's ``AdminClient`` that is used, through Spark's connector."""

    def describeTopics(self, names: object) -> _Described: ...

    def close(self) -> None: ...


class _Described(Protocol):
    def topicNameValues(self) -> Mapping[str, _Future]: ...


class _Future(Protocol):
    def get(self, timeout: int, unit: object) -> _Topic: ...


class _Topic(Protocol):
    def topicId(self) -> object: ...


def topic_id(
    session: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]
) -> str:
    """Return Kafka's id of a topic; empty if the topic has none (before Kafka 2.8).

    Args:
        session: With the Kafka connector.
        bootstrap: Kafka's servers.
        topic: Name of the topic.
        options: Of Spark's Kafka source, such as ``kafka.security.protocol``.
            Its timeouts are not used.

    Raises:
        Py4JError: Kafka can't be reached, or has no such topic.
        PySparkException: The same, for errors that Spark has a name for.
    """
    settings = cast("_MakeProperties", java(session, "java.util.Properties"))()
    settings.setProperty("bootstrap.servers", bootstrap)
    for name, value in options.items():
        if name.startswith("kafka."):
            settings.setProperty(name.removeprefix("kafka."), value)
    settings.setProperty("default.api.timeout.ms", str(1000 * TIMEOUT_S))
    settings.setProperty("request.timeout.ms", str(1000 * REQUEST_S))
    clients = "org.apache.kafka.clients.admin.AdminClient"
    admin = cast("_MakeAdmin", java(session, f"{clients}.create"))(settings)
    try:
        listed = cast(
            "_MakeList", java(session, "java.util.Collections.singletonList")
        )(topic)
        described = admin.describeTopics(listed).topicNameValues()[topic]
        seconds = java(session, "java.util.concurrent.TimeUnit.SECONDS")
        found = str(described.get(TIMEOUT_S, seconds).topicId())
    finally:
        admin.close()
    return "" if found == _NONE else found
