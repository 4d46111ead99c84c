"""Request and response schemas of overrides."""

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from headgate.api.values.quantities import Quantity, ShownQuantity
from headgate.api.values.schemas import Body

MAX_FACTOR = 1e6
"""A larger factor is a mistake; a rate says it better."""

MAX_LIFE_S = 366 * 86_400.0
"""A year; what lasts longer is a change of the group."""


class OverridePut(Body):
    """A factor or a rate for one dimension of a group, or for all, and until when."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"group": "gold", "factor": 1.5, "for_s": 3600}]
        }
    )

    group: str
    dimension: str | None = Field(
        default=None, description="null: all dimensions of the group."
    )
    factor: Annotated[float | None, Field(ge=0, le=MAX_FACTOR, allow_inf_nan=False)] = (
        Field(
            default=None,
            description="Multiplies rate and burst, such as 1.5 for +50 %.",
        )
    )
    rate: Quantity | None = Field(
        default=None, description="Units per period, instead of a factor."
    )
    until: Annotated[AwareDatetime | None, Field(strict=False)] = Field(
        default=None, description="When it ends, unless `for_s` is given."
    )
    for_s: Annotated[float | None, Field(gt=0, le=MAX_LIFE_S, allow_inf_nan=False)] = (
        None
    )
    reason: str = Field(default="", max_length=500)


class OverrideShown(BaseModel):
    """An override that is in force."""

    group: str
    dimension: str | None
    factor: float | None
    rate: ShownQuantity | None
    ends_at_s: float = Field(description="Seconds since the epoch.")
    reason: str
    revision: int = Field(description="Revision that last changed it; its ETag.")


class OverridePage(BaseModel):
    """Overrides that are in force, in order of group and dimension."""

    items: list[OverrideShown]
    next: str | None = Field(description="Give it as `after` for the next page.")
