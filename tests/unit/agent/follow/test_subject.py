"""Which groups apply: names that imply others, precedence, Kafka's order, trees."""

from __future__ import annotations

from itertools import combinations

import pytest

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import InvalidSubject
from headgate.agent.follow.subject import Key, Subject, applying_groups, resolve_subject
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

RESOURCES = (
    (("topic", "acme/orders/new"),),
    (("namespace", "acme/orders"),),
    (("tenant", "acme"),),
    (("topic", None),),
    (("namespace", None),),
    (("tenant", None),),
)
"""Strongest first."""

KAFKA = (
    (("user", "alice"), ("client", "etl")),
    (("user", "alice"), ("client", None)),
    (("user", "alice"),),
    (("user", None), ("client", "etl")),
    (("user", None), ("client", None)),
    (("user", None),),
    (("client", "etl"),),
    (("client", None),),
)
"""Kafka's eight kinds of entity, strongest first (KIP-599, KIP-546)."""

SUBSCRIPTION = (
    (("topic", "acme/orders/new"), ("subscription", "billing")),
    (("subscription", "billing"),),
    (("subscription", None),),
)


@pytest.mark.parametrize("family", [RESOURCES, KAFKA, SUBSCRIPTION])
def test_kip599_of_every_combination_of_attachments_the_strongest_applies(
    family: tuple[tuple[tuple[str, str | None], ...], ...],
) -> None:
    subject = resolve_subject(
        topic="acme/orders/new", subscription="billing", user="alice", client="etl"
    )
    for size in range(1, len(family) + 1):
        for chosen in combinations(range(len(family)), size):
            attachments = {family[index]: index for index in chosen}
            found = applying_groups(subject, attachments, "default")
            assert [group for _, group in found] == [min(chosen)]


@pytest.mark.parametrize(
    ("given", "applies"),
    [
        ({"user": "alice", "client": "etl"}, list(range(8))),
        ({"user": "alice"}, [2, 5]),
        ({"client": "etl"}, [6, 7]),
        ({"user": "bob", "client": "etl"}, [3, 4, 5, 6, 7]),
        ({"user": "alice", "client": "web"}, [1, 2, 4, 5, 7]),
        ({}, []),
    ],
)
def test_kip599_only_what_matches_the_entity_applies(
    given: dict[str, str], applies: list[int]
) -> None:
    subject = resolve_subject(**given)
    matching = [
        index
        for index, key in enumerate(KAFKA)
        if applying_groups(subject, {key: index}, "default")
    ]
    assert matching == applies


def test_every_family_contributes_one_group_the_widest_first() -> None:
    subject = resolve_subject(
        topic="acme/orders/new", subscription="billing", user="alice", client="etl"
    )
    attachments: dict[Key, int] = {
        (("cluster", "default"),): 1,
        RESOURCES[0]: 2,
        SUBSCRIPTION[0]: 3,
        KAFKA[0]: 4,
    }
    assert applying_groups(subject, attachments, "default") == [
        ("cluster", 1),
        ("topic", 2),
        ("topic+subscription", 3),
        ("user+client", 4),
    ]
    assert applying_groups(subject, {(("cluster", None),): 9}, "other") == [
        ("cluster", 9)
    ]


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"topic": "persistent://t/n/x"}, ("t", "t/n", "t/n/x")),
        ({"topic": "non-persistent://t/n/x/y"}, ("t", "t/n", "t/n/x/y")),
        ({"topic": "x", "namespace": "t/n"}, ("t", "t/n", "t/n/x")),
        ({"namespace": "n", "tenant": "t"}, ("t", "t/n", None)),
        ({"namespace": "t/n"}, ("t", "t/n", None)),
        ({"tenant": "t"}, ("t", None, None)),
    ],
)
def test_a_name_implies_those_above_it(
    given: dict[str, str], resolved: tuple[str | None, ...]
) -> None:
    subject = resolve_subject(**given)
    assert (subject.tenant, subject.namespace, subject.topic) == resolved


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tenant": ""}, "a name of 1 to"),
        ({"tenant": "x" * 10_000}, "a name of 1 to"),
        ({"namespace": "n"}, "expected 'tenant/name'"),
        ({"namespace": "a/b/c"}, "expected 'tenant/name'"),
        ({"namespace": "a/"}, "expected 'tenant/name'"),
        ({"topic": "x"}, "expected 'tenant/namespace/name'"),
        ({"topic": "a/b"}, "expected 'tenant/namespace/name'"),
        ({"topic": "a/b/c", "namespace": "a/d"}, "contradicts 'a/b'"),
        ({"topic": "a/b/c", "tenant": "z"}, "contradicts 'a'"),
        ({"namespace": "a/b", "tenant": "z"}, "contradicts 'a'"),
    ],
)
def test_a_name_that_can_not_be_resolved_is_one_clear_error(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSubject, match=message):
        resolve_subject(**given)


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({}, "anyone"),
        ({"tenant": "a"}, "tenant a"),
        ({"namespace": "a/b"}, "namespace a/b"),
        ({"topic": "a/b/c", "user": "u"}, "topic a/b/c, user u"),
        ({"client": "c"}, "client c"),
    ],
)
def test_a_subject_says_who_it_is(given: dict[str, str], phrase: str) -> None:
    assert str(resolve_subject(**given)) == phrase


def limit(dimension: str = "requests", scope: str = "cluster") -> Limit:
    return Limit(
        dimension=dimension,
        rate=100,
        burst=100,
        scope="node" if scope == "node" else "cluster",
    )


def chain_of(subject: Subject, *groups: Group, **attachments: int) -> list[str]:
    enforcer = Enforcer(clock=lambda: 0.0)
    enforcer.configure(
        Configuration(
            revision=1,
            groups=groups,
            attachments=tuple(
                Attachment(((kind, getattr(subject, kind)),), group)
                for kind, group in attachments.items()
            ),
        ),
        0.0,
    )
    limiter = enforcer.limiter(namespace=subject.namespace, user=subject.user)
    links = limiter.chain("requests").links
    return [f"{link.limit.group}/{link.limit.scope}" for link in links]


def test_of_a_tree_the_nearest_cluster_limit_and_every_node_limit_apply() -> None:
    subject = resolve_subject(namespace="a/b")
    root = Group(id=1, name="root", limits=(limit(), limit(scope="node")))
    middle = Group(id=2, name="middle", limits=(limit(scope="node"),), parent=1)
    leaf = Group(id=3, name="leaf", limits=(limit("other"),), parent=2)
    chain = chain_of(subject, root, middle, leaf, namespace=3)
    assert chain == ["middle/node", "root/cluster", "root/node"]
    leaf = Group(id=3, name="leaf", limits=(limit(),), parent=2)
    chain = chain_of(subject, root, middle, leaf, namespace=3)
    assert chain == ["leaf/cluster", "middle/node", "root/node"]


def test_a_group_that_two_families_name_is_charged_once() -> None:
    subject = resolve_subject(namespace="a/b", user="u")
    only = Group(id=1, name="only", limits=(limit(),))
    assert chain_of(subject, only, namespace=1, user=1) == ["only/cluster"]


def test_parents_in_a_circle_end() -> None:
    subject = resolve_subject(namespace="a/b")
    one = Group(id=1, name="one", limits=(limit(scope="node"),), parent=2)
    two = Group(id=2, name="two", limits=(limit(scope="node"),), parent=1)
    assert chain_of(subject, one, two, namespace=1) == ["one/node", "two/node"]
