"""The snapshot: what the API answers comes out of JSON as it went in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import BusUnavailable, MalformedSnapshot
from headgate.agent.follow.snapshot import (
    Snapshot,
    snapshot_from_json,
    snapshot_to_json,
)
from headgate.coordinator.config.configuration import (
    LEAST_UNITS,
    SUBJECT_KINDS,
    UNLIMITED,
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from headgate.agent.json_place import Json

ZEROMQ = BusSettings(kind="zeromq", publish=("tcp://a:1",), subscribe=("tcp://a:2",))
GOLD = Group(
    id=1, name="gold", limits=(Limit(dimension="requests", rate=1000.0, burst=1000.0),)
)

rates = st.one_of(st.just(0.0), st.floats(LEAST_UNITS, 1e12), st.just(UNLIMITED))


@st.composite
def limits(draw: st.DrawFn, dimension: str) -> Limit:
    maximum = draw(rates)
    return Limit(
        dimension=dimension,
        rate=draw(rates),
        burst=draw(st.one_of(st.floats(0.001, 1e12), st.just(UNLIMITED))),
        period_s=draw(st.floats(0.001, 1e7)),
        scope=draw(st.sampled_from(("cluster", "node"))),
        minimum=draw(st.sampled_from((0.0, min(maximum, 1e12)))),
        maximum=maximum,
    )


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    groups: list[Group] = []
    for number in range(draw(st.integers(0, 4))):
        names = draw(st.lists(st.sampled_from(("requests", "tokens")), unique=True))
        parents = [None, *(group.id for group in groups)]
        groups.append(
            Group(
                id=number * 7 + 1,
                name=draw(st.text(min_size=1, max_size=9)),
                limits=tuple(draw(limits(name)) for name in names),
                parent=draw(st.sampled_from(parents)),
                weight=draw(st.floats(0.001, 1e6)),
                mode=draw(st.sampled_from(("balanced", "strict"))),
                may_owe=draw(st.booleans()),
                isolation=draw(st.sampled_from(("fair", "hold", "closed", "open"))),
                refusal=draw(st.sampled_from(("reject", "delay", "wait", "shadow"))),
                soft_threshold=draw(st.none() | st.floats(0.01, 1)),
                per_partition=draw(st.booleans()),
            )
        )
    kinds = st.lists(st.sampled_from(SUBJECT_KINDS), min_size=1, unique=True)
    names_of = st.none() | st.text(min_size=1, max_size=5)
    subjects = draw(
        st.lists(
            kinds.map(lambda ks: tuple(k for k in SUBJECT_KINDS if k in ks)).flatmap(
                lambda ks: st.tuples(*(st.tuples(st.just(k), names_of) for k in ks))
            ),
            max_size=3 if groups else 0,
            unique=True,
        )
    )
    return Configuration(
        revision=draw(st.integers(0, 1 << 40)),
        cluster=draw(st.text(min_size=1, max_size=9)),
        groups=tuple(groups),
        attachments=tuple(
            Attachment(subject, draw(st.sampled_from(groups)).id)
            for subject in subjects
        ),
    )


@pytest.mark.long
@given(configurations(), st.floats(0.01, 60))
def test_a_snapshot_survives_json(
    configuration: Configuration, interval_s: float
) -> None:
    snapshot = Snapshot(
        configuration=configuration, bus=ZEROMQ, report_interval_s=interval_s
    )
    text = json.dumps(snapshot_to_json(snapshot), allow_nan=False)
    assert snapshot_from_json(json.loads(text)) == snapshot


@pytest.mark.parametrize(
    "bus",
    [
        None,
        ZEROMQ,
        BusSettings(
            kind="zeromq", publish=("tcp://a:1", "tcp://b:1"), subscribe=("x", "y")
        ),
        BusSettings(
            kind="kafka", bootstrap="h:1,i:2", options={"security_protocol": "SSL"}
        ),
        BusSettings(kind="memory", topic="hub", max_age_s=3.0),
    ],
)
def test_the_settings_of_each_bus_survive_json(bus: BusSettings | None) -> None:
    snapshot = Snapshot(configuration=Configuration(), bus=bus)
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot


def document(**changes: Json) -> dict[str, Json]:
    """Return a valid snapshot of one group, with `changes` to its top level."""
    snapshot = Snapshot(configuration=Configuration(groups=(GOLD,)), bus=ZEROMQ)
    return {**snapshot_to_json(snapshot), **changes}


def group(**changes: Json) -> dict[str, Json]:
    """Return a valid group with `changes`."""
    return {"id": 1, "name": "gold", "limits": [], **changes}


def limit(**changes: Json) -> dict[str, Json]:
    """Return a valid limit with `changes`."""
    return {"dimension": "requests", "rate": 5, "burst": 5, **changes}


def groups_with(**changes: Json) -> dict[str, Json]:
    """Return a snapshot whose only group's only limit has `changes`."""
    return document(groups=[group(limits=[limit(**changes)])])


def attached(subject: Json, group: Json = 1) -> dict[str, Json]:
    """Return a snapshot with one attachment."""
    return document(attachments=[{"subject": subject, "group": group}])


def test_unknown_fields_are_ignored() -> None:
    changed = document(
        color="blue", groups=[group(shape=1, limits=[limit(taste=[None])])]
    )
    assert snapshot_from_json(changed).configuration.groups[0].name == "gold"


def test_missing_fields_take_their_defaults() -> None:
    read = snapshot_from_json({"revision": 3, "cluster": "c", "groups": [group()]})
    assert read.configuration.groups == (Group(id=1, name="gold", limits=()),)
    assert read.bus is None


def test_the_default_of_a_subject_has_null_as_its_name() -> None:
    read = snapshot_from_json(attached({"client": None, "user": "alice"}))
    subject = read.configuration.attachments[0].subject
    assert subject == (("user", "alice"), ("client", None)), "in the order of kinds"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "snapshot: expected an object, got []"),
        ({}, "revision: expected a whole number, got nothing"),
        (document(revision=-1), "revision: expected a whole number from 0"),
        (document(revision=True), "revision: expected a whole number, got True"),
        (document(cluster=""), "cluster: expected a non-empty string, got ''"),
        (document(groups={}), "groups: expected a list, got {}"),
        (document(groups=[3]), "groups[0]: expected an object, got 3"),
        (document(groups=[group(id=0)]), "groups[0].id: expected a whole number"),
        (document(groups=[group(), group()]), "groups[1].id: expected an id that is"),
        (document(groups=[group(parent=9)]), "groups[0].parent: expected the id"),
        (document(groups=[group(parent=1)]), "groups[0].parent: expected the id"),
        (document(groups=[group(weight=0)]), "groups[0].weight: expected a finite"),
        (document(groups=[group(mode="x")]), "groups[0].mode: expected one of bal"),
        (document(groups=[group(may_owe=1)]), "groups[0].may_owe: expected true"),
        (document(groups=[group(soft_threshold=2)]), "groups[0].soft_threshold: exp"),
        (document(groups=[group(name="n" * 99, limits="")]), "groups[0].limits: expe"),
        (groups_with(rate=-1), "groups[0].limits[0].rate: expected ≥ 0, got -1"),
        (groups_with(rate="much"), 'rate: expected a number or "unlimited", got \'mu'),
        (groups_with(rate=float("nan")), "limits[0].rate: expected a finite number"),
        (groups_with(rate=10**400), "limits[0].rate: expected a finite number, got 1"),
        (groups_with(burst=0), "groups[0].limits[0].burst: expected > 0, got 0"),
        (groups_with(period_s=0), "groups[0].limits[0].period_s: expected a finite"),
        (groups_with(dimension="a b"), "limits[0].dimension: expected an identifier"),
        (groups_with(scope="world"), "limits[0].scope: expected one of cluster, node"),
        (groups_with(minimum=3, maximum=2), "limits[0].minimum: expected ≤ maximum"),
        (attached({}), "attachments[0].subject: expected at least one kind"),
        (attached({"planet": "x"}), "attachments[0].subject.planet: expected a kind"),
        (attached({"tenant": 5}), "attachments[0].subject.tenant: expected a non-"),
        (attached({"tenant": "a"}, 8), "attachments[0].group: expected the id of"),
        (document(bus={"kind": "pigeon"}), "bus.kind: expected one of memory"),
        (document(bus={"kind": "zeromq"}), "bus: zeromq: expected `publish`"),
        (document(bus={"kind": "kafka"}), "bus: kafka: expected `bootstrap`"),
        (document(report={"interval_s": 0}), "report.interval_s: expected a number"),
        (
            document(report={"keyframe_every": 0}),
            "report.keyframe_every: expected a whole number",
        ),
        (
            document(report={"keyframe_every": 1_001}),
            "report.keyframe_every: expected a whole number from 1 to",
        ),
        (document(report={"interval_s": "1"}), "report.interval_s: expected a number"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(wrong: Json, message: str) -> None:
    with pytest.raises(MalformedSnapshot) as refusal:
        snapshot_from_json(wrong)
    assert message in str(refusal.value)


def test_a_long_wrong_value_is_shown_in_part() -> None:
    with pytest.raises(MalformedSnapshot) as refusal:
        snapshot_from_json(document(revision="x" * 10_000))
    assert len(str(refusal.value)) < 150


def test_a_subject_can_be_attached_only_once() -> None:
    twice: list[Json] = [{"subject": {"tenant": "a"}, "group": 1}] * 2
    with pytest.raises(MalformedSnapshot, match=r"attachments\[1\].subject"):
        snapshot_from_json(document(attachments=twice))


@pytest.mark.parametrize("max_age_s", [0.0, -1.0, float("nan")])
def test_the_settings_of_a_bus_are_checked_where_they_are_made(
    max_age_s: float,
) -> None:
    with pytest.raises(BusUnavailable, match="max_age_s"):
        BusSettings(kind="memory", max_age_s=max_age_s)
