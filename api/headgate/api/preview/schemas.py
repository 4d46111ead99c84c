"""Request and response schemas of previews."""

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.groups.schemas import GroupPut
from headgate.api.values.quantities import ShownQuantity
from headgate.api.values.schemas import Body, ChangeShown


class PreviewPost(Body):
    """A group as it would be after the change."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "group": "gold",
                    "body": {"limits": [{"dimension": "requests", "rate": 500}]},
                }
            ]
        }
    )

    group: str
    body: GroupPut


class AgentPreview(BaseModel):
    """One agent's part, now and after."""

    agent: str
    demand_per_s: float
    share_before_per_s: float
    share_after_per_s: float = Field(description="Max-min share of the present demand.")


class LimitPreview(BaseModel):
    """One dimension, now and after."""

    dimension: str
    rate_before_per_s: ShownQuantity | None = Field(description="null: no limit.")
    rate_after_per_s: ShownQuantity | None = Field(description="null: no limit.")
    demand_per_s: float = Field(description="Attempted now.")
    refused_before_per_s: float = Field(description="Refused now.")
    refused_after_per_s: float = Field(
        description="Refused after the change, if demand stays the same."
    )
    agents: list[AgentPreview]
    sentence: str


class Preview(BaseModel):
    """The effect of a change."""

    revision: int = Field(description="Revision that the change was compared with.")
    seen_at_s: float | None = Field(
        description="Time of the observation; null before the first one."
    )
    attachments: int = Field(description="Subjects that belong to the group.")
    changes: list[ChangeShown]
    limits: list[LimitPreview]
