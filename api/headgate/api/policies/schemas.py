"""Schemas of a rate policy: request, response and snapshot."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.groups.schemas import PeriodS
from headgate.api.values.quantities import Quantity, unlimited_as_infinity
from headgate.api.values.schemas import Body
from headgate.coordinator.config.configuration import UNLIMITED

Level = Literal["namespace", "topic"]

Kind = Literal[
    "dispatch", "subscription_dispatch", "replicator_dispatch", "publish", "subscribe"
]
"""The operation a policy throttles; `subscribe` counts subscribes of one consumer."""


class Policy(Body):
    """A rate of messages and one of bytes, which apply to each topic separately."""

    messages: Quantity = Field(
        default=UNLIMITED, description="Messages per period; for `subscribe`, attempts."
    )
    bytes: Quantity = Field(default=UNLIMITED, description="Bytes per period.")
    period_s: PeriodS = 1.0
    relative_to_publish_rate: bool = Field(
        default=False, description="Add the current publish rate to the rates."
    )

    @classmethod
    def stored(cls, document: Mapping[str, object]) -> Self:
        """Return a policy as an earlier version may have stored it, unchecked."""
        return cls.model_construct(None, **unlimited_as_infinity(document))


class PolicyPut(Body):
    """A policy and where it should apply."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "level": "namespace",
                    "target": "acme/orders",
                    "kind": "dispatch",
                    "policy": {"messages": 100, "period_s": 1},
                }
            ]
        }
    )

    level: Level
    target: str = Field(description="tenant/namespace, or tenant/namespace/topic.")
    kind: Kind
    policy: Policy


class PolicyShown(BaseModel):
    """A policy as it is stored."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "level": "namespace",
                    "target": "acme/orders",
                    "kind": "dispatch",
                    "policy": {
                        "messages": 100.0,
                        "bytes": "unlimited",
                        "period_s": 1.0,
                        "relative_to_publish_rate": False,
                    },
                    "revision": 5,
                }
            ]
        }
    )

    level: Level
    target: str
    kind: Kind
    policy: Policy
    revision: int = Field(description="Revision that last changed it; its ETag.")


class PolicyPage(BaseModel):
    """Policies in order of level, target and kind."""

    items: list[PolicyShown]
    next: str | None = Field(description="Give it as `after` for the next page.")


class SettingPut(Body):
    """The text that a key of the dynamic configuration is set to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "1000"}]})

    text: str


class SettingShown(BaseModel):
    """A key of the dynamic configuration that is set."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"key": "dispatchThrottlingRateInMsg", "text": "1000", "revision": 6}
            ]
        }
    )

    key: str
    text: str
    revision: int = Field(description="Revision that last changed it; its ETag.")


class EffectivePolicy(BaseModel):
    """The policy that applies to a topic, and where it comes from."""

    level: Literal["broker", "namespace", "topic"] | None
    policy: Policy
