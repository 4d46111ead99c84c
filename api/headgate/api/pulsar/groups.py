"""Resource groups on Pulsar's paths: four rates of the group of the same name.

Each rate is the cluster-wide limit of one dimension; limits of other dimensions,
of scope ``node``, and whatever else a group has stay as they are.
"""

from http import HTTPStatus

from fastapi import APIRouter, Response
from sqlalchemy import select

from headgate.api.groups import service as groups
from headgate.api.groups.schemas import (
    GroupBody,
    GroupPatch,
    GroupShown,
    LimitPatch,
    LimitShown,
)
from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.pulsar.bodies import (
    INT32_MAX,
    INT64_MAX,
    UNLIMITED,
    JsonObject,
    ObjectOf,
    integer,
    shown_rate,
)
from headgate.api.store.tables import GroupRow
from headgate.api.values.errors import Invalid

RATES = {
    "publishRateInMsgs": ("publish_messages", INT32_MAX),
    "publishRateInBytes": ("publish_bytes", INT64_MAX),
    "dispatchRateInMsgs": ("dispatch_messages", INT32_MAX),
    "dispatchRateInBytes": ("dispatch_bytes", INT64_MAX),
}
"""Pulsar's member → dimension, and the largest value that a client can read.

A value above it makes Pulsar's client hang until its timeout of 300 s.
"""

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        name: {"type": "integer", "minimum": -1, "maximum": largest}
                        for name, (_, largest) in RATES.items()
                    },
                },
                "example": {"publishRateInMsgs": 1000, "publishRateInBytes": 10485760},
            }
        },
    }
}

router = APIRouter(tags=["pulsar: resource groups"])


@router.get("/resourcegroups", summary="List resource groups")
@router.get("/resourcegroup", include_in_schema=False)
def list_resource_groups(service: ServiceOf) -> list[str]:
    """Return the names of all groups."""
    with service.store.reading() as session:
        return list(session.scalars(select(GroupRow.name).order_by(GroupRow.name)))


@router.get("/resourcegroups/{group}", summary="Show a resource group")
@router.get("/resourcegroup/{group}", include_in_schema=False)
def get_resource_group(group: str, service: ServiceOf) -> dict[str, int]:
    """Return a group's four rates; -1 is unlimited."""
    with service.store.reading() as session:
        return rates_of(groups.get_group(session, group))


@router.put(
    "/resourcegroups/{group}",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Create or update a resource group",
    openapi_extra=_BODY,
)
@router.put(
    "/resourcegroup/{group}",
    status_code=HTTPStatus.NO_CONTENT,
    include_in_schema=False,
)
def put_resource_group(
    group: str,
    body: ObjectOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Set the given rates; others keep their values, or are -1 in a new group."""
    wanted = _wanted(body)
    with service.store.changing(author) as change:
        present = groups.find_or_none(change.session, group)
        if present is None:
            present = groups.create_group(change, group, GroupBody())
        patches = _patches(present, wanted)
        if patches:
            groups.patch_group(change, group, GroupPatch(limits=patches))
    tell(response, change)


@router.delete(
    "/resourcegroups/{group}",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Delete a resource group",
)
@router.delete(
    "/resourcegroup/{group}",
    status_code=HTTPStatus.NO_CONTENT,
    include_in_schema=False,
)
def delete_resource_group(
    group: str, service: ServiceOf, author: AuthorOf, response: Response
) -> None:
    """Delete a group that nothing is attached to."""
    with service.store.changing(author) as change:
        groups.delete_group(change, group)
    tell(response, change)


def rates_of(group: GroupShown) -> dict[str, int]:
    """Return the four rates of `group` per second, within what clients can read."""
    limits = {
        limit.dimension: limit for limit in group.limits if limit.scope == "cluster"
    }
    return {
        name: _shown_rate(limits.get(dimension), largest)
        for name, (dimension, largest) in RATES.items()
    }


def _shown_rate(limit: LimitShown | None, largest: int) -> int:
    if limit is None:
        return UNLIMITED
    return shown_rate(limit.rate / limit.period_s, largest=largest)


def _wanted(body: JsonObject) -> dict[str, int]:
    """Return the rates that `body` names; as in Pulsar, others are ignored.

    A client newer than this server must not be refused.

    Raises:
        Invalid: A rate below -1.
    """
    wanted: dict[str, int] = {}
    for name, (_, largest) in RATES.items():
        rate = integer(body, name, largest=largest)
        if rate is None:
            continue
        if rate < UNLIMITED:
            raise Invalid(name, f"expected ≥ 0, or -1 for unlimited, got {rate}")
        wanted[name] = rate
    return wanted


def _patches(present: GroupShown, wanted: dict[str, int]) -> list[LimitPatch]:
    """Return the changes that make `present` equal to `wanted`."""
    shown = rates_of(present)
    patches: list[LimitPatch] = []
    for name, rate in wanted.items():
        dimension = RATES[name][0]
        if rate == shown[name]:
            continue
        if rate == UNLIMITED:
            patches.append(LimitPatch(dimension=dimension, rate=None))
        else:
            patches.append(LimitPatch(dimension=dimension, rate=rate, period_s=1.0))
    return patches
