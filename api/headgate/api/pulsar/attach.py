"""Attach, show and detach groups of tenants, namespaces and topics (PIP-82).

Pulsar 4.0 has the paths of namespaces; those of tenants are PIP-82's plan, and those
of topics follow the same form.  A topic's group takes precedence over its
namespace's, and that over its tenant's.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from starlette.exceptions import HTTPException

from headgate.api.attachments.service import (
    attached_group,
    delete_attachment,
    put_attachment,
    require_subject,
)
from headgate.api.attachments.subjects import Subject, checked_subject
from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.pulsar.targets import NameOf, namespace_name, tenant_name, topic_name
from headgate.api.values.errors import NotFound
from headgate.api.values.pulsar_wording import GROUP_MISSING, POLICIES_MISSING

router = APIRouter(tags=["pulsar: attachments"])


def _add_routes(kind: str, path: str, name_of: NameOf) -> None:
    """Add the routes that attach, show and detach subjects of one kind."""

    def subject_of(name: Annotated[str, Depends(name_of)]) -> Subject:
        return checked_subject({kind: name})

    _add_attach(kind, f"{path}/resourcegroup/{{group}}", subject_of)
    _add_show(kind, f"{path}/resourcegroup", subject_of)
    _add_detach(kind, f"{path}/resourcegroup", subject_of)


def _add_attach(kind: str, path: str, subject_of: Callable[..., Subject]) -> None:
    def attach(
        subject: Annotated[Subject, Depends(subject_of)],
        group: str,
        service: ServiceOf,
        author: AuthorOf,
        response: Response,
    ) -> None:
        """Attach to a group, in place of the present one."""
        with service.store.changing(author) as change, _refused_as_by_pulsar():
            require_subject(change.session, _owner(subject))
            put_attachment(change, subject, group)
        tell(response, change)

    for method in ("PUT", "POST"):
        router.add_api_route(
            path,
            attach,
            methods=[method],
            status_code=HTTPStatus.NO_CONTENT,
            summary=f"Attach a {kind}",
            operation_id=f"{method.lower()}_{kind}_resourcegroup",
        )


def _add_show(kind: str, path: str, subject_of: Callable[..., Subject]) -> None:
    def show(
        subject: Annotated[Subject, Depends(subject_of)], service: ServiceOf
    ) -> Response:
        """Return the bare name of the group, or nothing if there is none."""
        with service.store.reading() as session:
            require_subject(session, _owner(subject))
            name = attached_group(session, subject)
        return Response(name or "", media_type="application/json")

    router.add_api_route(
        path,
        show,
        methods=["GET"],
        response_class=Response,
        summary=f"Show a {kind}'s group",
        operation_id=f"get_{kind}_resourcegroup",
    )


def _add_detach(kind: str, path: str, subject_of: Callable[..., Subject]) -> None:
    def detach(
        subject: Annotated[Subject, Depends(subject_of)],
        service: ServiceOf,
        author: AuthorOf,
        response: Response,
    ) -> None:
        """Detach from the group; does nothing if there is none."""
        with service.store.changing(author) as change, _refused_as_by_pulsar():
            require_subject(change.session, _owner(subject))
            delete_attachment(change, subject)
        tell(response, change)

    router.add_api_route(
        path,
        detach,
        methods=["DELETE"],
        status_code=HTTPStatus.NO_CONTENT,
        summary=f"Detach a {kind}",
        operation_id=f"delete_{kind}_resourcegroup",
    )


def _owner(subject: Subject) -> Subject:
    """Return what must exist for `subject`: for a topic, its namespace."""
    kind, name = subject[0]
    if kind != "topic" or name is None:
        return subject
    return (("namespace", "/".join(name.split("/", 2)[:2])),)


@contextmanager
def _refused_as_by_pulsar() -> Generator[None]:
    """Refuse a change as Pulsar does: for a missing group it answers 412."""
    try:
        yield
    except NotFound as error:
        if error.thing == "group":
            raise HTTPException(
                HTTPStatus.PRECONDITION_FAILED, GROUP_MISSING
            ) from error
        if error.thing == "namespace":
            raise HTTPException(HTTPStatus.NOT_FOUND, POLICIES_MISSING) from error
        raise


_add_routes("tenant", "/tenants/{tenant}", tenant_name)
_add_routes("namespace", "/namespaces/{tenant}/{namespace}", namespace_name)
_add_routes("topic", "/persistent/{tenant}/{namespace}/{topic}", topic_name)
