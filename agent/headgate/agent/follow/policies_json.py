"""Rate policies as they appear in a snapshot.

::

    {"broker": {KIND: POLICY}, "namespace": {NAME: {KIND: POLICY}}, "topic": {...},
     "options": {"precise_flow_control": false, ...}}

Unknown kinds are ignored; wrong values are errors.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.policies import RULES, DispatchOptions, Policies, RatePolicy
from headgate.agent.json_place import JsonPlace
from headgate.coordinator.config.configuration import UNLIMITED, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.follow.policies import Kind
    from headgate.agent.json_place import Json

OPTIONS = {
    "precise_flow_control": False,
    "on_batch_message": False,
    "on_non_backlog_consumer": True,
}
"""Fields of `DispatchOptions`, and their defaults."""


def policies_to_json(policies: Policies) -> dict[str, Json]:
    """Return `policies` as a member of a snapshot."""
    return {
        "broker": _kinds_to_json(policies.broker),
        "namespace": {n: _kinds_to_json(k) for n, k in policies.namespace.items()},
        "topic": {name: _kinds_to_json(k) for name, k in policies.topic.items()},
        "options": {name: getattr(policies.options, name) for name in OPTIONS},
    }


def policies_from_json(place: JsonPlace) -> Policies:
    """Return the policies at `place`.

    Raises:
        MalformedSnapshot: Something in them is wrong; says where.
    """
    broker, options = place.optional("broker"), place.optional("options")
    return Policies(
        broker=_kinds(broker) if broker else {},
        namespace=_named(place, "namespace"),
        topic=_named(place, "topic"),
        options=_options(options) if options else DispatchOptions(),
    )


def policies_from_changes(known: Policies, place: JsonPlace) -> Policies:
    """Return `known` with the policies at `place` replacing those of the same names.

    A name with null has no policy any more.

    Raises:
        MalformedSnapshot: As for `policies_from_json`.
    """
    changed = {level: place.optional(level) for level in ("namespace", "topic")}
    names = {
        level: dict(found.fields()) if found else {} for level, found in changed.items()
    }
    set_ = policies_from_json(
        JsonPlace(
            place.path,
            {
                "broker": place["broker"].value,
                "options": place["options"].value,
                **{
                    level: {n: p.value for n, p in found.items() if p.value is not None}
                    for level, found in names.items()
                },
            },
        )
    )
    return replace(
        set_,
        namespace=_replaced(known.namespace, names["namespace"], set_.namespace),
        topic=_replaced(known.topic, names["topic"], set_.topic),
    )


def _replaced(
    known: Mapping[str, Mapping[Kind, RatePolicy]],
    named: Mapping[str, JsonPlace],
    new: Mapping[str, Mapping[Kind, RatePolicy]],
) -> dict[str, Mapping[Kind, RatePolicy]]:
    kept = {name: kinds for name, kinds in known.items() if name not in named}
    return {**kept, **new}


def _kinds_to_json(kinds: Mapping[Kind, RatePolicy]) -> dict[str, Json]:
    return {
        kind: {
            "messages": _quantity(policy.messages),
            "bytes": _quantity(policy.bytes),
            "period_s": policy.period_s,
            "relative_to_publish_rate": policy.relative_to_publish_rate,
        }
        for kind, policy in kinds.items()
    }


def _quantity(value: float) -> Json:
    return value if isfinite(value) else "unlimited"


def _named(place: JsonPlace, level: str) -> dict[str, Mapping[Kind, RatePolicy]]:
    names = place.optional(level)
    return {name: _kinds(kinds) for name, kinds in names.fields()} if names else {}


def _kinds(place: JsonPlace) -> dict[Kind, RatePolicy]:
    return {
        kind: _policy(place[kind]) for kind in RULES if place.optional(kind) is not None
    }


def _policy(place: JsonPlace) -> RatePolicy:
    try:
        return RatePolicy(
            messages=place.quantity_or("messages", UNLIMITED),
            bytes=place.quantity_or("bytes", UNLIMITED),
            period_s=place.number("period_s", 1.0),
            relative_to_publish_rate=place.flag(
                "relative_to_publish_rate", default=False
            ),
        )
    except InvalidConfiguration as error:
        raise MalformedSnapshot(f"{place.path}.{error}") from None


def _options(place: JsonPlace) -> DispatchOptions:
    try:
        return DispatchOptions(
            **{name: place.flag(name, default=usual) for name, usual in OPTIONS.items()}
        )
    except InvalidConfiguration as error:
        raise MalformedSnapshot(f"{place.path}.{error}") from None
