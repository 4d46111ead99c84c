"""Bodies of claims and grants."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.values.names import MAX_NAME
from headgate.api.values.quantities import MAX_ROW_ID

MOST_LIMITS = 500
"""Most limits in one claim; an agent asks about a limit when it is first used."""


class LimitNamed(BaseModel):
    """One limit of a group."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: Annotated[int, Field(ge=1, le=MAX_ROW_ID, description="Id of the group.")]
    dimension: Annotated[
        str,
        Field(
            min_length=1,
            max_length=64,
            description="What is limited; `slots_in_flight` for slots.",
        ),
    ]


class Claimed(BaseModel):
    """What an agent has begun to use."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"agent": "a", "limits": [{"group": 1, "dimension": "requests"}]}
            ]
        },
    )

    agent: Annotated[
        str, Field(min_length=1, max_length=MAX_NAME, description="Id of the agent.")
    ]
    limits: Annotated[list[LimitNamed], Field(max_length=MOST_LIMITS)]


class AgentCounted(BaseModel):
    """What of an agent's counter a level includes."""

    agent: Annotated[str, Field(description="Id of the agent.")]
    incarnation: Annotated[int, Field(description="Its life.")]
    counted: Annotated[
        float,
        Field(description="Units admitted since that began, as far as it is known."),
    ]


class LevelTold(LimitNamed):
    """What is left of a limit that has been used."""

    level: Annotated[
        float, Field(description="Units left when it was seen; negative for a debt.")
    ]
    age_s: Annotated[float, Field(description="Seconds since then.")]
    counted: Annotated[
        float | None,
        Field(
            description="Units of the asking agent that the level includes, as it "
            "counts them since its incarnation began; null if that is not known."
        ),
    ] = None
    others: Annotated[
        list[AgentCounted] | None,
        Field(
            description="The same of all other agents that use the limit now; null if "
            "that is not known, or they are too many."
        ),
    ] = None


class GrantShown(BaseModel):
    """The limits among those that the agent may found, and levels that are known."""

    granted: list[LimitNamed]
    levels: list[LevelTold] = []
