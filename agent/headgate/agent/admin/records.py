"""What the API says about groups, attachments and their changes, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, TypedDict, get_args

from headgate.coordinator.config.configuration import (
    UNLIMITED,
    Isolation,
    Mode,
    Per,
    Period,
    Refusal,
    Scope,
    Split,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.json_place import Json, JsonPlace


class AttachedNames(TypedDict, total=False):
    """A subject: one kind and its name, or ``user`` and ``client`` together.

    A name of None is the default of that kind, for all that have no attachment of their
    own.
    """

    cluster: str | None
    tenant: str | None
    namespace: str | None
    topic: str | None
    subscription: str | None
    user: str | None
    client: str | None


class GroupOptions(TypedDict, total=False):
    """Everything about a group except its name and its limits; all optional.

    Attributes:
        parent: Name of the group that this one is part of; None for no group.
        weight: Of this group among its siblings; > 0.
        mode: ``strict`` never exceeds rate x window + burst; ``balanced`` by default.
        may_owe: Admit while the level is ≥ 0 and then charge.
        isolation: What an agent that is cut off may spend.
        refusal: What happens to a caller when the group is exhausted.
        soft_threshold: Part of the rate (0-1] above which callers are warned.
        per_partition: Each partition of a topic has the limits of scope node to itself.
        split: How each process divides its share among its topics; None for not at all.
        owner: The tenant that it belongs to; None for nobody.
        offered_to: Further tenants whose operators may attach to it.
        slots: Requests in flight at once, across the whole cluster; None for any
            number.
        per: The part of a subject whose every value has the limits to itself; None for
            limits shared by all.
    """

    parent: str | None
    weight: float
    mode: Mode
    may_owe: bool
    isolation: Isolation
    refusal: Refusal
    soft_threshold: float | None
    per_partition: bool
    split: Split | None
    owner: str | None
    offered_to: list[str]
    slots: int | None
    per: Per | None


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """A limit as a user writes it; the API checks it.

    Attributes:
        dimension: What is counted, such as ``requests``.
        rate: Units per period; 0 lets nothing through, ``math.inf`` everything.
        burst: Units that may pass at once after a quiet time; None for what one period
            lets through.  The API always answers with a number.
        period_s: Length of the period that `rate` counts for, seconds.
        period: A calendar period instead: ``minute``, ``hour``, ``day``,
            ``week``, ``month`` or ``year``.
        time_zone: IANA name of the zone in which calendar periods begin.
        scope: ``cluster`` shares the limit among all agents, ``node`` gives all of it
            to each.
        minimum: Units per period set aside inside the parent group.
        maximum: Units per period that the group may take from its parent.
    """

    dimension: str
    rate: float
    burst: float | None = None
    period_s: float = 1.0
    period: Period | None = None
    time_zone: str = "UTC"
    scope: Scope = "cluster"
    minimum: float = 0.0
    maximum: float = UNLIMITED

    def to_json(self) -> dict[str, Json]:
        """Return it as the API reads it; infinity becomes ``unlimited``."""
        return {
            "dimension": self.dimension,
            "rate": quantity(self.rate),
            "burst": None if self.burst is None else quantity(self.burst),
            "period_s": self.period_s,
            "period": self.period,
            "time_zone": self.time_zone,
            "scope": self.scope,
            "minimum": quantity(self.minimum),
            "maximum": quantity(self.maximum),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group as it is stored.

    Attributes:
        name: Unique.
        id: Never reused, even after the group is deleted.
        limits: At most one per dimension and scope.
        options: The rest, as `Admin.put_group` takes it.
        revision: The revision that last changed it.
    """

    name: str
    id: int
    limits: tuple[LimitSpec, ...]
    options: GroupOptions
    revision: int

    def limit(self, dimension: str, scope: Scope = "cluster") -> LimitSpec | None:
        """Return the limit of a dimension, or None."""
        for one in self.limits:
            if (one.dimension, one.scope) == (dimension, scope):
                return one
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """One agent's part of the slots in flight of a group.

    Attributes:
        agent: Its id.
        owned: Slots that it may hand out at present.
        in_use: Slots that its callers hold.
        wanted: Slots that its callers hold or ask for.
    """

    agent: str
    owned: int
    in_use: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsRecord:
    """The holders of a group's slots in flight.

    Attributes:
        group: Its name.
        slots: Requests in flight at once; None if the group does not limit them.
        in_use: Slots that are held, as the agents last reported.
        holders: The agents that hold, want or may hand out slots, by id.
    """

    group: str
    slots: int | None
    in_use: int
    holders: tuple[SlotHolder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRecord:
    """A subject and the group that it belongs to.

    Attributes:
        subject: Kind → name, such as ``{"tenant": "acme"}``.
        group: Name of the group.
        own: Whether the tenant's own operator attached it.
        revision: The revision that last changed it.
    """

    subject: Mapping[str, str | None]
    group: str
    own: bool
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """One thing that a revision changed.

    Attributes:
        kind: Such as ``group`` or ``attachment``.
        key: The group's name, the subject as JSON.
        before: What it was; None if it was created.
        after: What it is now; None if it was deleted.
    """

    kind: str
    key: str
    before: Mapping[str, Json] | None
    after: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One revision: who changed what, when and from where.

    Attributes:
        revision: Its number.
        at_s: When, seconds since the epoch.
        author: Subject of the token, or ``anonymous``.
        address: Where the request came from.
        action: What was asked, such as ``PUT /api/v1/groups/gold``.
        changes: What changed.
        omitted: Number of further changes, which `changes` leaves out.
    """

    revision: int
    at_s: float
    author: str
    address: str
    action: str
    changes: tuple[ChangeRecord, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan:
    """What `Admin.apply` changed, or would change.

    Attributes:
        revision: The one in force now.
        dry_run: Whether nothing was changed.
        changes: Empty if nothing had to change.
    """

    revision: int
    dry_run: bool
    changes: tuple[ChangeRecord, ...] = field(repr=False)


def quantity(value: float) -> float | str:
    """Return a number of units as it is written in JSON; the API refuses all else."""
    return "unlimited" if value == inf else value


def group_from_json(place: JsonPlace) -> GroupRecord:
    """Return the group in an answer; unknown fields are ignored."""
    parent, owner = place.optional("parent"), place.optional("owner")
    threshold = place.optional("soft_threshold")
    slots, split = place.optional("slots"), place.optional("split")
    per = place.optional("per")
    return GroupRecord(
        name=place["name"].text(),
        id=place["id"].integer(least=1),
        limits=tuple(_limit(one) for one in place.items("limits")),
        options=GroupOptions(
            parent=parent and parent.text(),
            weight=place.number("weight", 1.0),
            mode=place.choice("mode", get_args(Mode), "balanced"),
            may_owe=place.flag("may_owe", default=True),
            isolation=place.choice("isolation", get_args(Isolation), "fair"),
            refusal=place.choice("refusal", get_args(Refusal), "reject"),
            soft_threshold=threshold and threshold.number(),
            per_partition=place.flag("per_partition", default=False),
            split=split and place.choice("split", get_args(Split), None),
            owner=owner and owner.text(),
            offered_to=list(place.texts("offered_to")),
            slots=slots and slots.integer(least=0),
            per=per and place.choice("per", get_args(Per), None),
        ),
        revision=place["revision"].integer(least=0),
    )


def slots_from_json(place: JsonPlace) -> SlotsRecord:
    """Return the holders of slots in an answer."""
    slots = place.optional("slots")
    return SlotsRecord(
        group=place["group"].text(),
        slots=slots and slots.integer(least=0),
        in_use=place["in_use"].integer(least=0),
        holders=tuple(
            SlotHolder(
                agent=one["agent"].text(),
                owned=one["owned"].integer(least=0),
                in_use=one["in_use"].integer(least=0),
                wanted=one["wanted"].integer(least=0),
            )
            for one in place.items("agents")
        ),
    )


def attachment_from_json(place: JsonPlace) -> AttachmentRecord:
    """Return the attachment in an answer."""
    return AttachmentRecord(
        subject={
            kind: None if name.value is None else name.text()
            for kind, name in place["subject"].fields()
        },
        group=place["group"].text(),
        own=place.flag("own", default=False),
        revision=place["revision"].integer(least=0),
    )


def audit_from_json(place: JsonPlace) -> AuditRecord:
    """Return the revision in an answer."""
    return AuditRecord(
        revision=place["revision"].integer(least=0),
        at_s=place["at_s"].number(),
        author=place["author"].text(),
        address=place.text_or("address", ""),
        action=place["action"].text(),
        changes=_changes(place),
        omitted=0
        if (left := place.optional("omitted")) is None
        else left.integer(least=0),
    )


def plan_from_json(place: JsonPlace) -> AppliedPlan:
    """Return the plan in an answer."""
    return AppliedPlan(
        revision=place["revision"].integer(least=0),
        dry_run=place.flag("dry_run", default=False),
        changes=_changes(place),
    )


def _changes(place: JsonPlace) -> tuple[ChangeRecord, ...]:
    return tuple(
        ChangeRecord(
            kind=one["kind"].text(),
            key=one["key"].text(),
            before=_object(one, "before"),
            after=_object(one, "after"),
        )
        for one in place.items("changes")
    )


def _object(place: JsonPlace, name: str) -> Mapping[str, Json] | None:
    found = place.optional(name)
    return found and {field: one.value for field, one in found.fields()}


def _limit(place: JsonPlace) -> LimitSpec:
    return LimitSpec(
        dimension=place["dimension"].text(),
        rate=place["rate"].quantity(),
        burst=place["burst"].quantity(),
        period_s=place.number("period_s", 1.0),
        period=place.choice("period", get_args(Period), None)
        if place.optional("period")
        else None,
        time_zone=place.text_or("time_zone", "UTC"),
        scope=place.choice("scope", get_args(Scope), "cluster"),
        minimum=place.quantity_or("minimum", 0.0),
        maximum=place.quantity_or("maximum", UNLIMITED),
    )
