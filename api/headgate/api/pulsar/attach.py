"""Attach, show and detach groups of tenants, namespaces and topics (PIP-82).

Pulsar 4.0 has the paths of namespaces; those of tenants are PIP-82's plan, those
of topics are alike.  A topic's group wins over its namespace's, that over its
tenant's.
"""

from http import HTTPStatus

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from headgate.api.attachments.service import (
    attached_group,
    delete_attachment,
    put_attachment,
    require_subject,
)
from headgate.api.attachments.subjects import Subject, checked_subject
from headgate.api.http.dependencies import AuthorOf, Service, ServiceOf, tell
from headgate.api.pulsar.wording import GROUP_MISSING, POLICIES_MISSING
from headgate.api.store import Author
from headgate.api.values.errors import NotFound

router = APIRouter(tags=["pulsar: attachments"])

_NO_CONTENT = HTTPStatus.NO_CONTENT


@router.put(
    "/namespaces/{tenant}/{namespace}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a namespace",
)
@router.post(
    "/namespaces/{tenant}/{namespace}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a namespace",
)
def attach_namespace(
    tenant: str,
    namespace: str,
    group: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Attach a namespace to a group, in place of the one that it had."""
    subject = _namespace(tenant, namespace)
    _attach(service, author, response, subject, group)


@router.get(
    "/namespaces/{tenant}/{namespace}/resourcegroup",
    summary="Show a namespace's group",
    response_class=Response,
)
def get_namespace_group(tenant: str, namespace: str, service: ServiceOf) -> Response:
    """Return the bare name of the group, or nothing when it has none."""
    return _shown(service, _namespace(tenant, namespace))


@router.delete(
    "/namespaces/{tenant}/{namespace}/resourcegroup",
    status_code=_NO_CONTENT,
    summary="Detach a namespace",
)
def detach_namespace(
    tenant: str,
    namespace: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Detach a namespace; nothing happens when it has no group."""
    _detach(service, author, response, _namespace(tenant, namespace))


@router.put(
    "/tenants/{tenant}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a tenant",
)
@router.post(
    "/tenants/{tenant}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a tenant",
)
def attach_tenant(
    tenant: str,
    group: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Attach a tenant to a group, in place of the one that it had."""
    _attach(service, author, response, _tenant(tenant), group)


@router.get(
    "/tenants/{tenant}/resourcegroup",
    summary="Show a tenant's group",
    response_class=Response,
)
def get_tenant_group(tenant: str, service: ServiceOf) -> Response:
    """Return the bare name of the group, or nothing when it has none."""
    return _shown(service, _tenant(tenant))


@router.delete(
    "/tenants/{tenant}/resourcegroup",
    status_code=_NO_CONTENT,
    summary="Detach a tenant",
)
def detach_tenant(
    tenant: str, service: ServiceOf, author: AuthorOf, response: Response
) -> None:
    """Detach a tenant; nothing happens when it has no group."""
    _detach(service, author, response, _tenant(tenant))


@router.put(
    "/persistent/{tenant}/{namespace}/{topic}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a topic",
)
@router.post(
    "/persistent/{tenant}/{namespace}/{topic}/resourcegroup/{group}",
    status_code=_NO_CONTENT,
    summary="Attach a topic",
)
def attach_topic(
    tenant: str,
    namespace: str,
    topic: str,
    group: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Attach a topic to a group, in place of the one that it had."""
    subject = _topic(tenant, namespace, topic)
    _attach(service, author, response, subject, group)


@router.get(
    "/persistent/{tenant}/{namespace}/{topic}/resourcegroup",
    summary="Show a topic's group",
    response_class=Response,
)
def get_topic_group(
    tenant: str, namespace: str, topic: str, service: ServiceOf
) -> Response:
    """Return the bare name of the group, or nothing when it has none."""
    return _shown(service, _topic(tenant, namespace, topic))


@router.delete(
    "/persistent/{tenant}/{namespace}/{topic}/resourcegroup",
    status_code=_NO_CONTENT,
    summary="Detach a topic",
)
def detach_topic(
    tenant: str,
    namespace: str,
    topic: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Detach a topic; nothing happens when it has no group."""
    _detach(service, author, response, _topic(tenant, namespace, topic))


def _tenant(tenant: str) -> Subject:
    return checked_subject({"tenant": tenant})


def _namespace(tenant: str, namespace: str) -> Subject:
    return checked_subject({"namespace": f"{tenant}/{namespace}"})


def _topic(tenant: str, namespace: str, topic: str) -> Subject:
    return checked_subject({"topic": f"{tenant}/{namespace}/{topic}"})


def _owner(subject: Subject) -> Subject:
    """Return what must exist for `subject`: of a topic, its namespace."""
    kind, name = subject[0]
    if kind != "topic" or name is None:
        return subject
    return (("namespace", "/".join(name.split("/", 2)[:2])),)


def _attach(
    service: Service, author: Author, response: Response, subject: Subject, group: str
) -> None:
    with service.store.changing(author) as change:
        try:
            require_subject(change.session, _owner(subject))
            put_attachment(change, subject, group)
        except NotFound as error:
            raise _refusal_of_a_change(error) from error
    tell(response, change)


def _detach(
    service: Service, author: Author, response: Response, subject: Subject
) -> None:
    with service.store.changing(author) as change:
        try:
            require_subject(change.session, _owner(subject))
        except NotFound as error:
            raise _refusal_of_a_change(error) from error
        delete_attachment(change, subject)
    tell(response, change)


def _shown(service: Service, subject: Subject) -> Response:
    with service.store.reading() as session:
        require_subject(session, _owner(subject))
        name = attached_group(session, subject)
    return Response(name or "", media_type="application/json")


def _refusal_of_a_change(error: NotFound) -> Exception:
    """Return how Pulsar refuses to change policies: a missing group is a 412."""
    if error.thing == "group":
        return HTTPException(HTTPStatus.PRECONDITION_FAILED, GROUP_MISSING)
    if error.thing == "namespace":
        return HTTPException(HTTPStatus.NOT_FOUND, POLICIES_MISSING)
    return error
