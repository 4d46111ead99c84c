"""Policies of the broker: which keys of its configuration hold which rate.

Names are Pulsar's, where a rate of 0 means unlimited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.cli.failure import Misused

if TYPE_CHECKING:
    from collections.abc import Mapping

RATES: dict[str, tuple[str, str | None]] = {
    "dispatch": (
        "dispatchThrottlingRatePerTopicInMsg",
        "dispatchThrottlingRatePerTopicInByte",
    ),
    "subscription_dispatch": (
        "dispatchThrottlingRatePerSubscriptionInMsg",
        "dispatchThrottlingRatePerSubscriptionInByte",
    ),
    "replicator_dispatch": (
        "dispatchThrottlingRatePerReplicatorInMsg",
        "dispatchThrottlingRatePerReplicatorInByte",
    ),
    "publish": ("maxPublishRatePerTopicInMessages", "maxPublishRatePerTopicInBytes"),
    "subscribe": ("subscribeThrottlingRatePerConsumer", None),
    "broker_dispatch": (
        "dispatchThrottlingRateInMsg",
        "dispatchThrottlingRateInByte",
    ),
    "broker_publish": (
        "brokerPublisherThrottlingMaxMessageRate",
        "brokerPublisherThrottlingMaxByteRate",
    ),
}
"""Kind of policy → keys of its rates of messages and of bytes."""

RELATIVE = "dispatchThrottlingRateRelativeToPublishRate"
SUBSCRIBE_PERIOD = "subscribeRatePeriodPerConsumerInSecond"
DEFAULT_SUBSCRIBE_PERIOD = "30"

NONE = frozenset({"0", "-1", ""})
"""Values that stand for no rate."""

Policy = dict[str, object]


def keys_of(kind: str) -> list[str]:
    """Return all keys that make up a kind of policy."""
    keys = [key for key in RATES[kind] if key is not None]
    extra = {"dispatch": [RELATIVE], "subscribe": [SUBSCRIBE_PERIOD]}
    return keys + extra.get(kind, [])


def settings_of(kind: str, policy: Policy) -> dict[str, str]:
    """Return the settings that make up a policy of the broker.

    Args:
        kind: Such as ``dispatch``.
        policy: Members ``messages``, ``bytes``, ``period_s`` and
            ``relative_to_publish_rate``, each only if it was given.

    Raises:
        Misused: The broker's configuration can't express it.
    """
    messages_key, bytes_key = RATES[kind]
    settings = {messages_key: _rate("--messages", policy.get("messages"))}
    if bytes_key is not None:
        settings[bytes_key] = _rate("--bytes", policy.get("bytes"))
    elif "bytes" in policy:
        raise Misused("--bytes: not available for subscribe")
    period_s = policy.get("period_s")
    if kind == "subscribe" and period_s is not None:
        settings[SUBSCRIBE_PERIOD] = _whole("--period", period_s)
    elif period_s not in (None, 1.0):
        raise Misused("--period: for the broker, only subscribe has one")
    if kind == "dispatch":
        relative = bool(policy.get("relative_to_publish_rate"))
        settings[RELATIVE] = "true" if relative else "false"
    elif "relative_to_publish_rate" in policy:
        raise Misused(
            "--relative-to-publish-rate: for the broker, only dispatch has it"
        )
    return settings


def policies_in(settings: Mapping[str, str]) -> dict[str, Policy]:
    """Return kind → policy of the broker's settings."""
    found: dict[str, Policy] = {}
    for kind, keys in RATES.items():
        rates = [settings.get(key or "", "") for key in keys]
        if all(rate in NONE for rate in rates):
            continue
        period = settings.get(SUBSCRIBE_PERIOD, DEFAULT_SUBSCRIBE_PERIOD)
        found[kind] = {
            "messages": _units(rates[0]),
            "bytes": _units(rates[1]),
            "period_s": float(period) if kind == "subscribe" else 1.0,
            "relative_to_publish_rate": kind == "dispatch"
            and settings.get(RELATIVE) == "true",
        }
    return found


def _units(text: str) -> float | str:
    return "unlimited" if text in NONE else float(text)


def _rate(option: str, units: object) -> str:
    if units in (None, "unlimited"):
        return "0"
    if units == 0:
        raise Misused(
            f"{option} 0: for the broker, 0 means unlimited; expected 1 or more"
        )
    return _whole(option, units)


def _whole(option: str, number: object) -> str:
    if not isinstance(number, float) or not number.is_integer():
        raise Misused(f"{option} {number}: for the broker, expected a whole number")
    return str(int(number))
