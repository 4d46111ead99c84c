"""Models that the bodies of several routes are made of."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from headgate.api.values.text import check_storable


class Body(BaseModel):
    """Base of all request bodies: exact types, no unknown fields, storable text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_storable(cls, value: object) -> object:
        check_storable(value)
        return value


class ChangeShown(BaseModel):
    """One thing that a revision changed."""

    kind: str = Field(description="Kind of object, such as group or attachment.")
    key: str = Field(description="The group's name, or the subject as JSON.")
    before: dict[str, object] | None = Field(description="null: it was created.")
    after: dict[str, object] | None = Field(description="null: it was deleted.")
    id: int | None = Field(
        default=None,
        exclude_if=lambda number: number is None,
        description="Id of a group, as in reports.",
    )
