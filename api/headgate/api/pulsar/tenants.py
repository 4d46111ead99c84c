"""Clusters, tenants and namespaces on Pulsar's paths, as far as groups need them."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from headgate.api.attachments.service import attached_group, put_attachment
from headgate.api.attachments.subjects import checked_subject
from headgate.api.http.dependencies import AuthorOf, ServiceOf, tell
from headgate.api.pulsar.bodies import ObjectOf, OptionalObjectOf, strings
from headgate.api.store.tables import NamespaceRow, StateRow, TenantRow
from headgate.api.tenants import service as tenants
from headgate.api.values.errors import InUse
from headgate.api.values.pulsar_wording import CLUSTER_MISSING, pulsar_reason

router = APIRouter(tags=["pulsar: tenants and namespaces"])

GROUP_MEMBER = "resource_group_name"
"""Member of Pulsar's Policies object; it is stored as an attachment."""

_NO_CONTENT = HTTPStatus.NO_CONTENT


@router.get("/clusters", summary="List clusters")
def list_clusters(service: ServiceOf) -> list[str]:
    """Return the name of the one cluster; `tenants create` asks for it."""
    with service.store.reading() as session:
        return list(session.scalars(select(StateRow.cluster)))


@router.get("/clusters/{cluster}", summary="Show a cluster")
def get_cluster(
    cluster: str, request: Request, service: ServiceOf
) -> dict[str, str | bool]:
    """Return where the one cluster is served, as Pulsar's ClusterData."""
    with service.store.reading() as session:
        known = session.scalars(select(StateRow.cluster)).all()
    if cluster not in known:
        raise HTTPException(HTTPStatus.NOT_FOUND, CLUSTER_MISSING)
    return {
        "serviceUrl": str(request.base_url).rstrip("/"),
        "brokerClientTlsEnabled": request.url.scheme == "https",
        "tlsAllowInsecureConnection": False,
    }


@router.get("/tenants", summary="List tenants")
def list_tenants(service: ServiceOf) -> list[str]:
    """Return the names of all tenants."""
    with service.store.reading() as session:
        return list(session.scalars(select(TenantRow.name).order_by(TenantRow.name)))


@router.get("/tenants/{tenant}", summary="Show a tenant")
def get_tenant(tenant: str, service: ServiceOf) -> dict[str, list[str]]:
    """Return a tenant's roles and clusters."""
    with service.store.reading() as session:
        row = tenants.find_tenant(session, tenant)
        return {
            "adminRoles": row.admin_roles,
            "allowedClusters": row.allowed_clusters,
        }


@router.put("/tenants/{tenant}", status_code=_NO_CONTENT, summary="Create a tenant")
def create_tenant(
    tenant: str,
    body: OptionalObjectOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Create a tenant; 409 if it already exists."""
    body = body or {}
    with service.store.changing(author) as change:
        tenants.put_tenant(
            change,
            tenant,
            admin_roles=strings(body, "adminRoles"),
            allowed_clusters=strings(body, "allowedClusters"),
            must_be_new=True,
        )
    tell(response, change)


@router.post("/tenants/{tenant}", status_code=_NO_CONTENT, summary="Update a tenant")
def update_tenant(
    tenant: str,
    body: ObjectOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Replace a tenant's roles and clusters."""
    with service.store.changing(author) as change:
        tenants.find_tenant(change.session, tenant)
        tenants.put_tenant(
            change,
            tenant,
            admin_roles=strings(body, "adminRoles"),
            allowed_clusters=strings(body, "allowedClusters"),
        )
    tell(response, change)


@router.delete("/tenants/{tenant}", status_code=_NO_CONTENT, summary="Delete a tenant")
def delete_tenant(
    tenant: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
    force: bool = False,
) -> None:
    """Delete a tenant; with `force` its namespaces go first."""
    with service.store.changing(author) as change:
        tenants.find_tenant(change.session, tenant)
        if force:
            for name in _namespaces(change.session, tenant):
                tenants.delete_namespace(change, tenant, name)
        try:
            tenants.delete_tenant(change, tenant)
        except InUse as error:
            raise HTTPException(HTTPStatus.CONFLICT, pulsar_reason(error)) from error
    tell(response, change)


@router.get("/namespaces/{tenant}", summary="List a tenant's namespaces")
def list_namespaces(tenant: str, service: ServiceOf) -> list[str]:
    """Return the full names of a tenant's namespaces."""
    with service.store.reading() as session:
        tenants.find_tenant(session, tenant)
        return [f"{tenant}/{name}" for name in _namespaces(session, tenant)]


@router.get("/namespaces/{tenant}/{namespace}", summary="Show a namespace's policies")
def get_policies(tenant: str, namespace: str, service: ServiceOf) -> dict[str, object]:
    """Return the policies as they were sent, with the present resource group."""
    with service.store.reading() as session:
        row = tenants.find_namespace(session, tenant, namespace)
        group = attached_group(session, (("namespace", f"{tenant}/{namespace}"),))
        return {**row.policies, GROUP_MEMBER: group}


@router.put(
    "/namespaces/{tenant}/{namespace}",
    status_code=_NO_CONTENT,
    summary="Create a namespace",
)
def create_namespace(
    tenant: str,
    namespace: str,
    body: OptionalObjectOf,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Create a namespace; 409 if it already exists, 404 if the tenant does not."""
    policies = body or {}
    group = policies.get(GROUP_MEMBER)
    kept = {name: value for name, value in policies.items() if name != GROUP_MEMBER}
    with service.store.changing(author) as change:
        tenants.put_namespace(
            change, tenant, namespace, policies=kept, must_be_new=True
        )
        if isinstance(group, str) and group:
            subject = (("namespace", f"{tenant}/{namespace}"),)
            put_attachment(change, subject, group)
    tell(response, change)


@router.delete(
    "/namespaces/{tenant}/{namespace}",
    status_code=_NO_CONTENT,
    summary="Delete a namespace",
)
def delete_namespace(
    tenant: str,
    namespace: str,
    service: ServiceOf,
    author: AuthorOf,
    response: Response,
) -> None:
    """Delete a namespace and its attachment."""
    with service.store.changing(author) as change:
        tenants.delete_namespace(change, tenant, namespace)
    tell(response, change)


@router.put(
    "/persistent/{tenant}/{namespace}/{topic}",
    status_code=_NO_CONTENT,
    summary="Create a topic",
)
def create_topic(tenant: str, namespace: str, topic: str, service: ServiceOf) -> None:
    """Check that the topic could exist; topics need not be declared."""
    checked_subject({"topic": f"{tenant}/{namespace}/{topic}"})
    with service.store.reading() as session:
        tenants.find_namespace(session, tenant, namespace)


def _namespaces(session: Session, tenant: str) -> list[str]:
    query = select(NamespaceRow.name).where(NamespaceRow.tenant == tenant)
    return list(session.scalars(query.order_by(NamespaceRow.name)))
