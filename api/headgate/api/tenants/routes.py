"""REST routes of tenants and namespaces."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response

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
from headgate.api.tenants import service as tenants
from headgate.api.tenants.schemas import (
    NamespacePage,
    NamespaceShown,
    TenantPage,
    TenantPut,
    TenantShown,
)

router = APIRouter(tags=["tenants"])

Tenant = Annotated[str, Path(description="The tenant's name.", examples=["acme"])]
Namespace = Annotated[
    str, Path(description="The namespace's name in its tenant.", examples=["orders"])
]


@router.get("/tenants", summary="List tenants")
def list_tenants(
    service: ServiceOf,
    among: TenantsOf,
    after: AfterName = "",
    limit: PageSize = 100,
) -> TenantPage:
    """Return a page of tenants in order of their names."""
    with service.store.reading() as session:
        return tenants.list_tenants(session, after=after, limit=limit, among=among)


@router.get("/tenants/{tenant}", summary="Show a tenant")
def get_tenant(tenant: Tenant, service: ServiceOf, response: Response) -> TenantShown:
    """Return a tenant."""
    with service.store.reading() as session:
        found = tenants.shown_tenant(tenants.find_tenant(session, tenant))
    response.headers["ETag"] = etag(found.revision)
    return found


@router.put("/tenants/{tenant}", summary="Create or replace a tenant")
def put_tenant(
    tenant: Tenant,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
    body: TenantPut | None = None,
) -> TenantShown:
    """Create a tenant; no change if it already exists."""
    body = body or TenantPut()
    with service.store.changing(author) as change:
        made, is_new = tenants.put_tenant(
            change,
            tenant,
            admin_roles=body.admin_roles,
            allowed_clusters=body.allowed_clusters,
            precondition=precondition,
        )
    if is_new:
        response.status_code = HTTPStatus.CREATED
    tell(response, change, of=made.revision)
    return made


@router.delete(
    "/tenants/{tenant}", status_code=HTTPStatus.NO_CONTENT, summary="Delete a tenant"
)
def delete_tenant(
    tenant: Tenant,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Delete a tenant and its attachment; 409 while it has namespaces."""
    with service.store.changing(author) as change:
        tenants.delete_tenant(change, tenant, precondition)
    tell(response, change)


@router.get("/namespaces/{tenant}", summary="List a tenant's namespaces")
def list_namespaces(
    tenant: Tenant, service: ServiceOf, after: AfterName = "", limit: PageSize = 100
) -> NamespacePage:
    """Return a page of a tenant's namespaces in order of their names."""
    with service.store.reading() as session:
        return tenants.list_namespaces(session, tenant, after=after, limit=limit)


@router.get("/namespaces/{tenant}/{namespace}", summary="Show a namespace")
def get_namespace(
    tenant: Tenant, namespace: Namespace, service: ServiceOf, response: Response
) -> NamespaceShown:
    """Return a namespace."""
    with service.store.reading() as session:
        row = tenants.find_namespace(session, tenant, namespace)
        found = tenants.shown_namespace(row)
    response.headers["ETag"] = etag(found.revision)
    return found


@router.put("/namespaces/{tenant}/{namespace}", summary="Create a namespace")
def put_namespace(
    tenant: Tenant,
    namespace: Namespace,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> NamespaceShown:
    """Create a namespace of an existing tenant; no change if it exists."""
    with service.store.changing(author) as change:
        made, is_new = tenants.put_namespace(
            change, tenant, namespace, precondition=precondition
        )
    if is_new:
        response.status_code = HTTPStatus.CREATED
    tell(response, change, of=made.revision)
    return made


@router.delete(
    "/namespaces/{tenant}/{namespace}",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Delete a namespace",
)
def delete_namespace(
    tenant: Tenant,
    namespace: Namespace,
    service: ServiceOf,
    author: AuthorOf,
    precondition: PreconditionOf,
    response: Response,
) -> None:
    """Delete a namespace and its attachment."""
    with service.store.changing(author) as change:
        tenants.delete_namespace(change, tenant, namespace, precondition)
    tell(response, change)
