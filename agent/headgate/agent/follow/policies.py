"""Pulsar's rate policies: which one applies to a topic, and who has its rate.

A *policy* is a rate of messages and a rate of bytes, set for the broker, a namespace or
a topic.  The narrowest one wins as a whole: a topic's policy that limits only messages
leaves its bytes unlimited, whatever its namespace says.  It is not a group: each topic
it applies to has the whole rate to itself, and so has each partition of a partitioned
topic (two partitions at 10/s make 20/s).  Each process enforces it on its own, as the
broker that owns the topic does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal

from headgate.agent.follow.subject import partitioned_topic
from headgate.coordinator.config.configuration import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.follow.subject import Subject

Level = Literal["broker", "namespace", "topic"]

LEVELS: tuple[Level, ...] = ("topic", "namespace", "broker")
"""Where a policy may be set, the winning level first."""

Kind = Literal[
    "broker_publish",
    "publish",
    "broker_dispatch",
    "dispatch",
    "subscription_dispatch",
    "replicator_dispatch",
    "subscribe",
]

Owner = tuple[str | None, ...]
"""The owner of a policy's rate; the first name is the topic's, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """Pulsar's DispatchRate (and PublishRate): messages and bytes per period.

    Attributes:
        messages: Per period; infinite for none (-1 on Pulsar's paths).
        bytes: Per period; infinite for none.
        period_s: `ratePeriodInSecond`.
        relative_to_publish_rate: The rates are added to the publish rate.
    """

    messages: float = inf
    bytes: float = inf
    period_s: float = 1.0
    relative_to_publish_rate: bool = False

    def __post_init__(self) -> None:
        for name in ("messages", "bytes"):
            if not getattr(self, name) >= 0:
                raise InvalidConfiguration(
                    name, f"expected >= 0, got {getattr(self, name)}"
                )
        if not (isfinite(self.period_s) and self.period_s > 0):
            raise InvalidConfiguration(
                "period_s", f"expected a finite number > 0, got {self.period_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """How dispatch is counted.

    Attributes:
        precise_flow_control: Estimate entries from average messages per entry
            (`preciseDispatcherFlowControl`).
        on_batch_message: An entry counts as one message
            (`dispatchThrottlingOnBatchMessageEnabled`).
        on_non_backlog_consumer: Throttle consumers without backlog too
            (`dispatchThrottlingOnNonBacklogConsumerEnabled`, true by default).
    """

    precise_flow_control: bool = False
    on_batch_message: bool = False
    on_non_backlog_consumer: bool = True

    def __post_init__(self) -> None:
        if self.precise_flow_control and self.on_batch_message:
            raise InvalidConfiguration(
                "on_batch_message",
                "expected false with precise_flow_control: an entry that counts as"
                " one message needs no estimate of its messages",
            )


@dataclass(frozen=True, slots=True)
class Rule:
    """What a kind of policy counts.

    Attributes:
        messages: Dimension limited by the policy's messages.
        bytes: Dimension limited by its bytes; None if there is none.
        names: Required fields of the subject; each combination of them has the rate to
            itself.  Empty if the whole process shares it.
        apart: Further fields that also tell owners apart; they may be missing.
        may_owe: Excess delivery becomes debt.
    """

    messages: str
    bytes: str | None
    names: tuple[str, ...]
    apart: tuple[str, ...] = ()
    may_owe: bool = True


_DISPATCH = ("dispatch_messages", "dispatch_bytes")
_PUBLISH = ("publish_messages", "publish_bytes")
_REPLICATION = ("replication_messages", "replication_bytes")

RULES: Mapping[Kind, Rule] = {
    "broker_publish": Rule(*_PUBLISH, ()),
    "publish": Rule(*_PUBLISH, ("topic",)),
    "broker_dispatch": Rule(*_DISPATCH, ()),
    "dispatch": Rule(*_DISPATCH, ("topic",)),
    "subscription_dispatch": Rule(*_DISPATCH, ("topic", "subscription")),
    # A replicator is identified by its client id: each has the rate to itself.
    "replicator_dispatch": Rule(*_REPLICATION, ("topic",), ("client",)),
    "subscribe": Rule(
        "subscribes", None, ("topic",), ("user", "client"), may_owe=False
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of one revision.

    Attributes:
        broker: By kind.
        namespace: By ``tenant/namespace``, then by kind.
        topic: By ``tenant/namespace/topic``, then by kind.
        options: How dispatch is counted.
    """

    broker: Mapping[Kind, RatePolicy] = field(default_factory=dict[Kind, RatePolicy])
    namespace: Mapping[str, Mapping[Kind, RatePolicy]] = field(
        default_factory=dict[str, "Mapping[Kind, RatePolicy]"]
    )
    topic: Mapping[str, Mapping[Kind, RatePolicy]] = field(
        default_factory=dict[str, "Mapping[Kind, RatePolicy]"]
    )
    options: DispatchOptions = field(default_factory=DispatchOptions)

    def winning(self, kind: Kind, topic: str | None) -> tuple[Level, RatePolicy] | None:
        """Return the policy that applies to a topic, and the level at which it was set.

        Args:
            kind: What the policy throttles.
            topic: ``tenant/namespace/topic``; a partition has its topic's policy.
                None for the policy that all topics of a process share.
        """
        given: dict[Level, RatePolicy] = {}
        if topic is not None:
            namespace = "/".join(topic.split("/", 2)[:2])
            own = self.topic.get(topic, {}).get(kind) or self.topic.get(
                partitioned_topic(topic), {}
            ).get(kind)
            if own is not None:
                given["topic"] = own
            shared = self.namespace.get(namespace, {}).get(kind)
            if shared is not None:
                given["namespace"] = shared
        if kind in self.broker:
            given["broker"] = self.broker[kind]
        for level in LEVELS:
            if level in given:
                return level, given[level]
        return None

    def apply_to(self, topic: str | None) -> bool:
        """Return whether any policy applies to a topic, or to the whole process."""
        kinds = RULES if topic is not None else self.broker
        return any(self.winning(kind, topic) is not None for kind in kinds)


NO_POLICIES = Policies()
"""Limits nothing."""


def owner_of(kind: Kind, subject: Subject) -> Owner | None:
    """Return the owner of a subject's rate of some kind; None if it has none."""
    rule = RULES[kind]
    names = tuple(_name(subject, field) for field in rule.names)
    if None in names:
        return None
    return names + tuple(_name(subject, field) for field in rule.apart)


def _name(subject: Subject, field: str) -> str | None:
    name: str | None = getattr(subject, field)
    return name
