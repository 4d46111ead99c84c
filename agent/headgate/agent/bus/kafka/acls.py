"""Access to the usage topic by Kafka's access control lists.

An agent needs READ and WRITE on the topic (DESCRIBE comes with either) and nothing
else: no group, no cluster, no other topic.  The pipeline and observers need READ.

A record doesn't tell its reader who wrote it: any agent may write reports in another's
name.  Access control keeps strangers out; it doesn't make agents honest.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, cast

from headgate.agent.bus.kafka import client as kafka_client

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from headgate.agent.bus.port import BusSettings

Right = Literal["read", "write"]


class _Admin(Protocol):
    """The part of ``kafka.KafkaAdminClient`` used here."""

    def create_acls(self, acls: list[object]) -> Mapping[str, list[type]]: ...

    def delete_acls(
        self, acl_filters: list[object]
    ) -> list[tuple[object, object, type]]: ...


def allow(settings: BusSettings, user: str, rights: tuple[Right, ...]) -> None:
    """Give `user` rights to the topic of `settings`; existing rights stay.

    Args:
        settings: The bus, with the credentials of a user who may change access control
            lists.
        user: Kafka's user name, such as ``agent``; for TLS clients, the subject.
        rights: ``read``, ``write`` or both.

    Raises:
        BusUnavailable: No broker answered, or the broker refused.
    """
    with _administrator(settings) as admin:
        entries = [_entry(settings.topic, user, right) for right in rights]
        _check(admin.create_acls(entries)["failed"])


def revoke(settings: BusSettings, user: str, rights: tuple[Right, ...]) -> None:
    """Take rights to the topic from `user`, effective within a second.

    Raises:
        BusUnavailable: As `allow`.
    """
    with _administrator(settings) as admin:
        entries = [_entry(settings.topic, user, right) for right in rights]
        none = cast("type", import_module("kafka.errors").NoError)
        errors = [error for _, _, error in admin.delete_acls(entries)]
        _check([error for error in errors if error is not none])


def _check(errors: list[type]) -> None:
    """Raise an error that kafka-python only reports, entry by entry."""
    if errors:
        raise PermissionError(errors[0].__name__)


@contextmanager
def _administrator(settings: BusSettings) -> Generator[_Admin]:
    with kafka_client.administrator(settings, "rights to") as client:
        yield cast("_Admin", client)


def _entry(topic: str, user: str, right: Right) -> object:
    """Return kafka-python's object for one right, from any host."""
    names = import_module("kafka.admin")
    pattern = cast("Callable[..., object]", names.ResourcePattern)
    entry = cast("Callable[..., object]", names.ACL)
    return entry(
        principal=f"User:{user}",
        host="*",
        operation=getattr(names.ACLOperation, right.upper()),
        permission_type=names.ACLPermissionType.ALLOW,
        resource_pattern=pattern(names.ResourceType.TOPIC, topic),
    )
