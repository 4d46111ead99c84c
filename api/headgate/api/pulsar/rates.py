"""Rates of namespaces and topics on Pulsar's paths: dispatch, publish, subscribe."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.policies import service as policies
from headgate.api.policies.schemas import Kind, Level, Policy, PolicyPut
from headgate.api.pulsar.bodies import (
    INT32_MAX,
    INT64_MAX,
    UNLIMITED,
    JsonObject,
    ObjectOf,
    flag,
    integer,
    shown_rate,
)
from headgate.api.pulsar.targets import NameOf, namespace_name, topic_name
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.pulsar_wording import POLICIES_MISSING

RELATIVE = "relativeToPublishRate"
PERIOD = "ratePeriodInSecond"


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of one kind of policy in Pulsar's JSON.

    Attributes:
        kind: Kind of policy.
        messages: Member of the rate of messages.
        bytes: Member of the rate of bytes, or None.
        most: Largest rate of messages.
        period_s: Default period; None where there is no member for it.
        relative: Whether it may be relative to the publish rate.
    """

    kind: Kind
    messages: str
    bytes: str | None
    most: int
    period_s: int | None
    relative: bool


_DISPATCH = ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte")
_PUBLISH = ("publishThrottlingRateInMsg", "publishThrottlingRateInByte")
_SUBSCRIBE = "subscribeThrottlingRatePerConsumer"

SHAPES: Mapping[str, Shape] = {
    "dispatchRate": Shape("dispatch", *_DISPATCH, INT32_MAX, 1, True),
    "subscriptionDispatchRate": Shape(
        "subscription_dispatch", *_DISPATCH, INT32_MAX, 1, True
    ),
    "replicatorDispatchRate": Shape(
        "replicator_dispatch", *_DISPATCH, INT32_MAX, 1, True
    ),
    "publishRate": Shape("publish", *_PUBLISH, INT32_MAX, None, False),
    "subscribeRate": Shape("subscribe", _SUBSCRIBE, None, INT32_MAX, 30, False),
}
"""Last part of the path → shape of the body."""

router = APIRouter(tags=["pulsar: rates"])


def pulsar_rate(shape: Shape, policy: Policy) -> dict[str, int | bool]:
    """Return `policy` as Pulsar's client reads it.

    Its periods are whole seconds, and those of publish rates are one second.
    """
    period_s = 1 if shape.period_s is None else max(1, round(policy.period_s))
    periods = period_s / policy.period_s
    messages = shown_rate(policy.messages * periods, largest=shape.most)
    shown: dict[str, int | bool] = {shape.messages: messages}
    if shape.bytes is not None:
        shown[shape.bytes] = shown_rate(policy.bytes * periods, largest=INT64_MAX)
    if shape.relative:
        shown[RELATIVE] = policy.relative_to_publish_rate
    if shape.period_s is not None:
        shown[PERIOD] = period_s
    return shown


def policy_of(shape: Shape, body: JsonObject) -> Policy:
    """Return the policy that Pulsar's `body` means.

    Raises:
        Invalid: A rate below -1, a period below 1.
    """
    period = shape.period_s or 1
    if shape.period_s is not None:
        given = integer(body, PERIOD, largest=INT32_MAX)
        period = shape.period_s if given is None else given
        if not 1 <= period <= 31_622_400:
            raise Invalid(PERIOD, f"expected 1 to 31622400 seconds, got {period}")
    return Policy.model_validate(
        {
            "messages": _rate(body, shape.messages, shape.most),
            "bytes": "unlimited"
            if shape.bytes is None
            else _rate(body, shape.bytes, INT64_MAX),
            "period_s": float(period),
            "relative_to_publish_rate": shape.relative
            and flag(body, RELATIVE, default=False),
        }
    )


def _rate(body: JsonObject, member: str, largest: int) -> float | str:
    rate = integer(body, member, largest=largest)
    if rate is None or rate == UNLIMITED:
        return "unlimited"
    if rate < UNLIMITED:
        raise Invalid(member, f"expected ≥ 0, or -1 for unlimited, got {rate}")
    return float(rate)


def _require(session: Session, level: Level, target: str) -> None:
    try:
        policies.require_namespace(session, policies.checked_target(level, target))
    except NotFound as error:
        raise HTTPException(HTTPStatus.NOT_FOUND, POLICIES_MISSING) from error


def _add_put(path: str, shape: Shape, level: Level, name_of: NameOf) -> None:
    def put(
        target: Annotated[str, Depends(name_of)],
        body: ObjectOf,
        service: ServiceOf,
        author: AuthorOf,
        response: Response,
    ) -> None:
        policy = policy_of(shape, body)
        wanted = PolicyPut(level=level, target=target, kind=shape.kind, policy=policy)
        with service.store.changing(author) as change:
            _require(change.session, level, target)
            policies.put_policy(change, wanted)
        tell(response, change)

    name = path.rpartition("/")[2]
    router.add_api_route(
        path,
        put,
        methods=["POST"],
        status_code=HTTPStatus.NO_CONTENT,
        summary=f"Set a {level}'s {name}",
        openapi_extra=_openapi_body(shape),
        operation_id=f"set_{level}_{name}",
    )


def _add_get(path: str, shape: Shape, level: Level, name_of: NameOf) -> None:
    def get_applied(
        target: Annotated[str, Depends(name_of)],
        service: ServiceOf,
        applied: bool = False,
    ) -> Response:
        with service.store.reading() as session:
            _require(session, level, target)
            policy = policies.get_policy(session, level, target, shape.kind)
            if policy is None and applied:
                found = policies.effective_policy(session, target, shape.kind)
                policy = None if found.level is None else found.policy
        if policy is None:
            return Response("", media_type="application/json")
        shown = pulsar_rate(shape, policy)
        text = ",".join(
            f'"{rate}":{str(value).lower()}' for rate, value in shown.items()
        )
        return Response(f"{{{text}}}", media_type="application/json")

    def get(target: Annotated[str, Depends(name_of)], service: ServiceOf) -> Response:
        return get_applied(target, service)

    name = path.rpartition("/")[2]
    router.add_api_route(
        path,
        get_applied if level == "topic" else get,
        methods=["GET"],
        response_class=Response,
        summary=f"Show a {level}'s {name}; nothing when it has none",
        operation_id=f"get_{level}_{name}",
    )


def _add_delete(path: str, shape: Shape, level: Level, name_of: NameOf) -> None:
    def delete(
        target: Annotated[str, Depends(name_of)],
        service: ServiceOf,
        author: AuthorOf,
        response: Response,
    ) -> None:
        with service.store.changing(author) as change:
            _require(change.session, level, target)
            policies.delete_policy(change, level, target, shape.kind)
        tell(response, change)

    name = path.rpartition("/")[2]
    router.add_api_route(
        path,
        delete,
        methods=["DELETE"],
        status_code=HTTPStatus.NO_CONTENT,
        summary=f"Unset a {level}'s {name}",
        operation_id=f"delete_{level}_{name}",
    )


def _openapi_body(shape: Shape) -> dict[str, object]:
    example = pulsar_rate(shape, Policy.model_validate({"messages": 100.0}))
    properties = {
        name: {"type": "boolean" if isinstance(value, bool) else "integer"}
        for name, value in example.items()
    }
    schema = {"type": "object", "properties": properties}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


for _name, _shape in SHAPES.items():
    for _add in (_add_put, _add_get, _add_delete):
        _add(
            f"/namespaces/{{tenant}}/{{namespace}}/{_name}",
            _shape,
            "namespace",
            namespace_name,
        )
        _add(
            f"/persistent/{{tenant}}/{{namespace}}/{{topic}}/{_name}",
            _shape,
            "topic",
            topic_name,
        )
