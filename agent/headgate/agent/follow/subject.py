"""Who asks: a subject, and the groups whose limits apply to it.

There are four families of attachments; each contributes at most one group, the most
specific (docs/decisions/0012-which-groups-apply.md)::

    cluster       the cluster's own group
    resources     topic > namespace > tenant > defaults, in that order   (PIP-82)
    subscription  (topic, subscription) > subscription > default
    entities      Kafka's eight kinds, in Kafka's order                  (KIP-599)
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from headgate.agent.errors import InvalidSubject
from headgate.agent.names import is_unicode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Key = tuple[tuple[str, str | None], ...]
"""A subject as in attachments: pairs of (kind, name), with None for a default."""

Entity = tuple[tuple[str, str], ...]
"""One of Kafka's entities, or a partition: pairs of (kind, name)."""

PARTITION = "-partition-"
"""Separates a topic's name from the number of its partition (Pulsar)."""

LONGEST_NAME = 4_096
"""Longest name, characters; a longer one is a mistake, and would stay in memory."""


class SubjectNames(TypedDict, total=False):
    """Names by which callers say who asks; what they imply may be left out.

    Attributes:
        tenant: Name of a tenant.
        namespace: ``tenant/name``, or ``name`` beside a `tenant`.
        topic: ``persistent://tenant/namespace/name`` or without the scheme, or
            ``name`` beside a `namespace`.
        subscription: Name of a subscription.
        user: Kafka's user.
        client: Kafka's client id.
    """

    tenant: str | None
    namespace: str | None
    topic: str | None
    subscription: str | None
    user: str | None
    client: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who asks; every field implied by another is filled in.

    Attributes:
        tenant: Such as ``acme``.
        namespace: Such as ``acme/orders``.
        topic: Such as ``acme/orders/new``, without ``persistent://``.
        subscription: Such as ``billing``.
        user: Kafka's user.
        client: Kafka's client id.
    """

    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    subscription: str | None = None
    user: str | None = None
    client: str | None = None

    def __str__(self) -> str:
        """Return a phrase for messages."""
        names = (
            f"{kind} {name}"
            for kind in ("topic", "subscription", "user", "client")
            if (name := getattr(self, kind)) is not None
        )
        widest = self.namespace or self.tenant
        place = [f"namespace {widest}" if self.namespace else f"tenant {widest}"]
        return ", ".join([*(place if widest and not self.topic else []), *names]) or (
            "anyone"
        )


def resolve_subject(**names: Unpack[SubjectNames]) -> Subject:
    """Fill in what the given names imply, and check that they agree.

    Raises:
        InvalidSubject: A name is empty, too long, or contradicts another.
    """
    given = Subject(**names)
    for name in astuple(given):
        if name is not None:
            _check_name(name)
    tenant, namespace, topic = given.tenant, given.namespace, given.topic
    if tenant is not None and "/" in tenant:
        raise InvalidSubject(
            f"tenant: expected a name without '/', got {tenant[:40]!r}"
        )
    if namespace is not None and "/" not in namespace and tenant is not None:
        namespace = f"{tenant}/{namespace}"
    if topic is not None:
        topic = _plain_topic(topic, namespace)
        implied = "/".join(topic.split("/", 2)[:2])
        namespace = _agree("namespace", namespace, implied)
    if namespace is not None:
        parts = namespace.split("/")
        if len(parts) != 2 or not all(parts):
            raise InvalidSubject(
                f"namespace: expected 'tenant/name', got {namespace[:80]!r}"
            )
        tenant = _agree("tenant", tenant, parts[0])
    return replace(given, tenant=tenant, namespace=namespace, topic=topic)


def applying_groups(
    subject: Subject, attachments: Mapping[Key, int], cluster: str
) -> list[tuple[str, int]]:
    """Return (level, group id) for each family that has a group, the widest first.

    Args:
        subject: Who asks.
        attachments: Group id by subject, as in attachments.
        cluster: Name of the cluster.
    """
    return [
        (level_of(key), attachments[key])
        for key in applying_keys(subject, attachments, cluster)
    ]


def applying_keys(
    subject: Subject, attachments: Mapping[Key, int], cluster: str
) -> list[Key]:
    """Return the attachment used of each family; see `applying_groups`."""
    families = (
        _cluster_keys(cluster),
        _resource_keys(subject),
        _subscription_keys(subject),
        _entity_keys(subject),
    )
    found = (
        next((key for key in keys if key in attachments), None) for keys in families
    )
    return [key for key in found if key is not None]


def level_of(key: Key) -> str:
    """Return the name of an attachment's level in decisions."""
    return "+".join(kind for kind, _ in key)


def defaulted_entity(key: Key, subject: Subject) -> Entity | None:
    """Return the entity to which a default quota applies; None for other keys."""
    kinds = [kind for kind, _ in key]
    if not set(kinds) <= {"user", "client"} or all(name is not None for _, name in key):
        return None
    return tuple((kind, str(getattr(subject, kind))) for kind in kinds)


def partition_of(subject: Subject) -> Entity:
    """Return the partition in a subject's topic; empty if there is none."""
    topic = subject.topic
    if topic is None or partitioned_topic(topic) == topic:
        return ()
    return (("partition", topic),)


def partitioned_topic(topic: str) -> str:
    """Return the topic of a partition; other topics unchanged."""
    name, sign, number = topic.rpartition(PARTITION)
    is_partition = sign and name and number.isascii() and number.isdecimal()
    return name if is_partition else topic


def _topics(subject: Subject) -> tuple[str, ...]:
    """Return the subject's topic, and the topic that it is a partition of."""
    if subject.topic is None:
        return ()
    whole = partitioned_topic(subject.topic)
    return (subject.topic,) if whole == subject.topic else (subject.topic, whole)


def _cluster_keys(cluster: str) -> Iterator[Key]:
    yield (("cluster", cluster),)
    yield (("cluster", None),)


def _resource_keys(subject: Subject) -> Iterator[Key]:
    for topic in _topics(subject):
        yield (("topic", topic),)
    wider = (("namespace", subject.namespace), ("tenant", subject.tenant))
    present = [(kind, name) for kind, name in wider if name is not None]
    for kind, name in present:
        yield ((kind, name),)
    # Any name that the operator wrote takes precedence over any default.
    if subject.topic is not None:
        yield (("topic", None),)
    for kind, _ in present:
        yield ((kind, None),)


def _subscription_keys(subject: Subject) -> Iterator[Key]:
    if subject.subscription is None:
        return
    for topic in _topics(subject):
        yield (("topic", topic), ("subscription", subject.subscription))
    yield (("subscription", subject.subscription),)
    yield (("subscription", None),)


def _entity_keys(subject: Subject) -> Iterator[Key]:
    """Yield Kafka's eight kinds of entity in Kafka's order."""
    user, client = subject.user, subject.client
    for name in (user, None) if user is not None else ():
        if client is not None:
            yield (("user", name), ("client", client))
            yield (("user", name), ("client", None))
        yield (("user", name),)
    if client is not None:
        yield (("client", client),)
        yield (("client", None),)


def _check_name(name: object) -> None:
    """Raise for a name that no attachment can have."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidSubject(
            f"expected a name of 1 to {LONGEST_NAME} characters, got {name!r:.40}"
        )
    if not is_unicode(name):
        raise InvalidSubject(f"expected a name in valid Unicode, got {name[:40]!r}")


def _plain_topic(topic: str, namespace: str | None) -> str:
    plain = topic.partition("://")[2] if "://" in topic else topic
    if "/" not in plain and namespace is not None:
        plain = f"{namespace}/{plain}"
    parts = plain.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise InvalidSubject(
            "topic: expected 'tenant/namespace/name' or "
            f"'persistent://tenant/namespace/name', got {topic[:80]!r}"
        )
    return plain


def _agree(kind: str, given: str | None, implied: str) -> str:
    if given is not None and given != implied:
        raise InvalidSubject(f"{kind}: {given[:80]!r} contradicts {implied[:80]!r}")
    return implied
