"""Partitioned topics on Pulsar's paths: how many partitions a topic was declared with.

Limits don't need the number: each ``…-partition-N`` that is used has the policies of
its topic.  It is kept for the clients that ask for it.
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.pulsar.bodies import INT32_MAX
from headgate.api.pulsar.targets import namespace_name, topic_name
from headgate.api.tenants import service as tenants
from headgate.api.tenants import topics

router = APIRouter(tags=["pulsar: partitioned topics"])

_BASE = "/persistent/{tenant}/{namespace}/{topic}/partitions"
_SCHEMA = {"type": "integer", "minimum": 1, "maximum": INT32_MAX}
_BODY: dict[str, object] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _SCHEMA, "example": 3}},
    }
}


async def partitions_of(request: Request) -> int:
    """Return the number of partitions that is the whole body.

    Raises:
        HTTPException: 400 for another body, 406 for a number below 1.
    """
    try:
        number: object = json.loads(await request.body())
    except (ValueError, RecursionError):
        number = None
    if type(number) is not int or number > INT32_MAX:
        raise HTTPException(
            HTTPStatus.BAD_REQUEST,
            "expected a number of partitions, such as 3, as the whole body",
        )
    if number < 1:
        raise HTTPException(
            HTTPStatus.NOT_ACCEPTABLE, "Number of partitions should be more than 0"
        )
    return number


PartitionsOf = Annotated[int, Depends(partitions_of)]
NamespaceOf = Annotated[str, Depends(namespace_name)]
TopicOf = Annotated[str, Depends(topic_name)]


class PartitionsChange:
    """A request to give a topic partitions."""

    def __init__(
        self,
        topic: TopicOf,
        partitions: PartitionsOf,
        service: ServiceOf,
        author: AuthorOf,
        response: Response,
    ) -> None:
        """Keep the parts of the request."""
        self.partitions = partitions
        self._topic = topic
        self._service = service
        self._author = author
        self._response = response

    def make(self, check: Callable[[int], None]) -> None:
        """Set the partitions if `check` allows it, given their present number."""
        with self._service.store.changing(self._author) as change:
            check(_partitions(change.session, self._topic))
            topics.put_partitions(change, self._topic, self.partitions)
        tell(self._response, change)


ChangeOf = Annotated[PartitionsChange, Depends()]


@router.get(
    "/persistent/{tenant}/{namespace}/partitioned", summary="List partitioned topics"
)
def list_partitioned_topics(namespace: NamespaceOf, service: ServiceOf) -> list[str]:
    """Return the full names of a namespace's partitioned topics."""
    with service.store.reading() as session:
        tenants.find_namespace(session, *namespace.split("/"))
        found = topics.partitioned_topics(session, namespace)
    return [f"persistent://{name}" for name in found]


@router.get(_BASE, summary="Show a topic's partitions; 0 if it is not partitioned")
def get_partitions(topic: TopicOf, service: ServiceOf) -> dict[str, int]:
    """Return the number of partitions."""
    with service.store.reading() as session:
        return {"partitions": _partitions(session, topic)}


@router.put(
    _BASE,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Create a partitioned topic",
    openapi_extra=_BODY,
)
def create_partitions(change: ChangeOf) -> None:
    """Declare a partitioned topic; 409 if it already is one."""

    def check(present: int) -> None:
        if present:
            raise HTTPException(HTTPStatus.CONFLICT, "This topic already exists")

    change.make(check)


@router.post(
    _BASE,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Add partitions to a topic",
    openapi_extra=_BODY,
)
def update_partitions(change: ChangeOf) -> None:
    """Raise the number of partitions; it can't be lowered."""

    def check(present: int) -> None:
        _check_partitioned(present)
        if change.partitions < present:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"Desired partitions {change.partitions} can't be less than the"
                f" current partitions {present}.",
            )

    change.make(check)


@router.delete(
    _BASE, status_code=HTTPStatus.NO_CONTENT, summary="Delete a partitioned topic"
)
def delete_partitions(
    topic: TopicOf, service: ServiceOf, author: AuthorOf, response: Response
) -> None:
    """Remove the declaration of a partitioned topic."""
    with service.store.changing(author) as change:
        _check_partitioned(_partitions(change.session, topic))
        topics.delete_partitions(change, topic)
    tell(response, change)


def _partitions(session: Session, topic: str) -> int:
    """Return the partitions of a topic, in a namespace that must exist."""
    tenant, namespace, _ = topic.split("/", 2)
    tenants.find_namespace(session, tenant, namespace)
    return topics.partitions_of(session, topic)


def _check_partitioned(present: int) -> None:
    if not present:
        raise HTTPException(HTTPStatus.NOT_FOUND, "Partitioned Topic Name not found")
