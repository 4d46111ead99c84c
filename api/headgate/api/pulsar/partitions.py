"""Partitioned topics on Pulsar's paths: how many partitions a topic was declared with.

Limits don't need the number: each ``…-partition-N`` that is used has the policies of
its topic.  It is kept for the clients that ask for it.
"""

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.pulsar.bodies import INT32_MAX
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


@router.get(
    "/persistent/{tenant}/{namespace}/partitioned", summary="List partitioned topics"
)
def list_partitioned_topics(
    tenant: str, namespace: str, service: ServiceOf
) -> list[str]:
    """Return the full names of a namespace's partitioned topics."""
    with service.store.reading() as session:
        tenants.find_namespace(session, tenant, namespace)
        found = topics.partitioned_topics(session, f"{tenant}/{namespace}")
    return [f"persistent://{name}" for name in found]


@router.get(_BASE, summary="Show a topic's partitions; 0 if it was not partitioned")
def get_partitions(
    tenant: str, namespace: str, topic: str, service: ServiceOf
) -> dict[str, int]:
    """Return the number of partitions."""
    with service.store.reading() as session:
        tenants.find_namespace(session, tenant, namespace)
        name = f"{tenant}/{namespace}/{topic}"
        return {"partitions": topics.partitions_of(session, name)}


@router.put(
    _BASE,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Create a partitioned topic",
    openapi_extra=_BODY,
)
def create_partitions(
    tenant: str,
    namespace: str,
    topic: str,
    partitions: PartitionsOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Declare a topic with partitions; 409 if it already is."""
    name = f"{tenant}/{namespace}/{topic}"
    with service.store.changing(author) as change:
        tenants.find_namespace(change.session, tenant, namespace)
        if topics.partitions_of(change.session, name):
            raise HTTPException(HTTPStatus.CONFLICT, "This topic already exists")
        topics.put_partitions(change, name, partitions)
    tell(response, change)


@router.post(
    _BASE,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Add partitions to a topic",
    openapi_extra=_BODY,
)
def update_partitions(
    tenant: str,
    namespace: str,
    topic: str,
    partitions: PartitionsOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Raise the number of partitions; it can't be lowered."""
    name = f"{tenant}/{namespace}/{topic}"
    with service.store.changing(author) as change:
        present = _present(change.session, name)
        if partitions < present:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"Desired partitions {partitions} can't be less than the current"
                f" partitions {present}.",
            )
        topics.put_partitions(change, name, partitions)
    tell(response, change)


@router.delete(
    _BASE, status_code=HTTPStatus.NO_CONTENT, summary="Delete a partitioned topic"
)
def delete_partitions(
    tenant: str,
    namespace: str,
    topic: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Forget that a topic has partitions."""
    name = f"{tenant}/{namespace}/{topic}"
    with service.store.changing(author) as change:
        _present(change.session, name)
        topics.delete_partitions(change, name)
    tell(response, change)


def _present(session: Session, topic: str) -> int:
    """Return the partitions of a topic that must have some."""
    tenant, namespace, _ = topic.split("/", 2)
    tenants.find_namespace(session, tenant, namespace)
    present = topics.partitions_of(session, topic)
    if not present:
        raise HTTPException(HTTPStatus.NOT_FOUND, "Partitioned Topic Name not found")
    return present
