"""Request and response schemas of tokens."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.rights.principal import Role
from headgate.api.values.schemas import Body

Tenants = Annotated[
    list[str] | None,
    Field(max_length=1000, description="An operator's tenants; null for all."),
]


class TokenPost(Body):
    """A token to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ci", "role": "operator", "tenants": ["acme"]}]
        }
    )

    name: str = Field(description="The bearer's name, as recorded in the audit.")
    role: Role
    tenants: Tenants = None
    life_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None


class TokenShown(BaseModel):
    """A token, without its secret."""

    id: int
    name: str
    role: Role
    tenants: Tenants
    made_at_s: float = Field(description="Seconds since the epoch.")
    ends_at_s: float | None = Field(description="null: it does not expire.")


class TokenMade(TokenShown):
    """A token that has just been created."""

    token: str = Field(description="Shown only once; the server keeps only a hash.")


class TokenPage(BaseModel):
    """Tokens in the order in which they were created."""

    items: list[TokenShown]
    next: int | None = Field(description="Give it as `after` for the next page.")


class Whoami(BaseModel):
    """The bearer of the request's token."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "anna", "role": "operator", "tenants": ["acme"]}]
        }
    )

    name: str
    role: Role
    tenants: Tenants
