"""REST routes of rate policies and of the dynamic configuration."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from headgate.api.http.dependencies import (
    AfterName,
    AuthorOf,
    PageSize,
    PreconditionOf,
    ServiceOf,
    TenantsOf,
    etag,
    tell,
)
from headgate.api.policies import service as policies
from headgate.api.policies.schemas import (
    EffectivePolicy,
    Kind,
    Level,
    PolicyPage,
    PolicyPut,
    PolicyShown,
    SettingPut,
    SettingShown,
)
from headgate.api.values.errors import NotFound

router = APIRouter(tags=["policies"])

Target = Annotated[
    str, Query(max_length=1024, description="Namespace or topic, as in the policy.")
]
Key = Annotated[str, Path(examples=["dispatchThrottlingRateInMsg"])]


@router.get("/policies", summary="List rate policies")
def list_policies(
    service: ServiceOf,
    tenants: TenantsOf,
    level: Level | None = None,
    target: Annotated[str | None, Query(max_length=1024)] = None,
    after: AfterName = "",
    limit: PageSize = 100,
) -> PolicyPage:
    """Return a page of the policies of namespaces and topics, all or only some."""
    with service.store.reading() as session:
        return policies.list_policies(
            session,
            after=after,
            limit=limit,
            level=level,
            target=target,
            tenants=tenants,
        )


@router.get("/policies/effective", summary="Show what applies to a topic")
def get_effective(
    service: ServiceOf, author: AuthorOf, topic: Target, kind: Kind
) -> EffectivePolicy:
    """Return the topic's policy, else its namespace's, else the broker's."""
    author.require_tenant_of("topic", policies.checked_target("topic", topic))
    with service.store.reading() as session:
        return policies.effective_policy(session, topic, kind)


@router.put("/policies", summary="Set a rate policy")
def put_policy(
    body: PolicyPut,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> PolicyShown:
    """Set a policy of a namespace or topic; each topic has its rate to itself."""
    author.require_tenant_of(
        body.level, policies.checked_target(body.level, body.target)
    )
    with service.store.changing(author) as change:
        policy, is_new = policies.put_policy(change, body, precondition)
    if is_new:
        response.status_code = HTTPStatus.CREATED
    tell(response, change, of=policy.revision)
    return policy


@router.delete(
    "/policies", status_code=HTTPStatus.NO_CONTENT, summary="Delete a rate policy"
)
def delete_policy(
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
    level: Level,
    target: Target,
    kind: Kind,
) -> None:
    """Delete a policy; the wider one applies again."""
    author.require_tenant_of(level, policies.checked_target(level, target))
    with service.store.changing(author) as change:
        if not policies.delete_policy(change, level, target, kind, precondition):
            raise NotFound("policy", f"{kind} of {level} {target}")
    tell(response, change)


@router.get("/settings", summary="Show the dynamic configuration")
def get_settings(service: ServiceOf) -> dict[str, str]:
    """Return the keys that are set."""
    with service.store.reading() as session:
        return policies.get_settings(session)


@router.get("/settings/{key}", summary="Show a setting")
def get_setting(key: Key, service: ServiceOf, response: Response) -> SettingShown:
    """Return a key that is set; 404 if it has its default value."""
    with service.store.reading() as session:
        setting = policies.get_setting(session, key)
    response.headers["ETag"] = etag(setting.revision)
    return setting


@router.put(
    "/settings/{key}", status_code=HTTPStatus.NO_CONTENT, summary="Set a setting"
)
def put_setting(
    key: Key,
    body: SettingPut,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Set a key of the dynamic configuration."""
    with service.store.changing(author) as change:
        revision = policies.put_setting(change, key, body.text, precondition)
    tell(response, change, of=revision)


@router.delete(
    "/settings/{key}", status_code=HTTPStatus.NO_CONTENT, summary="Unset a setting"
)
def delete_setting(
    key: Key,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Reset a key of the dynamic configuration to its default."""
    with service.store.changing(author) as change:
        if not policies.delete_setting(change, key, precondition):
            raise NotFound("setting", key)
    tell(response, change)
