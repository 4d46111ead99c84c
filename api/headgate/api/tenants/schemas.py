"""Request and response schemas of tenants and namespaces."""

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.values.schemas import Body

MAX_LISTED = 100
"""Roles of one tenant, and clusters; both are kept for Pulsar's clients only."""


class TenantPut(Body):
    """A tenant; everything has a default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})

    admin_roles: list[str] = Field(default=[], max_length=MAX_LISTED)
    allowed_clusters: list[str] = Field(default=[], max_length=MAX_LISTED)


class TenantShown(BaseModel):
    """A tenant as it is stored."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "acme",
                    "admin_roles": [],
                    "allowed_clusters": [],
                    "revision": 1,
                }
            ]
        }
    )

    name: str
    admin_roles: list[str]
    allowed_clusters: list[str]
    revision: int = Field(description="Revision that last changed it; its ETag.")


class TenantPage(BaseModel):
    """Tenants in order of their names."""

    items: list[TenantShown]
    next: str | None = Field(description="Give it as `after` for the next page.")


class NamespaceShown(BaseModel):
    """A namespace of a tenant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"tenant": "acme", "name": "orders", "revision": 2}]
        }
    )

    tenant: str
    name: str = Field(description="Without the tenant.")
    revision: int = Field(description="Revision that last changed it; its ETag.")


class NamespacePage(BaseModel):
    """Namespaces of one tenant in order of their names."""

    items: list[NamespaceShown]
    next: str | None = Field(description="Give it as `after` for the next page.")
