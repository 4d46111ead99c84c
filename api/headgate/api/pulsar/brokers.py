"""Dynamic configuration on Pulsar's paths: the broker's level of all policies."""

from http import HTTPStatus

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.policies import service as policies
from headgate.api.policies.broker import KEYS
from headgate.api.values.errors import NotFound

router = APIRouter(prefix="/brokers/configuration", tags=["pulsar: brokers"])

UNKNOWN = "Can't update non-dynamic configuration"
"""Pulsar's words for a key that it does not know."""


@router.get("", summary="List the keys that can be set")
def list_keys() -> list[str]:
    """Return the names of the dynamic configuration."""
    return list(KEYS)


@router.get("/values", summary="Show the keys that are set")
def get_values(service: ServiceOf) -> dict[str, str]:
    """Return the dynamic configuration that is set."""
    with service.store.reading() as session:
        return policies.get_settings(session)


@router.post("/{key}/{value:path}", summary="Set a key", response_class=Response)
def put_value(key: str, value: str, service: ServiceOf, author: AuthorOf) -> Response:
    """Set a key of the dynamic configuration."""
    with service.store.changing(author) as change:
        try:
            policies.put_setting(change, key, value)
        except NotFound as error:
            raise HTTPException(HTTPStatus.PRECONDITION_FAILED, UNKNOWN) from error
    answer = Response(status_code=HTTPStatus.OK)
    tell(answer, change)
    return answer


@router.delete("/{key}", summary="Unset a key", response_class=Response)
def delete_value(key: str, service: ServiceOf, author: AuthorOf) -> Response:
    """Reset a key to its default; does nothing if it is not set."""
    if key not in KEYS:
        raise HTTPException(HTTPStatus.PRECONDITION_FAILED, UNKNOWN)
    with service.store.changing(author) as change:
        policies.delete_setting(change, key)
    answer = Response(status_code=HTTPStatus.OK)
    tell(answer, change)
    return answer
