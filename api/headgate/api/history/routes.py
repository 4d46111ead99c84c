"""REST route of the history of a group's use."""

from typing import Annotated, cast

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from headgate.api.groups.service import find_group
from headgate.api.history.history import STEP_S, Course, UsageHistory
from headgate.api.http.dependencies import ServiceOf, TenantsOf
from headgate.api.rights.visibility import require_visible

MAX_LINES = 100
"""Most agents listed one by one; a chart of more than a dozen is unreadable anyway."""

router = APIRouter(prefix="/groups", tags=["live"])

Series = list[float | None]


class AgentLineShown(BaseModel):
    """One agent's part over time; the empty id is the sum of all others."""

    agent: str
    share: Series = Field(description="Allocated units/s.")
    admitted: Series = Field(description="Admitted units/s.")


class CourseShown(BaseModel):
    """One limit's use over time: columns of equal length, null where not seen."""

    dimension: str
    at_s: list[float] = Field(
        description="Middle of each step, seconds since the epoch."
    )
    admitted: Series = Field(description="Units/s.")
    demand: Series = Field(description="Attempted units/s, including refused ones.")
    refused: Series = Field(description="Units/s.")
    level: Series = Field(description="Units; negative if in debt.")
    rate: Series = Field(description="The limit, units/s; null: unlimited.")
    agents: list[AgentLineShown]


class HistoryShown(BaseModel):
    """The last half hour of a group."""

    group: str
    step_s: float = Field(description="Each point is the mean over this many seconds.")
    dimensions: list[CourseShown]


@router.get("/{name}/history", summary="Show a group's use of the last 30 minutes")
def get_history(
    name: Annotated[str, Path(description="The group's name.", examples=["gold"])],
    service: ServiceOf,
    tenants: TenantsOf,
    request: Request,
    dimension: Annotated[
        str | None, Query(max_length=64, description="Only this dimension.")
    ] = None,
    agents: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_LINES,
            description="Number of agents listed one by one; the rest are summed.",
        ),
    ] = 12,
) -> HistoryShown:
    """Return what this process observed; empty for a group that was not used."""
    with service.store.reading() as session:
        require_visible(session, tenants, name)
        group_id = find_group(session, name).id
    history = cast("UsageHistory", request.app.state.observing.history)
    wanted = history.dimensions(group_id) if dimension is None else [dimension]
    courses = [
        _shown(each, course)
        for each in wanted
        if (course := history.course(group_id, each, agents=agents)) is not None
    ]
    return HistoryShown(group=name, step_s=STEP_S, dimensions=courses)


def _shown(dimension: str, course: Course) -> CourseShown:
    seen = np.flatnonzero(~np.isnan(course.columns["admitted"]))
    since = slice(int(seen[0]) if len(seen) else None, None)
    columns = {name: _series(each[since]) for name, each in course.columns.items()}
    return CourseShown(
        dimension=dimension,
        at_s=course.at_s[since].tolist(),
        agents=[
            AgentLineShown(
                agent=line.agent,
                share=_series(line.share[since]),
                admitted=_series(line.admitted[since]),
            )
            for line in course.agents
        ],
        **columns,
    )


def _series(values: NDArray[np.float32]) -> Series:
    """Return `values` for JSON: five digits are more than a chart shows."""
    return [
        float(f"{value:.5g}") if finite else None
        for value, finite in zip(values.tolist(), np.isfinite(values), strict=True)
    ]
