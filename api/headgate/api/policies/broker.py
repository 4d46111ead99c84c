"""The broker's level of policies: Pulsar's dynamic configuration, by name.

A rate of 0 (Pulsar's default) or −1 there means none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.names import MAX_NAME, checked_path_name

MAX_RATE = 2**63 - 1
"""Range of Pulsar's 64-bit settings."""

MAX_INTERVAL_S = 3600
"""An hour; agents refuse a longer interval between reports."""

Switch = Literal[
    "preciseDispatcherFlowControl",
    "dispatchThrottlingOnBatchMessageEnabled",
    "dispatchThrottlingOnNonBacklogConsumerEnabled",
]

OPTIONS: Mapping[str, str] = {
    "preciseDispatcherFlowControl": "precise_flow_control",
    "dispatchThrottlingOnBatchMessageEnabled": "on_batch_message",
    "dispatchThrottlingOnNonBacklogConsumerEnabled": "on_non_backlog_consumer",
}
"""Switches → options of dispatch in a snapshot."""

ON_BY_DEFAULT = frozenset({"dispatchThrottlingOnNonBacklogConsumerEnabled"})
"""Switches that are true unless they are set, as in Pulsar."""

EXCLUSIVE = (
    "preciseDispatcherFlowControl",
    "dispatchThrottlingOnBatchMessageEnabled",
)
"""Refused together: if an entry counts as one message, there is nothing to estimate."""

PUBLISH_INTERVAL = "resourceUsagePublishIntervalInSecs"
PUBLISH_TOPIC = "resourceUsagePublishTopicName"
PUBLISH_TO_TOPIC = "resourceUsagePublishToTopic"
PUBLISH_CYCLES = "resourceUsageMaxUsageReportSuppressRounds"
"""N of PIP-82: usage is published at the latest every N intervals, changed or not."""

MAX_CYCLES = 1_000
"""Most intervals between two full reports: a quarter of an hour at one a second."""

RELATIVE = "dispatchThrottlingRateRelativeToPublishRate"
SUBSCRIBE_PERIOD = "subscribeRatePeriodPerConsumerInSecond"


@dataclass(frozen=True, slots=True)
class BrokerDefault:
    """The broker policy, and its member, that a key sets."""

    policy: str
    member: str


RATES: Mapping[str, BrokerDefault] = {
    "dispatchThrottlingRateInMsg": BrokerDefault("broker_dispatch", "messages"),
    "dispatchThrottlingRateInByte": BrokerDefault("broker_dispatch", "bytes"),
    "dispatchThrottlingRatePerTopicInMsg": BrokerDefault("dispatch", "messages"),
    "dispatchThrottlingRatePerTopicInByte": BrokerDefault("dispatch", "bytes"),
    "dispatchThrottlingRatePerSubscriptionInMsg": BrokerDefault(
        "subscription_dispatch", "messages"
    ),
    "dispatchThrottlingRatePerSubscriptionInByte": BrokerDefault(
        "subscription_dispatch", "bytes"
    ),
    "dispatchThrottlingRatePerReplicatorInMsg": BrokerDefault(
        "replicator_dispatch", "messages"
    ),
    "dispatchThrottlingRatePerReplicatorInByte": BrokerDefault(
        "replicator_dispatch", "bytes"
    ),
    "maxPublishRatePerTopicInMessages": BrokerDefault("publish", "messages"),
    "maxPublishRatePerTopicInBytes": BrokerDefault("publish", "bytes"),
    "brokerPublisherThrottlingMaxMessageRate": BrokerDefault(
        "broker_publish", "messages"
    ),
    "brokerPublisherThrottlingMaxByteRate": BrokerDefault("broker_publish", "bytes"),
    "subscribeThrottlingRatePerConsumer": BrokerDefault("subscribe", "messages"),
}
"""Keys that are rates; `broker_…` policies count all of one broker together."""

KEYS = tuple(
    sorted(
        (
            *RATES,
            *OPTIONS,
            PUBLISH_INTERVAL,
            PUBLISH_TOPIC,
            PUBLISH_TO_TOPIC,
            PUBLISH_CYCLES,
            RELATIVE,
            SUBSCRIBE_PERIOD,
        )
    )
)
"""All keys that can be set."""


def check_setting(key: str, text: str) -> None:
    """Check that `key` may be set to `text`, whatever else is set.

    Raises:
        NotFound: There is no such key.
        Invalid: The text is not a valid value.
    """
    if key in RATES:
        _checked_integer(key, text, least=-1, largest=MAX_RATE)
    elif key in {PUBLISH_INTERVAL, SUBSCRIBE_PERIOD}:
        _checked_integer(key, text, least=1, largest=MAX_INTERVAL_S)
    elif key == PUBLISH_CYCLES:
        _checked_integer(key, text, least=1, largest=MAX_CYCLES)
    elif key == PUBLISH_TOPIC:
        checked_path_name(text, key, longest=MAX_NAME)
    elif key in KEYS:
        if text not in {"true", "false"}:
            raise Invalid(key, f"expected true or false, got {text[:40]!a}")
    else:
        raise NotFound("setting", key[:MAX_NAME])


def check_together(settings: Mapping[str, str], changed: str = EXCLUSIVE[0]) -> None:
    """Check that none of `settings` excludes another.

    Args:
        settings: All that are set.
        changed: The key that is to blame, if one of two is.

    Raises:
        Invalid: One does.
    """
    if all(settings.get(name) == "true" for name in EXCLUSIVE):
        raise Invalid(changed, f"not together with {_other(changed)}")


def broker_policies(settings: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return the broker's policies by kind, as a snapshot shows them."""
    policies: dict[str, dict[str, object]] = {}
    for key, place in RATES.items():
        rate = int(settings.get(key, "0"))
        if rate > 0:
            policy = policies.setdefault(place.policy, _unlimited())
            policy[place.member] = float(rate)
    if "subscribe" in policies:
        policies["subscribe"]["period_s"] = float(settings.get(SUBSCRIBE_PERIOD, "30"))
    if settings.get(RELATIVE) == "true" and "dispatch" in policies:
        policies["dispatch"]["relative_to_publish_rate"] = True
    return policies


def dispatch_options(settings: Mapping[str, str]) -> dict[str, bool]:
    """Return the options of dispatch, as a snapshot shows them."""
    return {
        name: settings.get(key, str(key in ON_BY_DEFAULT).lower()) == "true"
        for key, name in OPTIONS.items()
    }


def with_reporting(
    fixed: Mapping[str, object], settings: Mapping[str, str]
) -> dict[str, object]:
    """Return a snapshot's members `bus` and `report` with the settings applied."""
    changed = dict(fixed)
    report = dict(cast("Mapping[str, object]", fixed.get("report") or {}))
    if PUBLISH_INTERVAL in settings:
        report["interval_s"] = float(settings[PUBLISH_INTERVAL])
    if PUBLISH_CYCLES in settings:
        report["keyframe_every"] = int(settings[PUBLISH_CYCLES])
    changed["report"] = report
    bus = fixed.get("bus")
    if settings.get(PUBLISH_TO_TOPIC) == "false":
        changed["bus"] = None
    elif PUBLISH_TOPIC in settings and isinstance(bus, dict) and "topic" in bus:
        changed["bus"] = {**bus, "topic": settings[PUBLISH_TOPIC]}
    return changed


def refused_settings(bus: object) -> dict[str, str]:
    """Return the keys that can't be set with a snapshot's `bus`, and why."""
    kind = cast("Mapping[str, object]", bus).get("kind") if bus else None
    if kind != "zeromq":
        return {}
    return {
        PUBLISH_TOPIC: "expected a bus with topics: the ZeroMQ bus has none, so agents"
        " can't switch to another; use Kafka (headgate up --bus kafka://HOST:PORT)"
    }


def _unlimited() -> dict[str, object]:
    return {
        "messages": "unlimited",
        "bytes": "unlimited",
        "period_s": 1.0,
        "relative_to_publish_rate": False,
    }


def _checked_integer(key: str, text: str, *, least: int, largest: int) -> None:
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 20
    if is_number and least <= int(text) <= largest:
        return
    raise Invalid(
        key, f"expected an integer from {least} to {largest}, got {text[:40]!a}"
    )


def _other(key: str) -> str:
    return EXCLUSIVE[1] if key == EXCLUSIVE[0] else EXCLUSIVE[0]
