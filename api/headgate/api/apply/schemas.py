"""Schemas of a quota file and of the resulting plan."""

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.attachments.schemas import AttachmentPut
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides.schemas import OverridePut
from headgate.api.policies.schemas import PolicyPut
from headgate.api.tenants.schemas import TenantPut
from headgate.api.values.schemas import Body, ChangeShown

MAX_THINGS = 250_000
"""Most objects of a kind in one file; the store is tested with 100,000 attachments."""


class AttachmentItem(AttachmentPut):
    """An attachment in a file."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subject": {"tenant": "acme"}, "group": "gold", "own": True}]
        }
    )

    own: bool = Field(
        default=False,
        description="The tenant's own operator attached it and may do otherwise; "
        "only an administrator's file decides that.",
    )


class Quotas(Body):
    """The wanted state; objects that the file does not name stay, unless it prunes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tenants": {"acme": {}},
                    "namespaces": ["acme/orders"],
                    "groups": {
                        "gold": {"limits": [{"dimension": "requests", "rate": 1000}]}
                    },
                    "attachments": [{"subject": {"tenant": "acme"}, "group": "gold"}],
                }
            ]
        }
    )

    tenants: dict[str, TenantPut | None] = Field(default={}, max_length=MAX_THINGS)
    namespaces: list[str] = Field(default=[], max_length=MAX_THINGS)
    namespace_policies: dict[str, dict[str, object]] = Field(
        default={},
        max_length=MAX_THINGS,
        description="Namespace to the policies that Pulsar's clients keep with it. "
        "A namespace that is not here keeps what it has.",
    )
    groups: dict[str, GroupBody | None] = Field(default={}, max_length=MAX_THINGS)
    attachments: list[AttachmentItem] = Field(default=[], max_length=MAX_THINGS)
    policies: list[PolicyPut] = Field(default=[], max_length=MAX_THINGS)
    settings: dict[str, str | None] = Field(
        default={}, max_length=100, description="Null resets a key to its default."
    )
    overrides: list[OverridePut] = Field(
        default=[],
        max_length=MAX_THINGS,
        description="One that has already ended is left out.",
    )
    prune: bool = Field(
        default=False,
        description="Delete groups, attachments and policies that are not named.",
    )


class ApplyPlan(BaseModel):
    """The changes that an apply made, or would make."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "revision": 4,
                    "dry_run": True,
                    "changes": [
                        {
                            "kind": "tenant",
                            "key": "acme",
                            "before": {"admin_roles": ["root"], "allowed_clusters": []},
                            "after": {"admin_roles": [], "allowed_clusters": []},
                        }
                    ],
                }
            ]
        }
    )

    revision: int = Field(description="In force now.")
    dry_run: bool
    changes: list[ChangeShown] = Field(
        description="Empty if the state is already as wanted."
    )
