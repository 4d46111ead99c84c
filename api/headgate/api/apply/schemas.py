"""Schemas of a quota file and of the resulting plan."""

import json
from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headgate.api.apply.parsing import object_of
from headgate.api.attachments.schemas import AttachmentPut
from headgate.api.groups.schemas import GroupBody
from headgate.api.overrides.schemas import OverridePut
from headgate.api.policies.schemas import PolicyPut
from headgate.api.tenants.schemas import TenantPut
from headgate.api.values.schemas import Body, ChangeShown
from headgate.api.values.text import check_storable

MAX_THINGS = 250_000
"""Most objects of a kind in one file; the store is tested with 100,000 attachments."""


def _as_json(policies: dict[str, object]) -> dict[str, object]:
    """Return `policies` as JSON keeps them, since they are stored as they are sent.

    YAML also has dates and keys that are numbers; Python's JSON has NaN and lone
    surrogates, which every later export and audit would fail on.
    """
    try:
        text = json.dumps(policies, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected JSON: {error}") from error
    check_storable(text)
    # Keys that differ in YAML, such as 1 and "1", may be the same in JSON.
    return cast("dict[str, object]", json.loads(text, object_pairs_hook=object_of))


class AttachmentItem(AttachmentPut):
    """An attachment in a file."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subject": {"tenant": "acme"}, "group": "gold", "own": True}]
        }
    )

    own: bool = Field(
        default=False,
        description="Attached by the tenant's own operator, who may change it; only "
        "an administrator's file can set this.",
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
    namespace_policies: dict[
        str, Annotated[dict[str, object], AfterValidator(_as_json)]
    ] = Field(
        default={},
        max_length=MAX_THINGS,
        description="For each namespace, the policies that Pulsar's clients store "
        "with it. A namespace that is not named here keeps its own.",
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
        description="Overrides that have already ended are skipped.",
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
        description="Empty if there is nothing to change."
    )
