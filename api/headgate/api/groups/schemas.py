"""Request and response schemas of groups on `/api/v1`."""

from collections.abc import Mapping
from math import inf
from typing import Annotated, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from headgate.api.values.quantities import (
    Quantity,
    ShownQuantity,
    quantity,
    unlimited_as_infinity,
)
from headgate.api.values.schemas import Body
from headgate.coordinator.config.configuration import (
    LEAST_PERIOD_S,
    MOST_SLOTS,
    NOMINAL_PERIOD_S,
    UNLIMITED,
    Isolation,
    Mode,
    Per,
    Period,
    Refusal,
    Scope,
    Split,
)

MAX_LIMITS = 64
"""Limits of one group; each is a bucket in each agent that uses it."""

MAX_OFFERS = 1000
"""Tenants that one group is offered to; a group for all is attached as a default."""

MAX_PERIOD_S = 366 * 86_400.0
"""A year: longer quotas are contracts, not rates."""

MAX_WEIGHT = 1e9
"""Beyond this the shares of light siblings are lost in rounding."""

LEAST_WEIGHT = 1e-9
"""A far lighter group would get a share of zero, and others an infinite one."""

_EXAMPLE: JsonDict = {
    "limits": [{"dimension": "requests", "rate": 1000.0, "burst": 1000.0}]
}

KAFKA_SAMPLES = 11
"""Kafka's `controller.quota.window.num`, when only the window is given."""

KAFKA_WINDOW_S = 1.0
"""Kafka's `controller.quota.window.size.seconds`, when only the samples are given."""

MAX_SAMPLES = 1_000_000
"""Most samples; a burst that holds days of quota is not a burst."""

PeriodS = Annotated[
    float, Field(ge=LEAST_PERIOD_S, le=MAX_PERIOD_S, allow_inf_nan=False)
]
Weight = Annotated[float, Field(ge=LEAST_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]
Samples = Annotated[int, Field(ge=1, le=MAX_SAMPLES)]
Slots = Annotated[int, Field(ge=0, le=MOST_SLOTS)]
Threshold = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class LimitBody(Body):
    """One dimension's limit; burst defaults to what one period lets through."""

    dimension: str = Field(description="What is counted; an identifier.")
    rate: Quantity = Field(description="Units per period; 0 lets nothing through.")
    burst: Quantity | None = Field(
        default=None, description="Units that may pass at once after an idle time."
    )
    period_s: PeriodS = Field(
        default=1.0, description="Length of the period in seconds."
    )
    period: Period | None = Field(
        default=None,
        description="Instead of period_s: a calendar period.  All of the rate may pass "
        "between one boundary and the next; a bucket admits up to twice as much.",
    )
    time_zone: str = Field(
        default="UTC", description="IANA time zone in which calendar periods begin."
    )
    scope: Scope = Field(
        default="cluster",
        description="cluster: all agents share the limit; node: each has all of it.",
    )
    minimum: Quantity = Field(
        default=0.0, description="Units per period set aside within the parent."
    )
    maximum: Quantity = Field(
        default=UNLIMITED, description="Most units per period taken from the parent."
    )
    samples: Samples | None = Field(
        default=None,
        exclude=True,
        description="Instead of burst, as in Kafka: rate·samples·window_s.",
    )
    window_s: PeriodS | None = Field(
        default=None,
        exclude=True,
        description="Length of a sample in seconds, as in Kafka.",
    )

    @model_validator(mode="after")
    def _set_calendar_period(self) -> Self:
        if self.period is None:
            return self
        mean_s = NOMINAL_PERIOD_S[self.period]
        if self.period_s not in {1.0, mean_s}:
            raise ValueError("expected period or period_s, but not both")
        if self.samples is not None or self.window_s is not None:
            raise ValueError("expected no samples or window_s with a calendar period")
        self.period_s = mean_s
        return self

    @model_validator(mode="after")
    def _set_kafkas_burst(self) -> Self:
        if self.samples is None and self.window_s is None:
            return self
        if self.burst is not None:
            raise ValueError("expected burst, or samples and window_s, but not both")
        samples = KAFKA_SAMPLES if self.samples is None else self.samples
        window_s = KAFKA_WINDOW_S if self.window_s is None else self.window_s
        if self.rate < inf:  # an unlimited one has no burst
            burst = self.rate / self.period_s * samples * window_s
            try:
                self.burst = quantity(burst)
            except ValueError as error:
                raise ValueError(f"burst of {burst:g}: {error}") from error
        return self

    @classmethod
    def stored(cls, document: Mapping[str, object]) -> Self:
        """Return a limit as an earlier version may have stored it, unchecked."""
        return cls.model_construct(None, **unlimited_as_infinity(document))


class LimitPatch(Body):
    """A change of one limit, found by dimension and scope; rate null removes it."""

    dimension: str
    scope: Scope = "cluster"
    rate: Quantity | None = None
    burst: Quantity | None = None
    period_s: PeriodS | None = None
    period: Period | None = None
    time_zone: str | None = None
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    samples: Samples | None = None
    window_s: PeriodS | None = None


class GroupBody(Body):
    """A whole group; what is left out has its default."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    limits: list[LimitBody] = Field(
        default=[],
        max_length=MAX_LIMITS,
        description="At most one per dimension and scope.",
    )
    parent: str | None = Field(
        default=None, description="Name of the group that this one is part of."
    )
    weight: Weight = Field(default=1.0, description="Weight among its siblings.")
    mode: Mode = Field(
        default="balanced", description="strict never exceeds rate·window + burst."
    )
    may_owe: bool = Field(
        default=True, description="Admit while the level is ≥ 0, then charge."
    )
    isolation: Isolation = Field(
        default="fair", description="What an agent may spend during a partition."
    )
    refusal: Refusal = Field(
        default="reject",
        description="What happens to a request when the group is exhausted.",
    )
    soft_threshold: Threshold | None = Field(
        default=None, description="Fraction of the rate above which callers are warned."
    )
    per_partition: bool = Field(
        default=False,
        description="Apply limits of scope node to each partition of a topic "
        "separately; limits of scope cluster always cover the whole topic.",
    )
    split: Split | None = Field(
        default=None,
        description="How each process divides its share among its topics: in equal "
        "parts, in proportion to their use, or (null) not at all.",
    )
    slots: Slots | None = Field(
        default=None,
        description="Most requests in flight at once in the cluster; null: no limit.",
    )
    per: Per | None = Field(
        default=None,
        description="Makes the group a template: its limits apply separately to each "
        "value of this part of the subject, such as each user, across the cluster; "
        "null: all share them.",
    )
    owner: str | None = Field(
        default=None, description="The tenant that owns the group, or null."
    )
    offered_to: list[str] = Field(
        default=[],
        max_length=MAX_OFFERS,
        description="Other tenants whose own operators may attach to it.",
    )

    @classmethod
    def stored(cls, document: Mapping[str, object]) -> Self:
        """Return a group as an earlier version may have stored it, unchecked.

        Whatever became a wrong value since must be shown, exported and replaced.
        """
        limits = cast("list[Mapping[str, object]]", document.get("limits", []))
        whole = {**document, "limits": [LimitBody.stored(limit) for limit in limits]}
        return cls.model_construct(None, **whole)


class GroupPut(GroupBody):
    """A whole group as GET gave it; `id` and `revision` can't be changed."""

    name: str | None = None
    id: int | None = None
    revision: int | None = None


class GroupPost(GroupBody):
    """A new group."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "gold", **_EXAMPLE}]}
    )

    name: str = Field(description="Unique; at most 256 characters, without a slash.")


class GroupPatch(Body):
    """A change of a group; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"limits": [{"dimension": "requests", "rate": 2000}]}]
        }
    )

    limits: list[LimitPatch] | None = Field(default=None, max_length=MAX_LIMITS)
    parent: str | None = None
    weight: Weight | None = None
    mode: Mode | None = None
    may_owe: bool | None = None
    isolation: Isolation | None = None
    refusal: Refusal | None = None
    soft_threshold: Threshold | None = None
    per_partition: bool | None = None
    split: Split | None = None
    slots: Slots | None = None
    per: Per | None = None
    owner: str | None = None
    offered_to: list[str] | None = Field(default=None, max_length=MAX_OFFERS)


class LimitShown(BaseModel):
    """A limit as it is stored."""

    dimension: str
    rate: ShownQuantity
    burst: ShownQuantity
    period_s: float
    period: Period | None = None
    time_zone: str
    scope: Scope
    minimum: ShownQuantity
    maximum: ShownQuantity


class GroupShown(BaseModel):
    """A group as it is stored."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": 1,
                    "name": "gold",
                    "limits": [
                        {
                            "dimension": "requests",
                            "rate": 1000.0,
                            "burst": 1000.0,
                            "period_s": 1.0,
                            "period": None,
                            "time_zone": "UTC",
                            "scope": "cluster",
                            "minimum": 0.0,
                            "maximum": "unlimited",
                        }
                    ],
                    "parent": "all",
                    "weight": 1.0,
                    "mode": "balanced",
                    "may_owe": True,
                    "isolation": "fair",
                    "refusal": "reject",
                    "soft_threshold": 0.8,
                    "per_partition": False,
                    "split": "even",
                    "slots": 20,
                    "owner": "acme",
                    "offered_to": [],
                    "revision": 3,
                }
            ]
        }
    )

    id: int = Field(description="Never reused, even after the group is deleted.")
    name: str
    limits: list[LimitShown]
    parent: str | None
    weight: float
    mode: Mode
    may_owe: bool
    isolation: Isolation
    refusal: Refusal
    soft_threshold: float | None
    per_partition: bool
    split: Split | None
    slots: int | None
    per: Per | None = None
    owner: str | None
    offered_to: list[str]
    revision: int = Field(description="Revision that last changed it; its ETag.")


class GroupPage(BaseModel):
    """Groups in order of their names."""

    items: list[GroupShown]
    next: str | None = Field(description="Give it as `after` for the next page.")
