"""The configuration as JSON: the API's answer, and what agents keep on disk.

It holds one revision of everything: groups, attachments, policies, and the bus.  Field
names are those of `headgate.coordinator.config.configuration`; an infinite number is
written ``"unlimited"``; the default of a kind of subject has null as its name.
Unknown fields are ignored.  A wrong value is an error that names its path, and nothing
of that snapshot is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import get_args

from headgate.agent.bus.port import BusKind, BusSettings
from headgate.agent.errors import BusUnavailable, MalformedSnapshot
from headgate.agent.follow.periods import UnknownTimeZone, zone_of
from headgate.agent.follow.policies import NO_POLICIES, Policies
from headgate.agent.follow.policies_json import (
    policies_from_changes,
    policies_from_json,
    policies_to_json,
)
from headgate.agent.json_place import Json, JsonPlace
from headgate.coordinator.config.configuration import (
    SUBJECT_KINDS,
    UNLIMITED,
    Attachment,
    Configuration,
    Group,
    InvalidConfiguration,
    Isolation,
    Limit,
    Mode,
    Per,
    Period,
    Refusal,
    Scope,
    Split,
)

DEFAULT_REPORT_INTERVAL_S = 1.0
"""T of the design: one heartbeat a second."""

DEFAULT_KEYFRAME_EVERY = 10
"""A lost row costs little until then: a row that changes is sent again sooner."""

MAX_KEYFRAME_EVERY = 1_000
"""A quarter of an hour at one a second; more is a mistake of units."""

MAX_REPORT_INTERVAL_S = 3_600.0
"""An hour; a longer interval is a mistake of units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that an agent needs to know, at one revision.

    Attributes:
        configuration: Groups and attachments.
        bus: How to reach the other agents; None without a bus, when each agent is on
            its own.
        report_interval_s: T, seconds between two heartbeats.
        keyframe_every: N of PIP-82: intervals from one report of all usage, changed
            or not, to the next.
        policies: Rates that each topic has to itself.
    """

    configuration: Configuration
    bus: BusSettings | None = None
    report_interval_s: float = field(default=DEFAULT_REPORT_INTERVAL_S)
    keyframe_every: int = field(default=DEFAULT_KEYFRAME_EVERY)
    policies: Policies = field(default=NO_POLICIES)


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Json]:
    """Return `snapshot` as a JSON document; the inverse of `snapshot_from_json`."""
    document = configuration_to_json(snapshot.configuration)
    document["bus"] = None if snapshot.bus is None else _bus_to_json(snapshot.bus)
    document["report"] = {
        "interval_s": snapshot.report_interval_s,
        "keyframe_every": snapshot.keyframe_every,
    }
    document["policies"] = policies_to_json(snapshot.policies)
    return document


def snapshot_from_json(document: object) -> Snapshot:
    """Return the snapshot in `document`, a parsed JSON value.

    Raises:
        MalformedSnapshot: Something in it is wrong; says where and what was
            expected.
    """
    top = JsonPlace.top(document)
    configuration = configuration_from_json(document)
    bus = top.optional("bus")
    policies = top.optional("policies")
    return Snapshot(
        configuration=configuration,
        bus=bus and _bus_from_json(bus),
        report_interval_s=_interval_s(top),
        keyframe_every=_keyframe_every(top),
        policies=policies_from_json(policies) if policies else NO_POLICIES,
    )


def snapshot_from_changes(known: Snapshot, document: object) -> Snapshot:
    """Return `known` with what `document` says has changed since.

    Its members are those of a whole snapshot, holding only what is new or changed, and
    in addition ``since``, the revision at which the changes begin, ``groups_gone``
    (names) and ``detached`` (subjects).  In ``policies``, a name with null has no
    policy any more.  Everything is given in its final state, so it doesn't matter if
    `known` already has some of the changes.

    Raises:
        MalformedSnapshot: As for `snapshot_from_json`, or the changes begin at a later
            revision.
    """
    top = JsonPlace.top(document)
    if top["since"].integer(least=0) > known.configuration.revision:
        raise top["since"].wrong(f"at most {known.configuration.revision}")
    bus, policies = top.optional("bus"), top.optional("policies")
    return Snapshot(
        configuration=Configuration(
            revision=top["revision"].integer(least=0),
            cluster=top["cluster"].text(),
            groups=(groups := _changed_groups(known.configuration.groups, top)),
            attachments=_changed_attachments(known.configuration, groups, top),
        ),
        bus=bus and _bus_from_json(bus),
        report_interval_s=_interval_s(top),
        keyframe_every=_keyframe_every(top),
        policies=policies_from_changes(known.policies, policies)
        if policies
        else known.policies,
    )


def configuration_to_json(configuration: Configuration) -> dict[str, Json]:
    """Return `configuration` as the first members of a snapshot."""
    return {
        "revision": configuration.revision,
        "cluster": configuration.cluster,
        "groups": [_group_to_json(group) for group in configuration.groups],
        "attachments": [
            {"subject": dict(attachment.subject), "group": attachment.group}
            for attachment in configuration.attachments
        ],
    }


def configuration_from_json(document: object) -> Configuration:
    """Return the groups and attachments of a snapshot.

    Raises:
        MalformedSnapshot: As for `snapshot_from_json`.
    """
    top = JsonPlace.top(document)
    groups = [(place, _group(place)) for place in top.items("groups")]
    known: dict[int, Group] = {}
    for place, group in groups:
        if group.id in known:
            raise place["id"].wrong("an id that is used only once")
        known[group.id] = group
    _check_tree(groups, known)
    attachments = [(place, _attachment(place)) for place in top.items("attachments")]
    seen: set[tuple[tuple[str, str | None], ...]] = set()
    for place, attachment in attachments:
        if attachment.group not in known:
            raise place["group"].wrong("the id of an existing group")
        if attachment.subject in seen:
            raise place["subject"].wrong("a subject that is attached only once")
        seen.add(attachment.subject)
    return Configuration(
        revision=top["revision"].integer(least=0),
        cluster=top["cluster"].text(),
        groups=tuple(group for _, group in groups),
        attachments=tuple(attachment for _, attachment in attachments),
    )


def _group_to_json(group: Group) -> Json:
    """Return one group."""
    return {
        "id": group.id,
        "name": group.name,
        "limits": [_limit_to_json(limit) for limit in group.limits],
        "parent": group.parent,
        "weight": group.weight,
        "mode": group.mode,
        "may_owe": group.may_owe,
        "isolation": group.isolation,
        "refusal": group.refusal,
        "soft_threshold": group.soft_threshold,
        "per_partition": group.per_partition,
        "split": group.split,
        "slots": group.slots,
        "per": group.per,
    }


def _limit_to_json(limit: Limit) -> Json:
    """Return one limit."""
    return {
        "dimension": limit.dimension,
        "rate": _quantity(limit.rate),
        "burst": _quantity(limit.burst),
        "period_s": limit.period_s,
        "period": limit.period,
        "time_zone": limit.time_zone,
        "scope": limit.scope,
        "minimum": _quantity(limit.minimum),
        "maximum": _quantity(limit.maximum),
    }


def _changed_groups(known: tuple[Group, ...], top: JsonPlace) -> tuple[Group, ...]:
    """Return the groups; one with the name of an earlier one replaces it."""
    groups = {group.name: group for group in known}
    for place in top.items("groups_gone"):
        groups.pop(place.text(), None)
    for place in top.items("groups"):
        group = _group(place)
        earlier = groups.get(group.name)
        if earlier is not None and earlier.id != group.id:
            del groups[group.name]  # created again: it comes last, as ids grow
        groups[group.name] = group
    by_id = {group.id: group for group in groups.values()}
    if len(by_id) < len(groups):
        raise top["groups"].wrong("ids that are used only once")
    _check_tree([(top, group) for group in by_id.values()], by_id)
    return tuple(groups.values())


def _changed_attachments(
    known: Configuration, groups: tuple[Group, ...], top: JsonPlace
) -> tuple[Attachment, ...]:
    """Return the attachments, all to existing groups."""
    attachments = {each.subject: each for each in known.attachments}
    for place in top.items("detached"):
        attachments.pop(_subject(place), None)
    for place in top.items("attachments"):
        attachment = _attachment(place)
        attachments[attachment.subject] = attachment
    ids = {group.id for group in groups}
    if not all(each.group in ids for each in attachments.values()):
        raise top["attachments"].wrong("ids of existing groups")
    return tuple(attachments.values())


def _interval_s(top: JsonPlace) -> float:
    """Return the report interval of a snapshot."""
    report = top.optional("report")
    interval = report and report.optional("interval_s")
    if not interval:
        return DEFAULT_REPORT_INTERVAL_S
    interval_s = interval.number()
    if not 0 < interval_s <= MAX_REPORT_INTERVAL_S:
        raise interval.wrong(f"a number > 0, at most {MAX_REPORT_INTERVAL_S:g}")
    return interval_s


def _keyframe_every(top: JsonPlace) -> int:
    """Return the intervals between two full reports of a snapshot."""
    report = top.optional("report")
    every = report and report.optional("keyframe_every")
    if not every:
        return DEFAULT_KEYFRAME_EVERY
    number = every.integer(least=1)
    if number > MAX_KEYFRAME_EVERY:
        raise every.wrong(f"a whole number from 1 to {MAX_KEYFRAME_EVERY}")
    return number


def _quantity(value: float) -> Json:
    """Return a number as JSON can hold it."""
    return value if isfinite(value) else "unlimited"


def _group(place: JsonPlace) -> Group:
    """Return the group at `place`."""
    parent, soft = place.optional("parent"), place.optional("soft_threshold")
    slots, split = place.optional("slots"), place.optional("split")
    per = place.optional("per")
    limits = tuple(_limit(limit) for limit in place.items("limits"))
    soft_threshold = soft and soft.number()
    if soft and not 0 < soft.number() <= 1:
        raise soft.wrong("a number > 0, at most 1")
    try:
        return Group(
            id=place["id"].integer(least=1),
            name=place["name"].text(),
            limits=limits,
            parent=parent and parent.integer(least=1),
            weight=place.number("weight", 1.0),
            mode=place.choice("mode", get_args(Mode), "balanced"),
            may_owe=place.flag("may_owe", default=True),
            isolation=place.choice("isolation", get_args(Isolation), "fair"),
            refusal=place.choice("refusal", get_args(Refusal), "reject"),
            soft_threshold=soft_threshold,
            per_partition=place.flag("per_partition", default=False),
            split=split and place.choice("split", get_args(Split), None),
            slots=slots and slots.integer(least=0),
            per=per and place.choice("per", get_args(Per), None),
        )
    except InvalidConfiguration as error:
        raise MalformedSnapshot(f"{place.path}.{error}") from None


def _limit(place: JsonPlace) -> Limit:
    """Return the limit at `place`."""
    period = place.optional("period")
    zone = place.text_or("time_zone", "UTC")
    try:
        if period:
            zone_of(zone)
        return Limit(
            dimension=place["dimension"].text(),
            rate=place["rate"].quantity(),
            burst=place["burst"].quantity(),
            period_s=place.number("period_s", 1.0),
            period=place.choice("period", get_args(Period), None) if period else None,
            time_zone=zone,
            scope=place.choice("scope", get_args(Scope), "cluster"),
            minimum=place.quantity_or("minimum", 0.0),
            maximum=place.quantity_or("maximum", UNLIMITED),
        )
    except UnknownTimeZone as error:
        raise MalformedSnapshot(f"{place.path}.time_zone: {error}") from None
    except InvalidConfiguration as error:
        raise MalformedSnapshot(f"{place.path}.{error}") from None


def _check_tree(groups: list[tuple[JsonPlace, Group]], known: dict[int, Group]) -> None:
    """Raise for parents that don't exist, and for cycles."""
    for place, group in groups:
        ancestor, steps = group.parent, 0
        while ancestor is not None:
            steps += 1
            if ancestor not in known or steps > len(known):
                raise place["parent"].wrong(
                    "the id of an existing group that is not a descendant"
                )
            ancestor = known[ancestor].parent


def _attachment(place: JsonPlace) -> Attachment:
    """Return the attachment at `place`."""
    return Attachment(_subject(place["subject"]), place["group"].integer(least=1))


def _subject(subject: JsonPlace) -> tuple[tuple[str, str | None], ...]:
    """Return the subject at a place, its kinds in their usual order."""
    names: dict[str, str | None] = {}
    for kind, name in subject.fields():
        if kind not in SUBJECT_KINDS:
            raise name.wrong(f"a kind among {', '.join(SUBJECT_KINDS)}")
        names[kind] = None if name.value is None else name.text()
    if not names:
        raise subject.wrong("at least one kind and name")
    return tuple((kind, names[kind]) for kind in SUBJECT_KINDS if kind in names)


def _bus_to_json(bus: BusSettings) -> Json:
    """Return the settings of a bus, as its kind needs them."""
    document: dict[str, Json] = {"kind": bus.kind, "max_age_s": bus.max_age_s}
    if bus.kind == "zeromq":
        document["publish"] = _one_or_many(bus.publish)
        document["subscribe"] = _one_or_many(bus.subscribe)
    else:
        document["topic"] = bus.topic
    if bus.kind == "kafka":
        document["bootstrap"] = bus.bootstrap
    document["options"] = dict(bus.options)
    return document


def _one_or_many(addresses: tuple[str, ...]) -> Json:
    """Return one address as a string, several as a list."""
    return addresses[0] if len(addresses) == 1 else list(addresses)


def _bus_from_json(place: JsonPlace) -> BusSettings:
    """Return the settings of the bus at `place`."""
    options = place.optional("options")
    try:
        return BusSettings(
            kind=place.choice("kind", get_args(BusKind), None),
            publish=place.texts("publish"),
            subscribe=place.texts("subscribe"),
            bootstrap=place.text_or("bootstrap", ""),
            topic=place.text_or("topic", "headgate-usage"),
            options=_options(options) if options else {},
            max_age_s=place.number("max_age_s", 10.0),
        )
    except BusUnavailable as error:
        raise MalformedSnapshot(f"{place.path}: {error}") from None


def _options(place: JsonPlace) -> dict[str, Json]:
    """Return the options of a bus: any JSON values."""
    return {name: value.value for name, value in place.fields()}
