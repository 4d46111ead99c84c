"""What tokens look like in requests and responses."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.groups.schemas import Body
from headgate.api.rights.principal import Role

Tenants = Annotated[
    list[str] | None,
    Field(max_length=1000, description="An operator's tenants; null for all."),
]


class TokenPost(Body):
    """A token to be made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ci", "role": "operator", "tenants": ["acme"]}]
        }
    )

    name: str = Field(description="For whom; the audit names its bearer so.")
    role: Role
    tenants: Tenants = None
    life_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None


class TokenShown(BaseModel):
    """A token, without what would let anyone use it."""

    id: int
    name: str
    role: Role
    tenants: Tenants
    made_at_s: float = Field(description="Seconds since the epoch.")
    ends_at_s: float | None = Field(description="null: it has no end.")


class TokenMade(TokenShown):
    """A token that has just been made."""

    token: str = Field(description="Shown this once; only a hash of it is kept.")


class TokenPage(BaseModel):
    """Tokens in the order in which they were made."""

    items: list[TokenShown]
    next: int | None = Field(description="Give it as `after` for the next page.")


class Whoami(BaseModel):
    """Who the bearer of the request's token is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "anna", "role": "operator", "tenants": ["acme"]}]
        }
    )

    name: str
    role: Role
    tenants: Tenants
