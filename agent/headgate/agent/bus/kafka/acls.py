"""Who may read and write the usage topic, by Kafka's access control lists.

An agent needs READ and WRITE on the topic (DESCRIBE comes with either) and nothing
else: no group, no cluster, no other topic.  The pipeline and observers need READ.

Records carry no writer's identity that a reader could see: any agent may write
reports in another's name.  Rights keep strangers out; they don't make agents honest.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, cast

from headgate.agent.bus.kafka import client as kafka_client
from headgate.agent.bus.options import resolved
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from headgate.agent.bus.port import BusSettings

Right = Literal["read", "write"]

TIMEOUT_MS = 10_000
"""For the whole matter."""


class _Admin(Protocol):
    """What is used of ``kafka.KafkaAdminClient``."""

    def create_acls(self, acls: list[object]) -> Mapping[str, list[type]]: ...

    def delete_acls(
        self, acl_filters: list[object]
    ) -> list[tuple[object, object, type]]: ...

    def close(self) -> None: ...


def allow(settings: BusSettings, user: str, rights: tuple[Right, ...]) -> None:
    """Give `user` rights to the topic of `settings`; those there are stay.

    Args:
        settings: Of a user who may alter access control lists.
        user: Kafka's name, such as ``agent``; for TLS clients the subject.
        rights: ``read``, ``write`` or both.

    Raises:
        BusUnavailable: No broker answered, or it refused.
    """
    with _administrator(settings) as admin:
        entries = [_entry(settings.topic, user, right) for right in rights]
        _check(admin.create_acls(entries)["failed"])


def revoke(settings: BusSettings, user: str, rights: tuple[Right, ...]) -> None:
    """Take rights to the topic from `user`; in force within a second.

    Raises:
        BusUnavailable: As `allow`.
    """
    with _administrator(settings) as admin:
        entries = [_entry(settings.topic, user, right) for right in rights]
        none = cast("type", import_module("kafka.errors").NoError)
        errors = [error for _, _, error in admin.delete_acls(entries)]
        _check([error for error in errors if error is not none])


def _check(errors: list[type]) -> None:
    """Raise what kafka-python reports of single entries without raising it."""
    if errors:
        raise PermissionError(errors[0].__name__)


@contextmanager
def _administrator(settings: BusSettings) -> Generator[_Admin]:
    """Open an administrator's client; what it raises says whose topic it was."""
    kafka_client.check_installed()
    settings = resolved(settings)
    admin = cast("_Admin", kafka_client.open_admin(settings, TIMEOUT_MS))
    try:
        yield admin
    except Exception as error:  # whatever kafka-python raises
        raise BusUnavailable(
            f"kafka: rights to {settings.topic} on {settings.bootstrap}: "
            f"{type(error).__name__}: {error}"
        ) from None
    finally:
        admin.close()


def _entry(topic: str, user: str, right: Right) -> object:
    """Return kafka-python's entry of one right, from any host."""
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
